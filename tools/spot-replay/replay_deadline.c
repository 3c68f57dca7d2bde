/* SPDX-License-Identifier: MIT */
/* spot-replay deadline - what policies pay to finish a job in time on a recorded series. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/plot.h"
#include "cli/rows.h"
#include "cli/tool.h"
#include "common/xalloc.h"
#include "plan/market_read.h"
#include "replay.h"
#include "sim/deadline_sim.h"
#include "trace/trace.h"

static struct options {
    struct spot_tool_common common;
    const char *trace, *policy, *zone, *plot, *restart, *catalogue;
    double work_s, deadline_s, from_s, tick_s, learn_s, state_gb;
    double price[2], egress_usd; /* prices of spot and on demand */
    bool steps, has_price;       /* has_price: a price of spot was given */
} o = { .common = SPOT_TOOL_COMMON_DEFAULT, .policy = "all", .restart = "0", .price = { -1, -1 } };

enum { POLICIES_MAX = 16 };

struct played {
    const struct spot_deadline_policy *policy;
    struct spot_deadline_result result;
    struct spot_deadline_tick *tick; /* [n_tick] */
    double *time_h, *done_h;
    size_t n; /* ticks that the job ran */
};

struct session {
    struct spot_trace trace;
    struct spot_market_names names;
    struct spot_market market;
    const struct spot_trace_series *place[SPOT_MARKET_PLACES_MAX];
    struct spot_deadline_play play;
    uint8_t *has_spot; /* [n][n_place] */
    double *usd_per_h; /* [n][n_place] */
    size_t n_tick;     /* ticks from the start to the deadline */
    struct played played[POLICIES_MAX];
    size_t n_played;
};

static int add_places(struct session *s, const struct spot_trace_series *const *sorted,
                      struct spot_err *err)
{
    for (size_t i = 0; i < s->trace.n_series; i++) {
        if (!spot_market_takes_zone(o.zone, sorted[i]->zone))
            continue;
        if (spot_market_add_place(&s->market, &s->names, sorted[i]->zone, sorted[i]->instance_type,
                                  o.price[0], o.price[1], err))
            return -1;
        s->place[s->market.n_place - 1] = sorted[i];
    }
    return 0;
}

static int read_places(struct session *s, struct spot_err *err)
{
    const struct spot_trace_series **sorted =
        spot_xcalloc(s->trace.n_series, sizeof(const struct spot_trace_series *));
    int rc;

    spot_market_sort_series(&s->trace, sorted);
    rc = add_places(s, sorted, err);
    free(sorted);
    if (rc)
        return -1;
    if (!s->market.n_place)
        return spot_err_set(err, SPOT_EDATA, "%s: no series of zone '%.64s'", o.trace, o.zone);
    return o.catalogue ? spot_market_read_catalogue(&s->market, &s->names, o.state_gb, o.catalogue,
                                                    o.trace, NULL, err)
                       : 0;
}

static int read_market(struct session *s, struct spot_err *err)
{
    const struct spot_market_now now = { .left_s = o.work_s };

    s->market.work_s = o.work_s;
    s->market.deadline_s = o.deadline_s;
    s->market.egress_usd = o.egress_usd;
    if (spot_market_parse_restart(&s->market, o.restart, err) || read_places(s, err))
        return -1;
    if (!(o.tick_s > 0) && !((o.tick_s = spot_trace_interval_s(s->place[0])) > 0))
        return spot_err_set(err, SPOT_EUSAGE, "%s has one row: give --tick", o.trace);
    s->market.tick_s = o.tick_s;
    return spot_market_check(&s->market, &now, err);
}

static void read_counts(struct session *s, size_t n)
{
    const size_t n_place = s->market.n_place;
    int32_t *count = spot_xcalloc(n, sizeof(*count));

    s->has_spot = spot_xcalloc(n, n_place);
    if (!o.has_price)
        s->usd_per_h = spot_xcalloc(n, n_place * sizeof(*s->usd_per_h));
    for (size_t k = 0; k < n_place; k++) {
        spot_trace_resample(s->place[k], s->trace.start_s, o.tick_s, n, count);
        for (size_t i = 0; i < n; i++)
            s->has_spot[i * n_place + k] = count[i] > 0;
        if (s->usd_per_h)
            spot_market_read_prices(s->place[k], s->trace.start_s, o.tick_s, n,
                                    s->market.place[k].spot_usd_per_h, s->usd_per_h + k, n_place);
    }
    free(count);
}

/* A trace with prices needs no assumed ones. */
static void assume_prices(const struct spot_trace *trace)
{
    for (size_t i = 0; i < trace->n_series && !o.has_price; i++)
        if (trace->series[i].price_usd_per_h && !isnan(trace->series[i].price_usd_per_h[0]))
            o.price[0] = fmax(o.price[0], trace->series[i].price_usd_per_h[0]);
    spot_tool_assume_prices(o.price, 0.9731, 3.06);
}

static int read_trace(struct session *s, struct spot_err *err)
{
    const struct spot_market_now now = { .left_s = o.work_s };
    size_t n;

    if (spot_trace_load_path(&s->trace, o.trace, err))
        return -1;
    if (!o.catalogue)
        assume_prices(&s->trace);
    if (read_market(s, err))
        return -1;
    if (spot_trace_check_grid(&s->trace, (s->trace.end_s - s->trace.start_s) / o.tick_s + 1,
                              o.tick_s, SPOT_TRACE_GRID_MAX, "give a longer --tick", err))
        return -1;
    n = spot_trace_grid_n(s->trace.start_s, s->trace.end_s, o.tick_s);
    read_counts(s, n);
    s->play = (struct spot_deadline_play){
        .market = s->market,
        .has_spot = s->has_spot,
        .spot_usd_per_h = s->usd_per_h,
        .n = n,
        .start = (size_t)floor(o.from_s / o.tick_s + 1e-9),
        .learn_ticks = spot_market_learn_ticks(&s->market, o.learn_s),
        .seed = o.common.seed,
    };
    s->n_tick = (size_t)spot_market_ticks(&s->market, &now);
    if (s->play.start + s->n_tick > n)
        spot_tool_warn("the trace ends %.4g h before the deadline: no spot from there on",
                       (double)(s->play.start + s->n_tick - n) * o.tick_s / 3600);
    return s->play.start < n
               ? 0
               : spot_err_set(err, SPOT_EUSAGE, "--from is behind the end of the trace");
}

static void release_played(struct played *p)
{
    free(p->tick);
    free(p->time_h);
    free(p->done_h);
}

static int play_one(struct session *s, struct played *p, struct spot_err *err)
{
    p->tick = spot_xcalloc(s->n_tick + 1, sizeof(*p->tick));
    p->time_h = spot_xcalloc(s->n_tick + 1, sizeof(double));
    p->done_h = spot_xcalloc(s->n_tick + 1, sizeof(double));
    if (spot_deadline_play_run(&s->play, p->policy, &p->result, p->tick, err))
        return -1;
    p->n = (size_t)llround(p->result.finish_s / o.tick_s);
    p->n = p->n < s->n_tick ? p->n : s->n_tick;
    for (size_t i = 0; i < p->n; i++) {
        p->time_h[i + 1] = (double)(i + 1) * o.tick_s / 3600;
        p->done_h[i + 1] = (o.work_s - p->tick[i].left_s) / 3600;
    }
    return 0;
}

/* With "all", policies that cannot be played are left out: the bound if it is too large, and rules
 * that need on demand where it is not sold. */
static int play_all(struct session *s, struct spot_err *err)
{
    for (size_t k = 0; k < s->n_played; k++) {
        struct played *const p = &s->played[k];

        if (!play_one(s, p, err))
            continue;
        if (strcmp(o.policy, "all") != 0 || err->code != SPOT_EUSAGE)
            return -1;
        spot_tool_warn("left out: %s", err->msg);
        release_played(p);
        memmove(p, p + 1, (--s->n_played - k) * sizeof(*p));
        s->played[s->n_played] = (struct played){ .policy = NULL };
        k--;
    }
    return 0;
}

/* --- output --- */

static void add_totals(struct spot_table *table, const struct session *s)
{
    for (size_t k = 0; k < s->n_played; k++) {
        const struct played *p = &s->played[k];

        spot_table_add(table, "%s %.3g %.3g %lld %lld", p->policy->name, p->result.usd,
                       p->result.finish_s / 3600, (long long)p->result.is_late,
                       (long long)p->result.switches);
    }
}

/* The number of places with spot in the i-th tick of the job. */
static int places_up(const struct session *s, size_t i)
{
    int up = 0;

    for (size_t k = 0; k < s->market.n_place && s->play.start + i < s->play.n; k++)
        up += s->has_spot[(s->play.start + i) * s->market.n_place + k];
    return up;
}

static void add_steps(struct spot_table *table, const struct session *s)
{
    static const char *const name[] = { "idle", "spot", "on-demand" };

    for (size_t k = 0; k < s->n_played; k++)
        for (size_t i = 0; i < s->played[k].n; i++) {
            const struct played *p = &s->played[k];

            spot_table_add(table, "%s %.3g %lld %s %.3g %s %.3g", p->policy->name,
                           (double)i * o.tick_s, (long long)(places_up(s, i)),
                           name[p->tick[i].step.mode], p->done_h[i + 1],
                           p->tick[i].step.mode ? s->names.zone[p->tick[i].step.place] : "",
                           (double)p->tick[i].pending * o.tick_s);
        }
}

static int draw(const struct session *s, struct spot_err *err)
{
    struct spot_series series[POLICIES_MAX + 1] = { 0 };
    const double ends_h[] = { 0, o.deadline_s / 3600 }, pace_h[] = { 0, o.work_s / 3600 };
    const struct spot_figure figure = {
        .title = "work done until the deadline",
        .x_label = "time (h)",
        .y_label = "work (h)",
        .series = series,
        .n_series = s->n_played + 1,
    };

    for (size_t k = 0; k < s->n_played; k++)
        series[k] = (struct spot_series){
            .label = s->played[k].policy->name,
            .style = SPOT_SERIES_LINE,
            .n = s->played[k].n + 1,
            .x = s->played[k].time_h,
            .y = s->played[k].done_h,
        };
    series[s->n_played] = (struct spot_series){ .label = "even pace",
                                                .style = SPOT_SERIES_LINE,
                                                .n = 2,
                                                .x = ends_h,
                                                .y = pace_h,
                                                .colour = "#bbbbbb" };
    return spot_plot(&figure, o.plot, err);
}

static int print(const struct session *s, struct spot_err *err)
{
    static const char total[] = "policy,usd#,finish_h#,is_late#,switches#";
    static const char step[] = "policy,time_s#,has_spot#,mode,done_h#,zone,launching_s#";
    struct spot_table table;

    if (spot_tool_table(&o.common, &table, o.steps ? step : total, err))
        return -1;
    (o.steps ? add_steps : add_totals)(&table, s);
    return spot_tool_table_write(&o.common, &table, 0, err);
}

static int run(struct session *s, struct spot_err *err)
{
    if (o.plot && spot_plot_check(o.plot, err))
        return -1;
    o.has_price = o.price[0] >= 0;
    if (replay_policies("deadline", o.policy, POLICIES_MAX, s->played, sizeof(*s->played),
                        &s->n_played, err) ||
        read_trace(s, err) || play_all(s, err))
        return -1;
    if (o.plot && draw(s, err))
        return -1;
    return spot_plot_takes_stdout(o.plot, o.common.output) ? 0 : print(s, err);
}

static int replay_deadline(struct spot_err *err)
{
    struct session s = { 0 };
    int rc;

    if (replay_lists("deadline", o.policy))
        return 0;
    if (!o.trace || !(o.work_s > 0) || !(o.deadline_s > 0))
        return spot_err_set(err, SPOT_EUSAGE, "--trace, --work and --deadline are needed");
    rc = run(&s, err);
    for (size_t k = 0; k < s.n_played; k++)
        release_played(&s.played[k]);
    free(s.has_spot);
    free(s.usd_per_h);
    spot_trace_release(&s.trace);
    return rc;
}

const struct spot_cli replay_deadline_command = {
    .name = "spot-replay deadline",
    .brief = "cost of a job with a deadline, under policies of spot and on demand",
    .reads = (const char *const[]){ "trace", "catalogue", NULL },
    .writes = (const char *const[]){ "output", "plot", NULL },
    .choice =
        (const struct spot_opt_choice[]){ { "format", "csv|tsv|jsonl|table|md" }, { NULL, NULL } },
    .synopsis = "--trace trace.csv --work 48h --deadline 52h [options]",
    .summary = "Compute the cost of a job with a deadline under each policy of spot and on demand.",
    .examples = "  spot-replay deadline --trace t.csv --work 48h --deadline 52h --restart 12m\n",
    .option =
        (const struct spot_opt[]){
            { SPOT_OPT_GROUP, .help = "the job" },
            SPOT_ROW_TRACE(&o.trace),
            SPOT_ROW_ZONES(&o.zone),
            SPOT_ROW_WORK(&o.work_s),
            SPOT_ROW_DEADLINE(&o.deadline_s),
            SPOT_ROW_RESTARTS(&o.restart),
            SPOT_ROW_CATALOGUE(&o.catalogue),
            SPOT_ROW_EGRESS(&o.egress_usd),
            SPOT_ROW_STATE_GB(&o.state_gb),
            SPOT_SECS("from", &o.from_s, "time",
                      "start of the job, from the start of the trace (default: 0)", 0, 1e11),
            SPOT_ROW_TICK(&o.tick_s),
            SPOT_ROW_USD_PER_H(o.price),
            { SPOT_OPT_GROUP, .help = "policies" },
            SPOT_ROW_POLICIES(&o.policy),
            SPOT_ROW_LEARN(&o.learn_s),
            SPOT_ROW_TICKS(&o.steps),
            SPOT_ROW_PLOT(&o.plot),
            SPOT_TOOL_OPTIONS_AS(&o.common, "csv, tsv, jsonl, table or md"),
            { SPOT_OPT_END },
        },
    .common = &o.common,
    .run_alone = replay_deadline,
};
