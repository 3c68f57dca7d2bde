/* SPDX-License-Identifier: MIT */
/* spot-replay fleet - what policies pay to keep replicas running on spot in several zones. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/plot.h"
#include "cli/rows.h"
#include "common/out.h"
#include "common/xalloc.h"
#include "replay.h"
#include "replay_fleet.h"
#include "sim/fleet_play.h"
#include "trace/trace_write.h"

static struct replay_fleet_options o = { .common = SPOT_TOOL_COMMON_DEFAULT,
                                         .policy = "all",
                                         .n = 1,
                                         .rho = 0.9,
                                         .window_s = 60,
                                         .cold_s = { -1, -1 },
                                         .availability = 0.9995,
                                         .unserved = 0.01,
                                         .price = { -1, -1 } };

struct played {
    const struct spot_fleet_player *policy;
    struct spot_fleet_result result;
    struct spot_fleet_step *step; /* [n_tick] */
    int32_t *in_zone;             /* [n_tick][n_zone] */
};

struct session {
    struct spot_trace trace;
    struct spot_fleet_play play;
    int32_t *count;
    const char **zone, **type;
    double *usd_per_h, *came; /* [n_zone]; [n_tick] */
    int32_t *asked;           /* [n_tick] */
    struct played played[REPLAY_FLEET_POLICIES_MAX];
    size_t n_played;
};

/* Sort zones by name, which decides ties. */
static int by_name(const void *a, const void *b)
{
    const struct spot_trace_series *x = a, *y = b;
    const int zone = strcmp(x->zone, y->zone);

    return zone ? zone : strcmp(x->instance_type, y->instance_type);
}

int32_t *replay_fleet_counts(const struct spot_trace *trace, double tick_s, size_t n_tick)
{
    const size_t n = trace->n_series;
    int32_t *const count = spot_xcalloc(n_tick * n, sizeof(*count));
    int32_t *const one = spot_xcalloc(n_tick, sizeof(*one));

    for (size_t k = 0; k < n; k++) {
        spot_trace_resample(&trace->series[k], trace->start_s, tick_s, n_tick, one);
        for (size_t t = 0; t < n_tick; t++)
            count[t * n + k] = one[t];
    }
    free(one);
    return count;
}

static void fill_play(struct session *s, size_t n_tick)
{
    const size_t n_zone = s->trace.n_series;

    s->count = replay_fleet_counts(&s->trace, o.tick_s, n_tick);
    s->zone = spot_xcalloc(n_zone, sizeof(*s->zone));
    s->type = spot_xcalloc(n_zone, sizeof(*s->type));
    s->usd_per_h = spot_xcalloc(n_zone, sizeof(*s->usd_per_h));
    for (size_t z = 0; z < n_zone; z++) {
        s->zone[z] = s->trace.series[z].zone;
        s->type[z] = s->trace.series[z].instance_type;
        s->usd_per_h[z] = o.price[0];
    }
    s->play = (struct spot_fleet_play){ .count = s->count,
                                        .trace = &s->trace,
                                        .zone = s->zone,
                                        .type = s->type,
                                        .usd_per_h = s->usd_per_h,
                                        .on_demand_usd_per_h = o.price[1],
                                        .tick_s = o.tick_s,
                                        .n_zone = n_zone,
                                        .n_tick = n_tick,
                                        .wanted = (int)o.n,
                                        .cold = (size_t)ceil(o.cold_s[0] / o.tick_s - 1e-9),
                                        .availability = o.availability };
    if (o.cold_s[1] >= 0)
        s->play.early = (double)s->play.cold - o.cold_s[1] / o.tick_s;
}

static int read_trace(struct session *s, struct spot_err *err)
{
    struct spot_trace *trace = &s->trace;

    if (spot_trace_load_path(trace, o.trace, err))
        return -1;
    qsort(trace->series, trace->n_series, sizeof(*trace->series), by_name);
    if (!(o.tick_s > 0) && !((o.tick_s = spot_trace_interval_s(&trace->series[0])) > 0))
        return spot_err_set(err, SPOT_EUSAGE, "%s has one row: give --tick", o.trace);
    if (spot_trace_check_grid(
            trace, ((trace->end_s - trace->start_s) / o.tick_s + 1) * (double)trace->n_series,
            o.tick_s, SPOT_TRACE_GRID_MAX, "give a longer --tick", err))
        return -1;
    if (o.cold_s[0] < 0)
        o.cold_s[0] = o.tick_s;
    fill_play(s, spot_trace_grid_n(trace->start_s, trace->end_s, o.tick_s));
    return 0;
}

/* The load of each tick in replicas, and the number that an autoscaler asks for after seeing the
 * last window. */
static int follow_load(struct session *s, struct spot_err *err)
{
    const size_t n_tick = s->play.n_tick;
    struct spot_load load = { 0 };
    struct replay_work work;
    double *seen;

    if (spot_load_read_path(&load, o.load, 0, err))
        return -1;
    s->came = spot_xcalloc(2 * n_tick, sizeof(*s->came));
    seen = s->came + n_tick;
    s->asked = spot_xcalloc(n_tick, sizeof(*s->asked));
    replay_work_init(&work, &load, NULL, o.tick_s);
    replay_work_rates(&work, &o, n_tick, s->came, seen);
    replay_work_release(&work);
    spot_load_release(&load);
    for (size_t t = 0; t < 2 * n_tick; t++)
        s->came[t] /= o.per_replica;
    s->play.wanted = replay_autoscale(&o, n_tick, s->came, seen, s->asked);
    if (s->play.wanted > SPOT_FLEET_REPLICAS_MAX)
        return spot_err_set(err, SPOT_EUSAGE,
                            "%s asks for %d replicas, more than %d: give a larger --per-replica",
                            o.load, s->play.wanted, SPOT_FLEET_REPLICAS_MAX);
    s->play.load = s->came;
    s->play.asked = s->asked;
    return 0;
}

static int play_all(struct session *s, struct spot_err *err)
{
    for (size_t k = 0; k < s->n_played; k++) {
        struct played *p = &s->played[k];

        p->step = spot_xcalloc(s->play.n_tick, sizeof(*p->step));
        p->in_zone = spot_xcalloc(s->play.n_tick * s->play.n_zone, sizeof(*p->in_zone));
        spot_fleet_defaults(&s->play, p->policy);
        if (!spot_fleet_play_run(&s->play, p->policy, &p->result, p->step, p->in_zone, err))
            continue;
        if (!p->policy->know || strcmp(o.policy, "all") != 0)
            return -1;
        spot_tool_warn("left out: %s: %s", p->policy->name, err->msg);
        free(p->step);
        free(p->in_zone);
        memmove(p, p + 1, (--s->n_played - k) * sizeof(*p));
        s->played[s->n_played] = (struct played){ 0 };
        k--;
    }
    return 0;
}

/* --- output --- */

static void add_totals(struct spot_table *table, const struct session *s)
{
    for (size_t k = 0; k < s->n_played; k++) {
        const struct spot_fleet_result *r = &s->played[k].result;

        spot_table_add(table, "%s %G %G %G %G %G %zu %zu %G", s->played[k].policy->name,
                       r->availability, r->cost_ratio, r->usd, r->unserved_share,
                       r->on_demand_share, r->preempted, r->failed, r->wait_s);
    }
}

/* Add the number of replicas in each zone, in the order of the series. */
static void add_zones(struct spot_table *table, const struct session *s, const int32_t *in_zone)
{
    const size_t n_byte = 12 * s->play.n_zone + 1;
    char *text = spot_xcalloc(n_byte, 1);

    for (size_t z = 0, at = 0; z < s->play.n_zone; z++)
        at += (size_t)snprintf(text + at, n_byte - at, "%s%d", z ? " " : "", (int)in_zone[z]);
    spot_table_add(table, "%s", text);
    free(text);
}

static void add_steps(struct spot_table *table, const struct session *s)
{
    for (size_t k = 0; k < s->n_played; k++)
        for (size_t t = 0; t < s->play.n_tick; t++) {
            const struct spot_fleet_step *step = &s->played[k].step[t];

            spot_table_add(table, "%s %G %d %d %d %d %G %G", s->played[k].policy->name,
                           s->trace.start_s + (double)t * o.tick_s, step->spot, step->spot_ready,
                           step->on_demand, step->on_demand_ready, step->unserved, step->usd);
            add_zones(table, s, s->played[k].in_zone + t * s->play.n_zone);
            spot_table_add(table, "%s", step->state);
        }
}

static int print(const struct session *s, struct spot_err *err)
{
    static const char total[] =
        "policy,availability#,cost_ratio#,usd#,unserved_share#,on_demand_share#,preempted#,"
        "failed#,wait_s#";
    static const char step[] =
        "policy,time_s#,spot#,spot_ready#,on_demand#,on_demand_ready#,unserved#,usd#,zones,"
        "state";
    struct spot_table table;

    if (spot_tool_table(&o.common, &table, o.steps ? step : total, err))
        return -1;
    (o.steps ? add_steps : add_totals)(&table, s);
    return spot_tool_table_write(&o.common, &table, 0, err);
}

/* True if anything is held: in any tick, or in the first only, as a picture shows one. */
static bool is_held(const struct replay_fleet_picture *p, size_t band)
{
    for (size_t t = 0; t < p->n_tick; t++)
        if (p->held[t * p->n_band + band])
            return true;
    return band == 0;
}

/* The bands of which something is held; the last one also contains all that have no band of their
 * own. edge: lower and upper edge of each, the first band on top, as in the key. Returns their
 * number. */
static size_t stack(const struct replay_fleet_picture *p, const double *x, double *edge,
                    struct spot_series *series)
{
    const size_t n = p->n_tick;
    size_t bands = 0, at = 0;

    for (size_t z = 0; z < p->n_band; z++)
        bands += is_held(p, z);
    bands = bands < SPOT_PLOT_SERIES_MAX ? bands : SPOT_PLOT_SERIES_MAX;
    for (size_t z = 0; z < p->n_band; z++) {
        const bool is_new = is_held(p, z) && at < bands;
        double *above;

        if (!is_held(p, z))
            continue;
        at += is_new;
        above = edge + at * n;
        for (size_t t = 0; t < n; t++)
            above[t] = (is_new ? above - n : above)[t] + p->held[t * p->n_band + z];
        series[bands - at] = (struct spot_series){ .label = p->band[z],
                                                   .style = SPOT_SERIES_BAND,
                                                   .n = n,
                                                   .x = x,
                                                   .y = above - n,
                                                   .y2 = above };
    }
    return bands;
}

/* Draws bands stacked on each other, the unserved load, and the cost so far. */
int replay_fleet_draw(const struct replay_fleet_options *options,
                      const struct replay_fleet_picture *p, struct spot_err *err)
{
    const size_t n = p->n_tick;
    struct spot_series series[SPOT_PLOT_SERIES_MAX] = { 0 };
    double *x = spot_xcalloc(n * (SPOT_PLOT_SERIES_MAX + 3), sizeof(double)), *usd = x + n;
    const size_t bands = stack(p, x, usd + n, series);
    const struct spot_series last[] = {
        { .label = "", .style = SPOT_SERIES_STEP, .n = n, .x = x, .y = p->unserved },
        { .label = "", .style = SPOT_SERIES_LINE, .n = n, .x = x, .y = usd },
    };
    double sum = 0;
    int rc;

    for (size_t t = 0; t < n; t++) {
        x[t] = (double)t * options->tick_s / 3600;
        usd[t] = sum += p->usd[t];
    }
    const struct spot_figure panel[] = {
        { .title = p->title,
          .x_label = "time (h)",
          .y_label = "machines",
          .series = series,
          .n_series = bands,
          .is_count = true },
        { .title = p->unserved_title,
          .x_label = "time (h)",
          .y_label = p->unserved_unit,
          .series = &last[0],
          .n_series = 1,
          .is_count = true },
        { .title = "cost so far",
          .x_label = "time (h)",
          .y_label = "usd",
          .series = &last[1],
          .n_series = 1 },
    };
    rc = spot_plot_panels(panel, 3, options->plot, err);
    free(x);
    return rc;
}

/* Draw the fleet of the last policy given: zones stacked, on demand on top. */
static int draw(const struct session *s, struct spot_err *err)
{
    const size_t n = s->play.n_tick, n_zone = s->play.n_zone;
    const struct played *p = &s->played[s->n_played - 1];
    const char **band = spot_xcalloc(n_zone + 1, sizeof(*band));
    int32_t *held = spot_xcalloc(n * (n_zone + 1), sizeof(*held));
    double *unserved = spot_xcalloc(2 * n, sizeof(double)), *usd = unserved + n;
    char title[128];
    int rc;

    snprintf(title, sizeof(title), "%s: %.4f available for %.3f of the cost of on demand",
             p->policy->name, p->result.availability, p->result.cost_ratio);
    memcpy(band, s->zone, n_zone * sizeof(*band));
    band[n_zone] = "on demand";
    for (size_t t = 0; t < n; t++) {
        memcpy(held + t * (n_zone + 1), p->in_zone + t * n_zone, n_zone * sizeof(*held));
        held[t * (n_zone + 1) + n_zone] = p->step[t].on_demand;
        unserved[t] = p->step[t].unserved;
        usd[t] = p->step[t].usd;
    }
    const struct replay_fleet_picture picture = {
        .title = title,
        .n_tick = n,
        .n_band = n_zone + 1,
        .band = band,
        .held = held,
        .unserved = unserved,
        .usd = usd,
        .unserved_title = "replicas wanted that did not answer",
        .unserved_unit = "replicas",
    };
    rc = replay_fleet_draw(&o, &picture, err);
    free(band);
    free(held);
    free(unserved);
    return rc;
}

static void put_serving(FILE *out, double time_s, int n)
{
    spot_trace_put_real(out, time_s);
    fprintf(out, ",%d\n", n);
}

/* Write a trace of the replicas that serve under the last policy, as input for spot-replay serve.
 */
static int write_serving(const struct session *s, struct spot_err *err)
{
    const struct spot_fleet_step *step = s->played[s->n_played - 1].step;
    const double turn_s = spot_fleet_turn_tick(&s->play) * o.tick_s;
    struct spot_out out;
    double time_s = s->trace.start_s;

    if (spot_out_open(&out, o.serving, err))
        return -1;
    fputs("time_s,available\n", out.file);
    for (size_t t = 0; t < s->play.n_tick; t++) {
        const int then = step[t].spot_ready + step[t].on_demand_ready;

        put_serving(out.file, time_s, step[t].ready_first);
        if (then != step[t].ready_first)
            put_serving(out.file, time_s + turn_s, then);
        time_s = s->trace.start_s + (double)(t + 1) * o.tick_s;
    }
    put_serving(out.file, time_s,
                step[s->play.n_tick - 1].spot_ready + step[s->play.n_tick - 1].on_demand_ready);
    return spot_out_finish(&out, 0, err);
}

static const struct spot_opt_need need[] = {
    { "serving", "!demand" },
    { "per-replica|demand|rho|window", "load" },
    { "demand", "catalogue" },
    { "catalogue|unserved", "demand" },
    { NULL, NULL },
};

static int run(struct session *s, struct spot_err *err)
{
    if (o.plot && spot_plot_check(o.plot, err))
        return -1;
    if (o.demand && o.cold_s[1] >= 0)
        return spot_err_set(err, SPOT_EUSAGE, "--demand has one --cold-start, without a colon");
    if (o.demand)
        return read_trace(s, err) ? -1 : replay_fleet_mixed(&o, &s->trace, s->play.n_tick, err);
    if (o.load && !(o.per_replica > 0))
        return spot_err_set(err, SPOT_EUSAGE, "--load needs --per-replica, or --demand");
    spot_tool_assume_prices(o.price, 0.918, 3.06);
    if (replay_policies("fleet", o.policy, REPLAY_FLEET_POLICIES_MAX, s->played, sizeof(*s->played),
                        &s->n_played, err) ||
        read_trace(s, err) || (o.load && follow_load(s, err)) || play_all(s, err))
        return -1;
    if ((o.plot && draw(s, err)) || (o.serving && write_serving(s, err)))
        return -1;
    return spot_plot_takes_stdout(o.plot, o.common.output) ? 0 : print(s, err);
}

static int replay_fleet(struct spot_err *err)
{
    struct session s = { 0 };
    int rc;

    if (replay_lists("fleet", o.policy))
        return 0;
    if (!o.trace)
        return spot_err_set(err, SPOT_EUSAGE, "--trace is needed");
    rc = run(&s, err);
    for (size_t k = 0; k < s.n_played; k++) {
        free(s.played[k].step);
        free(s.played[k].in_zone);
    }
    free(s.count);
    free(s.zone);
    free(s.type);
    free(s.usd_per_h);
    free(s.came);
    free(s.asked);
    spot_trace_release(&s.trace);
    return rc;
}

const struct spot_cli replay_fleet_command = {
    .name = "spot-replay fleet",
    .brief = "availability and cost of replicas on spot of several zones, under policies",
    .need = need,
    .reads = (const char *const[]){ "trace", "load", "demand", "catalogue", NULL },
    .writes = (const char *const[]){ "output", "plot", "serving", NULL },
    .choice =
        (const struct spot_opt_choice[]){ { "format", "csv|tsv|jsonl|table|md" }, { NULL, NULL } },
    .synopsis = "--trace trace.csv --n N [options]",
    .summary = "Simulate replicas on spot of several zones and on demand, under each policy.",
    .examples = "  spot-replay fleet --trace t.csv --n 2 --policy spothedge,spot\n",
    .option =
        (const struct spot_opt[]){
            { SPOT_OPT_GROUP, .help = "the fleet" },
            SPOT_ROW_TRACE(&o.trace),
            SPOT_U64("n", &o.n, "n", "replicas wanted (default: 1)", 1, SPOT_FLEET_REPLICAS_MAX),
            SPOT_TIMES("cold-start", o.cold_s, "times",
                       "from launch to first answer (default: a step); what it really is", 0, 1e6),
            SPOT_ROW_TICK(&o.tick_s),
            SPOT_ROW_USD_PER_H(o.price),
            { SPOT_OPT_GROUP, .help = "a load instead of --n" },
            SPOT_ROW_LOAD(&o.load),
            SPOT_REAL("per-replica", &o.per_replica, "rate",
                      "requests/s that one replica answers within its SLO", 1e-9, 1e9),
            SPOT_TEXT("demand", &o.demand, "file",
                      "spot.demand/1: request sizes, and how many each type answers"),
            SPOT_ROW_CATALOGUE(&o.catalogue),
            SPOT_ROW_AVAILABILITY(&o.availability),
            SPOT_ROW_UNSERVED(&o.unserved),
            SPOT_ROW_RHO(&o.rho),
            SPOT_ROW_WINDOW(&o.window_s),
            { SPOT_OPT_GROUP, .help = "policies" },
            SPOT_ROW_POLICIES(&o.policy),
            SPOT_ROW_TICKS(&o.steps),
            SPOT_ROW_PLOT(&o.plot),
            SPOT_TEXT("serving", &o.serving, "file",
                      "trace of what serves under the last policy, for spot-replay serve"),
            SPOT_TOOL_OPTIONS_AS(&o.common, "csv, tsv, jsonl, table or md"),
            { SPOT_OPT_END },
        },
    .common = &o.common,
    .run_alone = replay_fleet,
};
