/* SPDX-License-Identifier: MIT */
/* spot-plan deadline - spot, on demand or nothing for the next tick. */

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/rows.h"
#include "cli/tool.h"
#include "common/json.h"
#include "common/out.h"
#include "common/prov.h"
#include "common/xalloc.h"
#include "model/forecast_doc.h"
#include "model/price_doc.h"
#include "plan/decision.h"
#include "plan/market_read.h"
#include "plan_commands.h"
#include "trace/trace.h"

static const char *const mode_name[] = { "idle", "spot", "on-demand" };

static struct options {
    struct spot_tool_common common;
    const char *forecast, *trace, *zone, *now, *at, *restart, *catalogue, *prices;
    double work_s, deadline_s, done_s, elapsed_s, tick_s, learn_s, launching_s, state_gb;
    double price[2], egress_usd;       /* spot, on demand */
    bool has_spot, explain, has_price; /* of spot, given */
} o = { .common = SPOT_TOOL_COMMON_DEFAULT,
        .now = "idle",
        .restart = "0",
        .has_spot = true,
        .price = { -1, -1 } };

enum { WHY_MAX = 3 * SPOT_MARKET_PLACES_MAX + 2, WHY_TEXT = 256 };

struct session {
    struct spot_market market;
    struct spot_market_names names;
    struct spot_market_now now;
    struct spot_trace trace;
    const struct spot_trace_series *series[SPOT_MARKET_PLACES_MAX]; /* of the trace, by place */
    struct spot_json_doc json, price_json; /* of the forecast, of --prices */
    struct spot_forecast forecast;
    struct spot_price_doc price;
    double *path; /* [n_place][2][n_path] */
    size_t n_priced;
    double time_s;
    struct spot_run_dist law[SPOT_MARKET_PLACES_MAX]; /* of a forecast */
    bool *there;                                      /* [n_row][MAX] of a trace */
    double *usd_per_h;                                /* the same */
    size_t n_row;
    double step_usd[SPOT_MARKET_PLACES_MAX][3];
    struct spot_market_step want;
    struct spot_prov prov;
    char why[WHY_MAX][WHY_TEXT];
    size_t n_why;
};

/* --- what is known of spot --- */

/* Returns the place, or NULL with *err. */
static struct spot_market_place *add_place(struct session *s, const char *zone, const char *type,
                                           struct spot_err *err)
{
    return spot_market_add_place(&s->market, &s->names, zone, type, o.price[0], o.price[1], err)
               ? NULL
               : &s->market.place[s->market.n_place - 1];
}

static int fit(struct session *s, const struct spot_forecast_series *series, struct spot_err *err)
{
    double *up;

    if (!add_place(s, series->zone, series->instance_type, err))
        return -1;
    up = spot_xcalloc((size_t)s->forecast.horizon, sizeof(double));
    for (int64_t k = 1; k <= s->forecast.horizon; k++)
        up[k - 1] = 1 - spot_forecast_at(series, k)[0];
    s->now.has_spot[s->market.n_place - 1] = series->now > 0;
    s->time_s = series->time_s;
    spot_run_dist_fit(&s->law[s->market.n_place - 1], series->now > 0, up,
                      (size_t)s->forecast.horizon);
    free(up);
    return 0;
}

static int read_forecast(struct session *s, struct spot_err *err)
{
    if (spot_json_load_path(&s->json, o.forecast, err) ||
        spot_forecast_read_instances(&s->json, &s->forecast, err))
        return -1;
    spot_prov_add(&s->prov, s->json.source, s->json.hash);
    s->market.tick_s = o.tick_s > 0 ? o.tick_s : s->forecast.interval_s;
    if (fabs(s->market.tick_s - s->forecast.interval_s) > 1e-9)
        return spot_json_fail(&s->json, "/interval_s", err, "is not --tick %g s", o.tick_s);
    for (size_t i = 0; i < s->forecast.n_series; i++)
        if (spot_market_takes_zone(o.zone, s->forecast.series[i].zone) &&
            fit(s, &s->forecast.series[i], err))
            return -1;
    return s->market.n_place
               ? 0
               : spot_json_fail(&s->json, "/series", err, "has none of zone '%.64s'", o.zone);
}

static int look_at(struct session *s, const struct spot_trace_series *series, struct spot_err *err)
{
    int32_t *there;
    size_t n;

    if (!add_place(s, series->zone, series->instance_type, err))
        return -1;
    if (!(s->market.tick_s > 0))
        s->market.tick_s = o.tick_s > 0 ? o.tick_s : spot_trace_interval_s(series);
    if (!(s->market.tick_s > 0))
        return spot_err_set(err, SPOT_EUSAGE, "%s has one row: give --tick", o.trace);
    n = spot_trace_grid_n(s->trace.start_s, s->trace.end_s, s->market.tick_s);
    if (spot_trace_check_grid(&s->trace, (double)n, s->market.tick_s, SPOT_TRACE_GRID_MAX,
                              "give a longer --tick", err))
        return -1;
    if (!s->there)
        s->there = spot_xcalloc(n, SPOT_MARKET_PLACES_MAX * sizeof(*s->there));
    if (!s->usd_per_h && !o.has_price)
        s->usd_per_h = spot_xcalloc(n, SPOT_MARKET_PLACES_MAX * sizeof(*s->usd_per_h));
    s->n_row = n;
    there = spot_xcalloc(n, sizeof(*there));
    spot_trace_resample(series, s->trace.start_s, s->market.tick_s, n, there);
    for (size_t i = 0; i < n; i++)
        s->there[i * SPOT_MARKET_PLACES_MAX + s->market.n_place - 1] = there[i] > 0;
    s->now.has_spot[s->market.n_place - 1] = there[n - 1] > 0;
    free(there);
    return 0;
}

static int look_at_all(struct session *s, struct spot_err *err)
{
    const struct spot_trace_series **sorted =
        spot_xcalloc(s->trace.n_series, sizeof(const struct spot_trace_series *));
    int rc = 0;

    spot_market_sort_series(&s->trace, sorted);
    for (size_t i = 0; i < s->trace.n_series && !rc; i++)
        if (spot_market_takes_zone(o.zone, sorted[i]->zone)) {
            s->series[s->market.n_place < SPOT_MARKET_PLACES_MAX ? s->market.n_place : 0] =
                sorted[i];
            rc = look_at(s, sorted[i], err);
        }
    free(sorted);
    return rc;
}

static int read_trace(struct session *s, struct spot_err *err)
{
    if (spot_trace_load_path(&s->trace, o.trace, err))
        return -1;
    spot_prov_add(&s->prov, o.trace, s->trace.xxh3);
    s->time_s = s->trace.end_s;
    if (look_at_all(s, err))
        return -1;
    return s->market.n_place
               ? 0
               : spot_err_set(err, SPOT_EDATA, "%s: no series of zone '%.64s'", o.trace, o.zone);
}

static int read_dist(struct session *s, struct spot_err *err)
{
    if (o.forecast)
        return read_forecast(s, err);
    if (o.trace)
        return read_trace(s, err);
    s->market.tick_s = o.tick_s > 0 ? o.tick_s : 600;
    if (!add_place(s, o.zone ? o.zone : "", "", err))
        return -1;
    s->now.has_spot[0] = o.has_spot;
    return 0;
}

/* Prices of the trace, where it has them and none is told. */
static void read_trace_prices(struct session *s)
{
    for (size_t k = 0; s->usd_per_h && k < s->market.n_place; k++) {
        struct spot_market_place *p = &s->market.place[k];

        spot_market_read_prices(s->series[k], s->trace.start_s, s->market.tick_s, s->n_row,
                                p->spot_usd_per_h, s->usd_per_h + k, SPOT_MARKET_PLACES_MAX);
        p->spot_usd_per_h = s->usd_per_h[(s->n_row - 1) * SPOT_MARKET_PLACES_MAX + k];
    }
}

static int read_market(struct session *s, struct spot_err *err)
{
    s->market.work_s = o.work_s;
    s->market.deadline_s = o.deadline_s;
    s->market.egress_usd = o.egress_usd;
    if (spot_market_parse_restart(&s->market, o.restart, err) || read_dist(s, err))
        return -1;
    if (o.catalogue && spot_market_read_catalogue(&s->market, &s->names, o.state_gb, o.catalogue,
                                                  o.forecast ? o.forecast : o.trace, &s->prov, err))
        return -1;
    read_trace_prices(s);
    return 0;
}

/* --- expected prices --- */

/* The mean of each tick from now on: at its middle the nearest step, which is now before half of
 * the first. */
static void fill_path(const struct session *s, const struct spot_price_entry *e, double *path)
{
    for (size_t i = 0; i < s->market.n_path; i++) {
        const double at = ((double)i + 0.5) * s->market.tick_s / s->price.interval_s;
        const int64_t step = llround(fmin(at, (double)s->price.horizon));

        path[i] = step ? e->step[step - 1].mean_usd_per_h : e->now_usd_per_h;
    }
}

static int read_prices(struct session *s, struct spot_err *err)
{
    static const char *const market[2] = { "spot", "on_demand" };

    if (spot_json_load_path(&s->price_json, o.prices, err) ||
        spot_price_read(&s->price_json, &s->price, err))
        return -1;
    spot_prov_add(&s->prov, s->price_json.source, s->price_json.hash);
    s->market.path_ticks = spot_market_ticks(&s->market, &s->now);
    s->market.n_path = (size_t)s->market.path_ticks;
    s->path = spot_xcalloc(2 * s->market.n_place * s->market.n_path, sizeof(double));
    for (size_t k = 0; k < s->market.n_place; k++)
        for (size_t i = 0; i < 2; i++) {
            const struct spot_price_entry *e =
                spot_price_find(&s->price, s->names.zone[k], s->names.type[k], market[i]);

            if (!e)
                continue;
            s->market.place[k].path[i] = s->path + (2 * k + i) * s->market.n_path;
            fill_path(s, e, s->path + (2 * k + i) * s->market.n_path);
            s->n_priced++;
        }
    return s->n_priced ? 0
                       : spot_json_fail(&s->price_json, "/series", err,
                                        "has no price of the zones and types asked for");
}

/* --- the answer --- */

static int find_place(struct session *s, struct spot_err *err)
{
    for (size_t k = 0; k < s->market.n_place; k++)
        if (!o.at || !strcmp(o.at, s->names.zone[k])) {
            s->now.place = k;
            return o.at || s->market.n_place == 1 || s->now.is_new
                       ? 0
                       : spot_err_set(err, SPOT_EUSAGE,
                                      "--at is needed: in which zone it runs or last ran");
        }
    return spot_err_set(err, SPOT_EUSAGE, "--at: no place is in zone '%.64s'", o.at);
}

static int set_now(struct session *s, struct spot_err *err)
{
    for (int m = 0; m < 3; m++)
        if (!strcmp(o.now, mode_name[m]))
            s->now.mode = (enum spot_deadline_mode)m;
    if (!(o.done_s < o.work_s))
        return spot_err_set(err, SPOT_EINFEASIBLE, "all work is done: nothing to run");
    s->now.is_new = s->now.mode == SPOT_DEADLINE_IDLE && !o.at;
    if (find_place(s, err))
        return -1;
    if (s->now.mode == SPOT_DEADLINE_SPOT && !s->now.has_spot[s->now.place])
        s->now.mode = SPOT_DEADLINE_IDLE; /* it is lost */
    s->now.elapsed_s = o.elapsed_s;
    s->now.left_s = o.work_s - o.done_s;
    s->now.pending =
        s->now.mode == SPOT_DEADLINE_IDLE ? 0 : llround(o.launching_s / s->market.tick_s);
    return spot_market_check(&s->market, &s->now, err);
}

/* Idle is the same wherever it is: said once, of where it last ran. */
static bool is_told(const struct session *s, int mode, size_t place)
{
    return mode != SPOT_DEADLINE_IDLE || place == s->now.place;
}

static void label(const struct session *s, int mode, size_t place, char text[WHY_TEXT / 2])
{
    if (mode == SPOT_DEADLINE_IDLE || s->market.n_place == 1)
        snprintf(text, WHY_TEXT / 2, "%s", mode_name[mode]);
    else
        snprintf(text, WHY_TEXT / 2, "%s in %.40s, %.40s", mode_name[mode], s->names.zone[place],
                 s->names.type[place]);
}

static void explain_step(struct session *s, int mode, size_t place)
{
    const double usd = s->step_usd[place][mode];
    char text[WHY_TEXT / 2];

    label(s, mode, place, text);
    if (isinf(usd))
        snprintf(s->why[s->n_why++], WHY_TEXT, "%s: %s", text,
                 mode == SPOT_DEADLINE_SPOT && !s->now.has_spot[place] ? "there is none"
                 : mode == SPOT_DEADLINE_ON_DEMAND &&
                         isinf(s->market.place[place].on_demand_usd_per_h)
                     ? "not for sale"
                     : "on demand could not finish in time after it");
    else
        snprintf(s->why[s->n_why++], WHY_TEXT, "%s now: %.2f usd expected in all%s", text, usd,
                 mode == (int)s->want.mode && place == s->want.place ? ", the least" : "");
}

/* On demand for so many ticks from now on. */
static double on_demand_usd(const struct session *s, size_t place, double ticks)
{
    const int64_t left = spot_market_ticks(&s->market, &s->now);
    double usd = 0;

    for (int64_t i = 0; (double)i < ticks; i++)
        usd += spot_market_usd_per_h(
            &s->market, (struct spot_market_step){ SPOT_DEADLINE_ON_DEMAND, place }, left - i);
    return usd * s->market.tick_s / 3600;
}

static void explain(struct session *s)
{
    const size_t place = spot_market_refuge(&s->market);
    const double restart_s =
        s->now.mode == SPOT_DEADLINE_ON_DEMAND ? 0 : s->market.restart_s[s->market.n_restart - 1];
    const double ticks =
        ceil((s->now.left_s / s->market.place[place].speed + restart_s) / s->market.tick_s - 1e-9);

    for (size_t k = 0; k < s->market.n_place; k++)
        for (int m = 0; m < 3; m++)
            if (is_told(s, m, k))
                explain_step(s, m, k);
    snprintf(s->why[s->n_why++], WHY_TEXT,
             "on demand alone, from now to the end: %.2f usd; on demand still finishes in time "
             "after whatever is chosen",
             on_demand_usd(s, place, ticks));
    if (s->n_priced)
        snprintf(s->why[s->n_why++], WHY_TEXT,
                 "%zu prices are the expected ones of each tick for %g s, then as at their end",
                 s->n_priced, (double)s->price.horizon * s->price.interval_s);
}

static void write_step(struct spot_jw *jw, const struct session *s, int mode, size_t place)
{
    spot_jw_str(jw, "mode", mode_name[mode]);
    if (mode != SPOT_DEADLINE_IDLE && *s->names.zone[place])
        spot_jw_str(jw, "zone", s->names.zone[place]);
    if (mode != SPOT_DEADLINE_IDLE && *s->names.type[place])
        spot_jw_str(jw, "instance_type", s->names.type[place]);
}

static int write_json(const struct session *s, FILE *out, struct spot_err *err)
{
    struct spot_jw jw;

    spot_jw_init(&jw, out, true);
    spot_jw_begin_doc(&jw, "spot.plan", 1, &s->prov);
    spot_jw_str(&jw, "kind", "deadline");
    spot_jw_real(&jw, "time_s", s->time_s);
    write_step(&jw, s, s->want.mode, s->want.place);
    spot_jw_real(&jw, "hold_s", s->market.tick_s);
    spot_jw_object(&jw, "expected");
    spot_jw_real(&jw, "usd", s->step_usd[s->want.place][s->want.mode]);
    spot_jw_end(&jw);
    spot_jw_array(&jw, "why");
    for (size_t i = 0; i < s->n_why; i++)
        spot_jw_str(&jw, NULL, s->why[i]);
    spot_jw_end(&jw);
    spot_jw_array(&jw, "alternatives");
    for (size_t k = 0; k < s->market.n_place; k++)
        for (int m = 0; m < 3; m++) {
            const bool is_it = m == (int)s->want.mode && k == s->want.place;

            if (is_it || !is_told(s, m, k) || isinf(s->step_usd[k][m]))
                continue;
            spot_jw_object(&jw, NULL);
            write_step(&jw, s, m, k);
            spot_jw_real(&jw, "usd", s->step_usd[k][m]);
            spot_jw_end(&jw);
        }
    spot_jw_end(&jw);
    spot_jw_end(&jw);
    return spot_jw_close(&jw, err);
}

static int write_plan(const struct session *s, enum spot_format format, struct spot_err *err)
{
    struct spot_out out;
    char text[WHY_TEXT / 2];
    int rc = 0;

    if (spot_out_open(&out, o.common.output, err))
        return -1;
    if (format == SPOT_FORMAT_TABLE) {
        label(s, s->want.mode, s->want.place, text);
        fprintf(out.file, "%s for %g s\n\n", text, s->market.tick_s);
        for (size_t i = 0; i < s->n_why; i++)
            fprintf(out.file, "%s\n", s->why[i]);
    } else {
        rc = write_json(s, out.file, err);
    }
    return spot_out_finish(&out, rc, err);
}

static const double *prices_of(const struct session *s, size_t row)
{
    return s->usd_per_h ? s->usd_per_h + row * SPOT_MARKET_PLACES_MAX : NULL;
}

/* One call of the decision that spot-replay and a live loop call as well. */
static int decide(struct session *s, const struct spot_policy *policy, struct spot_err *err)
{
    const struct spot_deadline_rule rule = { .market = &s->market,
                                             .learn_ticks =
                                                 spot_market_learn_ticks(&s->market, o.learn_s),
                                             .law = o.forecast ? s->law : NULL };
    const size_t ran = (size_t)llround(o.elapsed_s / s->market.tick_s);
    struct spot_decider *decider = policy->open(&(struct spot_rule){ .deadline = &rule });
    struct spot_action action = { .grid = { 0 } };
    int rc = 0;

    for (size_t i = 0; i + 1 < s->n_row && !rc; i++)
        rc = policy->observe(decider,
                             &(struct spot_seen){ .has_spot = s->there + i * SPOT_MARKET_PLACES_MAX,
                                                  .spot_usd_per_h = prices_of(s, i),
                                                  .now = i + 1 + ran < s->n_row ? NULL : &s->now },
                             err);
    rc = rc ||
         policy->observe(
             decider,
             &(struct spot_seen){ .has_spot = s->now.has_spot,
                                  .spot_usd_per_h = s->n_row ? prices_of(s, s->n_row - 1) : NULL,
                                  .now = &s->now },
             err) ||
         policy->decide(decider, &action, &(struct spot_told){ .step_usd = s->step_usd }, err);
    s->want = action.step;
    policy->close(decider);
    return rc ? -1 : 0;
}

static int run(struct session *s, struct spot_err *err)
{
    const struct spot_policy *policy = spot_policy_find("deadline", "spot", err);
    enum spot_format format;

    if (!policy || spot_format_parse(o.common.format, &format, err))
        return -1;
    format = spot_format_settle(format, o.common.output, SPOT_FORMAT_JSON);
    o.has_price = o.price[0] >= 0;
    if (!o.catalogue)
        spot_tool_assume_prices(o.price, 0.9731, 3.06);
    if (read_market(s, err) || set_now(s, err) || (o.prices && read_prices(s, err)) ||
        decide(s, policy, err))
        return -1;
    explain(s);
    if (o.explain && !o.common.quiet && format != SPOT_FORMAT_TABLE)
        for (size_t i = 0; i < s->n_why; i++)
            fprintf(stderr, "%s\n", s->why[i]);
    return write_plan(s, format, err);
}

static const struct spot_cli cli = {
    .name = "spot-plan deadline",
    .need = (const struct spot_opt_need[]){ { "forecast|has-spot", "!trace" },
                                            { "has-spot", "!forecast" },
                                            { "learn", "trace" },
                                            { NULL, NULL } },
    .reads = (const char *const[]){ "forecast", "trace", "catalogue", "prices", NULL },
    .writes = (const char *const[]){ "output", NULL },
    .required = (const struct spot_opt_required[]){ { "work", "how long it computes" },
                                                    { "deadline", "when it has to end" },
                                                    { NULL, NULL } },
    .choice = (const struct spot_opt_choice[]){ { "format", "json|table" },
                                                { "now", "spot|on-demand|idle" },
                                                { NULL, NULL } },
    .synopsis = "--work 48h --deadline 52h --restart 12m [options]",
    .summary =
        "Choose spot, on demand or nothing for the next tick of a job that must end in time.",
    .examples =
        "  spot-plan deadline --work 48h --deadline 52h --restart 12m\n"
        "  spot-predict t.csv | spot-plan deadline --work 48h --deadline 52h --forecast -\n",
    .option =
        (const struct spot_opt[]){
            { SPOT_OPT_GROUP, .help = "the job" },
            SPOT_ROW_WORK(&o.work_s),
            SPOT_ROW_DEADLINE(&o.deadline_s),
            SPOT_ROW_RESTARTS(&o.restart),
            SPOT_ROW_EGRESS(&o.egress_usd),
            SPOT_ROW_STATE_GB(&o.state_gb),
            { SPOT_OPT_SECS, 0, "done", &o.done_s, "time", "work already done (default: 0)", 0,
              1e8 },
            { SPOT_OPT_SECS, 0, "elapsed", &o.elapsed_s, "time",
              "time since the job's start (default: 0)", 0, 1e8 },
            { SPOT_OPT_STRING, 0, "now", &o.now, "mode",
              "what runs: spot, on-demand, idle (default)", 0, 0 },
            { SPOT_OPT_SECS, 0, "launching", &o.launching_s, "time",
              "time since its launch, if that is not over (default: 0)", 0, 1e8 },
            { SPOT_OPT_STRING, 0, "at", &o.at, "zone", "zone in which the job runs or last ran", 0,
              0 },
            { SPOT_OPT_GROUP, .help = "the machines" },
            SPOT_ROW_CATALOGUE(&o.catalogue),
            SPOT_ROW_PRICES(&o.prices),
            SPOT_ROW_FORECAST(&o.forecast),
            { SPOT_OPT_STRING, 0, "trace", &o.trace, "file",
              "learn run lengths from this availability trace instead", 0, 0 },
            SPOT_ROW_LEARN(&o.learn_s),
            SPOT_ROW_ZONES(&o.zone),
            { SPOT_OPT_FLAG, 0, "has-spot", &o.has_spot, NULL,
              "spot is available now (default: yes; --no-has-spot)", 0, 0 },
            SPOT_ROW_TICK(&o.tick_s),
            SPOT_ROW_USD_PER_H(o.price),
            SPOT_ROW_EXPLAIN(&o.explain),
            SPOT_TOOL_OPTIONS_AS(&o.common, "json, or table (default on a terminal)"),
            { SPOT_OPT_END },
        },
};

static int plan_deadline(struct spot_err *err)
{
    struct session s = {
        .prov = { .tool = "spot-plan", .seed = o.common.seed, .is_off = !o.common.provenance }
    };
    const int rc = run(&s, err);

    spot_prov_release(&s.prov);
    spot_trace_release(&s.trace);
    spot_forecast_release(&s.forecast);
    spot_json_release(&s.json);
    spot_price_release(&s.price);
    spot_json_release(&s.price_json);
    free(s.path);
    free(s.there);
    free(s.usd_per_h);
    return rc;
}

const struct spot_command plan_deadline_command = {
    .name = "deadline",
    .brief = "spot, on demand or nothing now, to meet a deadline",
    .cli = &cli,
    .common = &o.common,
    .run_alone = plan_deadline,
};
