/* SPDX-License-Identifier: MIT */
/* spot-plan deadline - spot, on demand or nothing for the next tick. */

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/rows.h"
#include "cli/tool.h"
#include "common/xalloc.h"
#include "plan/decision.h"
#include "plan_commands.h"
#include "plan_deadline.h"

static struct options {
    struct spot_tool_common common;
    const char *forecast, *trace, *zone, *now, *at, *restart, *catalogue, *prices, *jobs;
    double work_s, deadline_s, done_s, elapsed_s, tick_s, learn_s, launching_s, state_gb;
    double price[2], egress_usd; /* prices of spot and on demand */
    double probe_usd;
    bool has_spot, explain, has_price; /* has_price: a price of spot was given */
} o = { .common = SPOT_TOOL_COMMON_DEFAULT,
        .now = "idle",
        .restart = "0",
        .has_spot = true,
        .price = { -1, -1 } };

enum {
    PLAYS = 200,
    ASK_S = 20 /* seconds until a request is refused */
};

/* --- the history of spot --- */

/* Returns the place, or NULL with *err. */
static struct spot_market_place *add_place(struct plan_deadline *s, const char *zone,
                                           const char *type, struct spot_err *err)
{
    return spot_market_add_place(&s->market, &s->names, zone, type, o.price[0], o.price[1], err)
               ? NULL
               : &s->market.place[s->market.n_place - 1];
}

static int fit(struct plan_deadline *s, const struct spot_forecast_series *series,
               struct spot_err *err)
{
    const size_t k = s->market.n_place;
    double *up;

    if (!add_place(s, series->zone, series->instance_type, err))
        return -1;
    up = spot_xcalloc((size_t)s->forecast.horizon, sizeof(double));
    for (int64_t i = 1; i <= s->forecast.horizon; i++)
        up[i - 1] = 1 - spot_forecast_at(series, i)[0];
    s->now.has_spot[k] = series->now > 0;
    s->granted[k] = series->now > 0;
    s->time_s = fmax(s->time_s, series->time_s);
    spot_run_dist_fit(&s->law[k], series->now > 0, up, (size_t)s->forecast.horizon);
    free(up);
    if (series->start) {
        s->granted[k] = series->start->granted;
        spot_run_dist_fit_stays(&s->law[k], series->start->stays, (size_t)s->forecast.horizon);
        if (!o.has_price && !isnan(series->start->usd_per_h))
            s->market.place[k].spot_usd_per_h = series->start->usd_per_h;
    }
    return 0;
}

/* Without --price, every series of the forecast must have a price. */
static void take_prices(const struct plan_deadline *s)
{
    double most = -1;

    for (size_t i = 0; i < s->forecast.n_series; i++) {
        const struct spot_forecast_series *series = &s->forecast.series[i];

        if (!spot_market_takes_zone(o.zone, series->zone))
            continue;
        if (!series->start || isnan(series->start->usd_per_h))
            return;
        most = fmax(most, series->start->usd_per_h);
    }
    if (o.price[0] < 0)
        o.price[0] = most;
}

static int load_forecast(struct plan_deadline *s, struct spot_err *err)
{
    if (spot_json_load_path(&s->json, o.forecast, err) ||
        spot_forecast_read_instances(&s->json, &s->forecast, err))
        return -1;
    spot_prov_add(&s->prov, s->json.source, s->json.hash);
    take_prices(s);
    return 0;
}

static int read_forecast(struct plan_deadline *s, struct spot_err *err)
{
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

static int look_at(struct plan_deadline *s, const struct spot_trace_series *series,
                   struct spot_err *err)
{
    const size_t k = s->market.n_place;
    struct spot_run_count count = { 0 };
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
    for (size_t i = 0; i < n; i++) {
        s->there[i * SPOT_MARKET_PLACES_MAX + k] = there[i] > 0;
        spot_run_count_add(&count, there[i] > 0);
    }
    s->now.has_spot[k] = there[n - 1] > 0;
    s->now.age[k] = count.age;
    s->granted[k] = s->now.has_spot[k];
    spot_run_dist_learn_zone(&s->law[k], &count, s->market.tick_s);
    free(there);
    return 0;
}

static int look_at_all(struct plan_deadline *s, struct spot_err *err)
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

static int read_trace(struct plan_deadline *s, struct spot_err *err)
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

static int read_dist(struct plan_deadline *s, struct spot_err *err)
{
    if (o.forecast)
        return read_forecast(s, err);
    if (o.trace)
        return read_trace(s, err);
    s->market.tick_s = o.tick_s > 0 ? o.tick_s : 600;
    if (!add_place(s, o.zone ? o.zone : "", "", err))
        return -1;
    s->now.has_spot[0] = o.has_spot;
    s->granted[0] = o.has_spot;
    spot_run_dist_learn_zone(&s->law[0], &(struct spot_run_count){ 0 }, s->market.tick_s);
    return 0;
}

/* Use the prices of the trace, if it has any and none was given. */
static void read_trace_prices(struct plan_deadline *s)
{
    for (size_t k = 0; s->usd_per_h && k < s->market.n_place; k++) {
        struct spot_market_place *p = &s->market.place[k];

        spot_market_read_prices(s->series[k], s->trace.start_s, s->market.tick_s, s->n_row,
                                p->spot_usd_per_h, s->usd_per_h + k, SPOT_MARKET_PLACES_MAX);
        p->spot_usd_per_h = s->usd_per_h[(s->n_row - 1) * SPOT_MARKET_PLACES_MAX + k];
    }
}

static int read_prices(struct plan_deadline *s, struct spot_err *err)
{
    if (spot_json_load_path(&s->price_json, o.prices, err) ||
        spot_price_read(&s->price_json, &s->price, err))
        return -1;
    spot_prov_add(&s->prov, s->price_json.source, s->price_json.hash);
    return 0;
}

/* If there is no other price of spot, use the first one of --prices. */
static void take_price_now(struct plan_deadline *s)
{
    for (size_t k = 0; o.prices && k < s->market.n_place; k++) {
        const struct spot_price_entry *e =
            spot_price_find(&s->price, s->names.zone[k], s->names.type[k], "spot");

        if (e && s->market.place[k].spot_usd_per_h < 0)
            s->market.place[k].spot_usd_per_h = e->now_usd_per_h;
    }
}

/* Say for messages where a price was sought: in the forecast's probes, and in --prices, with the
 * zones that it has. */
static void name_sources(struct plan_deadline *s)
{
    char *to = s->names.elsewhere;
    const size_t room = sizeof(s->names.elsewhere);
    size_t n = o.forecast ? (size_t)snprintf(to, room, ", none in the probes of --forecast") : 0;

    if (!o.prices)
        return;
    n += (size_t)snprintf(to + n, room - n, ", none in --prices, which has");
    for (size_t i = 0; i < s->price.n_series && n + 32 < room; i++)
        n += (size_t)snprintf(to + n, room - n, " %.24s%s", s->price.series[i].zone,
                              i + 1 < s->price.n_series ? "," : "");
}

static int read_market(struct plan_deadline *s, struct spot_err *err)
{
    s->market.work_s = o.work_s;
    s->market.deadline_s = o.deadline_s;
    s->market.egress_usd = o.egress_usd;
    if (spot_market_parse_restart(&s->market, o.restart, err) || read_dist(s, err))
        return -1;
    take_price_now(s);
    name_sources(s);
    if (o.catalogue && spot_market_read_catalogue(&s->market, &s->names, o.state_gb, o.catalogue,
                                                  o.forecast ? o.forecast : o.trace, &s->prov, err))
        return -1;
    read_trace_prices(s);
    return 0;
}

/* --- expected prices --- */

/* The expected price of each tick from now on: the nearest step at the middle of the tick. Before
 * half of the first step the current price is used. */
static void fill_path(const struct plan_deadline *s, const struct spot_price_entry *e, double *path)
{
    for (size_t i = 0; i < s->market.n_path; i++) {
        const double at = ((double)i + 0.5) * s->market.tick_s / s->price.interval_s;
        const int64_t step = llround(fmin(at, (double)s->price.horizon));

        path[i] = step ? e->step[step - 1].mean_usd_per_h : e->now_usd_per_h;
    }
}

static int take_paths(struct plan_deadline *s, struct spot_err *err)
{
    static const char *const market[2] = { "spot", "on_demand" };

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

static int find_place(struct plan_deadline *s, struct spot_err *err)
{
    for (size_t k = 0; k < s->market.n_place; k++)
        if (!o.at || !strcmp(o.at, s->names.zone[k])) {
            s->now.place = k;
            return o.at || s->market.n_place == 1 || s->now.is_new
                       ? 0
                       : spot_err_set(err, SPOT_EUSAGE,
                                      "--at is needed, the zone where the job runs or last ran");
        }
    return spot_err_set(err, SPOT_EUSAGE, "--at: no place is in zone '%.64s'", o.at);
}

static int set_now(struct plan_deadline *s, struct spot_err *err)
{
    for (int m = 0; m < 3; m++)
        if (!strcmp(o.now, plan_deadline_mode[m]))
            s->now.mode = (enum spot_deadline_mode)m;
    if (!(o.done_s < o.work_s))
        return spot_err_set(err, SPOT_EINFEASIBLE, "all work is done: nothing to run");
    s->now.is_new = s->now.mode == SPOT_DEADLINE_IDLE && !o.at;
    if (find_place(s, err))
        return -1;
    if (s->now.mode == SPOT_DEADLINE_SPOT && plan_deadline_is_asked(s, s->now.place))
        /* the request was granted */
        s->granted[s->now.place] = s->now.has_spot[s->now.place] = true;
    if (s->now.mode == SPOT_DEADLINE_SPOT && !s->now.has_spot[s->now.place])
        s->now.mode = SPOT_DEADLINE_IDLE; /* the instance was lost */
    s->now.elapsed_s = o.elapsed_s;
    s->now.left_s = o.work_s - o.done_s;
    s->now.pending =
        s->now.mode == SPOT_DEADLINE_IDLE ? 0 : llround(o.launching_s / s->market.tick_s);
    return spot_market_check(&s->market, &s->now, err);
}

static const double *prices_of(const struct plan_deadline *s, size_t row)
{
    return s->usd_per_h ? s->usd_per_h + row * SPOT_MARKET_PLACES_MAX : NULL;
}

/* The lowest price of spot: what a request may cost, for ASK_S. */
static double lowest_usd_per_h(const struct spot_market *m)
{
    double least = INFINITY;

    for (size_t k = 0; k < m->n_place; k++)
        least = fmin(least, m->place[k].spot_usd_per_h);
    return least;
}

static void weigh(const void *decider, const bool *has_spot, double (*step_usd)[3])
{
    spot_deadline_weigh(decider, has_spot, step_usd);
}

/* The places to ask, and the step to take: that of the policy if there is nothing to ask. */
static void take_answer(struct plan_deadline *s, const struct spot_decider *decider,
                        struct spot_market_step step)
{
    struct spot_ask_answer *a = &s->answer;
    bool is_asked = false;

    spot_ask_order(
        &(struct spot_ask_question){ .n_place = s->market.n_place,
                                     .granted = s->granted,
                                     .ask_usd =
                                         o.probe_usd + lowest_usd_per_h(&s->market) * ASK_S / 3600,
                                     .weigh = weigh,
                                     .market = decider },
        a);
    for (size_t k = 0; k < s->market.n_place; k++)
        is_asked = is_asked || plan_deadline_is_asked(s, k);
    if (!is_asked) {
        a->otherwise = step;
        a->usd = a->step_usd[step.place][step.mode];
    }
    if (a->otherwise.mode == SPOT_DEADLINE_IDLE)
        a->otherwise.place = s->now.place;
    s->want =
        a->n ? (struct spot_market_step){ SPOT_DEADLINE_SPOT, a->ask[0].place } : a->otherwise;
}

/* One call of the decision that spot-replay and a live loop use too. */
static int decide(struct plan_deadline *s, const struct spot_policy *policy, struct spot_err *err)
{
    const struct spot_deadline_rule rule = { .market = &s->market,
                                             .learn_ticks =
                                                 spot_market_learn_ticks(&s->market, o.learn_s),
                                             .law = o.forecast ? s->law : NULL };
    const size_t ran = (size_t)llround(o.elapsed_s / s->market.tick_s);
    struct spot_decider *decider = policy->open(&(struct spot_rule){ .deadline = &rule });
    struct spot_action action = { .grid = { 0 } };
    double step_usd[SPOT_MARKET_PLACES_MAX][3];
    int rc = 0;

    for (size_t k = 0; k < s->market.n_place; k++)
        if (plan_deadline_is_asked(s, k))
            s->now.has_spot[k] = false;
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
         policy->decide(decider, &action, &(struct spot_told){ .step_usd = step_usd }, err);
    if (!rc)
        take_answer(s, decider, action.step);
    policy->close(decider);
    return rc ? -1 : 0;
}

int plan_deadline_weigh(struct plan_deadline *s, const struct plan_deadline_job *job,
                        struct spot_err *err)
{
    const struct spot_policy *policy = spot_policy_find("deadline", "spot", err);

    if (!policy)
        return -1;
    o.work_s = job->work_s;
    o.deadline_s = job->deadline_s;
    o.done_s = job->done_s;
    o.elapsed_s = job->elapsed_s;
    o.launching_s = job->launching_s;
    o.now = job->now;
    o.at = job->at;
    s->market.work_s = o.work_s;
    s->market.deadline_s = o.deadline_s;
    free(s->path);
    s->path = NULL;
    s->n_priced = 0;
    if (set_now(s, err) || (o.prices && take_paths(s, err)))
        return -1;
    return decide(s, policy, err);
}

static int look_ahead(struct plan_deadline *s, struct spot_err *err)
{
    const struct spot_deadline_ahead ahead = { .market = &s->market,
                                               .law = s->law,
                                               .has_spot = s->granted,
                                               .now = s->now,
                                               .ask = s->answer.ask,
                                               .n_ask = s->answer.n,
                                               .first = s->answer.otherwise,
                                               .plays = PLAYS,
                                               .seed = o.common.seed };

    return spot_deadline_look_ahead(&ahead, &s->outlook, err);
}

static int run(struct plan_deadline *s, struct spot_err *err)
{
    const struct spot_policy *policy = spot_policy_find("deadline", "spot", err);
    enum spot_format format;

    if (!policy || spot_format_parse(o.common.format, &format, err))
        return -1;
    format = spot_format_settle(format, o.common.output, SPOT_FORMAT_JSON);
    o.has_price = o.price[0] >= 0;
    s->explains = o.explain && !o.common.quiet;
    if (o.forecast && load_forecast(s, err))
        return -1;
    if (!o.catalogue)
        spot_tool_assume_prices(o.price, 0.9731, 3.06);
    if ((o.prices && read_prices(s, err)) || read_market(s, err))
        return -1;
    if (o.jobs)
        return plan_deadline_jobs(s, o.jobs, o.common.output, format, err);
    if (set_now(s, err) || (o.prices && take_paths(s, err)) || decide(s, policy, err) ||
        look_ahead(s, err))
        return -1;
    plan_deadline_explain(s);
    if (s->explains && format != SPOT_FORMAT_TABLE)
        for (size_t i = 0; i < s->n_why; i++)
            fprintf(stderr, "%s\n", s->why[i]);
    return plan_deadline_write(s, o.common.output, format, err);
}

static int plan_deadline(struct spot_err *err)
{
    struct plan_deadline s = {
        .prov = { .tool = "spot-plan", .seed = o.common.seed, .is_off = !o.common.provenance }
    };
    int rc;

    if (!o.jobs && !(o.work_s > 0 && o.deadline_s > 0))
        return spot_err_set(err, SPOT_EUSAGE,
                            "--work and --deadline are needed, or --jobs: how long it computes, "
                            "when it has to end");
    rc = run(&s, err);
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

const struct spot_cli plan_deadline_command = {
    .name = "spot-plan deadline",
    .brief = "spot, on demand or nothing now, to meet a deadline",
    .need = (const struct spot_opt_need[]){ { "forecast|has-spot", "!trace" },
                                            { "has-spot", "!forecast" },
                                            { "learn", "trace" },
                                            { "jobs", "catalogue" },
                                            { "work|deadline|done|elapsed|now|launching|at|"
                                              "probe-usd",
                                              "!jobs" },
                                            { NULL, NULL } },
    .reads = (const char *const[]){ "forecast", "trace", "catalogue", "prices", "jobs", NULL },
    .writes = (const char *const[]){ "output", NULL },
    .choice = (const struct spot_opt_choice[]){ { "format", "json|table" },
                                                { "now", "spot|on-demand|idle" },
                                                { NULL, NULL } },
    .synopsis = "--work 48h --deadline 52h --restart 12m [--forecast f.json] [--catalogue t.csv] "
                "[--prices p.json] [--state-gb GB] [--probe-usd USD] [options]",
    .summary =
        "Choose spot, on demand or nothing for the next tick of a job that must end in time.",
    .examples =
        "  spot-plan deadline --work 48h --deadline 52h --restart 12m\n"
        "  spot-predict t.csv | spot-plan deadline --work 48h --deadline 52h --forecast -\n",
    .option =
        (const struct spot_opt[]){
            { SPOT_OPT_GROUP, .help = "the job" },
            SPOT_SECS("work", &o.work_s, "time", "computing time of the job (required, or --jobs)",
                      1, 1e8),
            SPOT_SECS("deadline", &o.deadline_s, "time",
                      "deadline, from the job's start (required, or --jobs)", 1, 1e8),
            SPOT_ROW_RESTARTS(&o.restart),
            SPOT_ROW_EGRESS(&o.egress_usd),
            SPOT_ROW_STATE_GB(&o.state_gb),
            SPOT_ROW_PROBE_USD(&o.probe_usd),
            SPOT_SECS("done", &o.done_s, "time", "work already done (default: 0)", 0, 1e8),
            SPOT_SECS("elapsed", &o.elapsed_s, "time", "time since the job's start (default: 0)", 0,
                      1e8),
            SPOT_TEXT("now", &o.now, "mode", "what runs: spot, on-demand, idle (default)"),
            SPOT_SECS("launching", &o.launching_s, "time",
                      "time since its launch, if that is not over (default: 0)", 0, 1e8),
            SPOT_TEXT("at", &o.at, "zone", "zone in which the job runs or last ran"),
            SPOT_TEXT("jobs", &o.jobs, "file",
                      "several jobs (CSV) under the quotas of --catalogue, instead of one"),
            { SPOT_OPT_GROUP, .help = "the machines" },
            SPOT_ROW_CATALOGUE(&o.catalogue),
            SPOT_ROW_PRICES(&o.prices),
            SPOT_ROW_FORECAST(&o.forecast),
            SPOT_TEXT("trace", &o.trace, "file",
                      "learn run lengths from this availability trace instead"),
            SPOT_ROW_LEARN(&o.learn_s),
            SPOT_ROW_ZONES(&o.zone),
            SPOT_FLAG("has-spot", &o.has_spot,
                      "spot is available now (default: yes; --no-has-spot)"),
            SPOT_ROW_TICK(&o.tick_s),
            SPOT_ROW_USD_PER_H(o.price),
            SPOT_ROW_EXPLAIN(&o.explain),
            SPOT_TOOL_OPTIONS_AS(&o.common, "json, or table (default on a terminal)"),
            { SPOT_OPT_END },
        },
    .common = &o.common,
    .run_alone = plan_deadline,
};
