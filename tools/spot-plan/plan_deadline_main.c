/* SPDX-License-Identifier: MIT */
/* spot-plan deadline - spot, on demand or nothing for the next tick. */

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/table.h"
#include "cli/tool.h"
#include "common/json.h"
#include "common/out.h"
#include "common/prov.h"
#include "common/xalloc.h"
#include "model/forecast_doc.h"
#include "plan/deadline.h"
#include "plan_commands.h"
#include "trace/trace.h"

static const char *const mode_name[] = { "idle", "spot", "on-demand" };

static struct options {
    struct spot_tool_common common;
    const char *forecast, *trace, *zone, *now;
    double work_s, deadline_s, restart_s, done_s, elapsed_s, tick_s;
    double spot_usd_per_h, on_demand_usd_per_h;
    bool has_spot, explain;
} o = { .common = SPOT_TOOL_COMMON_DEFAULT,
        .now = "idle",
        .has_spot = true,
        .spot_usd_per_h = 0.9731,
        .on_demand_usd_per_h = 3.06 };

enum { WHY_MAX = 4, WHY_TEXT = 256 };

struct session {
    struct spot_deadline_job job;
    struct spot_deadline_now now;
    struct spot_run_law law;
    size_t age; /* of spot's run, ticks */
    double time_s;
    struct spot_deadline_table table;
    enum spot_deadline_mode want;
    struct spot_prov prov;
    char why[WHY_MAX][WHY_TEXT];
    size_t n_why;
};

/* --- what is known of spot --- */

static void fit(struct session *s, const struct spot_forecast *forecast,
                const struct spot_forecast_series *series)
{
    double *up = spot_xcalloc((size_t)forecast->horizon, sizeof(double));

    for (int64_t k = 1; k <= forecast->horizon; k++)
        up[k - 1] = 1 - spot_forecast_at(series, k)[0];
    s->now.has_spot = series->now > 0;
    s->time_s = series->time_s;
    spot_run_law_fit(&s->law, s->now.has_spot, up, (size_t)forecast->horizon);
    free(up);
}

static int read_forecast(struct session *s, struct spot_err *err)
{
    const struct spot_forecast_series *found = NULL;
    struct spot_forecast forecast = { 0 };
    struct spot_json_doc json;
    int rc;

    if (spot_json_load_path(&json, o.forecast, err))
        return -1;
    rc = spot_forecast_read(&json, &forecast, err);
    for (size_t i = 0; !rc && i < forecast.n_series; i++) {
        if (o.zone && strcmp(forecast.series[i].zone, o.zone) != 0)
            continue;
        if (found)
            rc = spot_json_fail(&json, "/series", err, "has several series: --zone names one");
        found = &forecast.series[i];
    }
    if (!rc && !found)
        rc = spot_json_fail(&json, "/series", err, "has none of zone '%.64s'", o.zone);
    if (!rc) {
        s->job.tick_s = o.tick_s > 0 ? o.tick_s : forecast.interval_s;
        if (fabs(s->job.tick_s - forecast.interval_s) > 1e-9)
            rc = spot_json_fail(&json, "/interval_s", err, "is not --tick %g s", o.tick_s);
        else
            fit(s, &forecast, found);
        spot_prov_add(&s->prov, json.source, json.hash);
    }
    spot_forecast_release(&forecast);
    spot_json_release(&json);
    return rc;
}

static int count_runs(struct session *s, const struct spot_trace *trace,
                      const struct spot_trace_series *series, struct spot_err *err)
{
    struct spot_run_count count = { 0 };
    size_t n;
    int32_t *there;

    s->job.tick_s = o.tick_s > 0 ? o.tick_s : spot_trace_interval_s(series);
    if (!(s->job.tick_s > 0))
        return spot_err_set(err, SPOT_EUSAGE, "%s has one row: say --tick", o.trace);
    n = spot_trace_grid_n(trace->start_s, trace->end_s, s->job.tick_s);
    if (spot_trace_check_grid(trace, (double)n, s->job.tick_s, SPOT_TRACE_GRID_MAX,
                              "say a longer --tick", err))
        return -1;
    there = spot_xcalloc(n, sizeof(*there));
    spot_trace_resample(series, trace->start_s, s->job.tick_s, n, there);
    for (size_t i = 0; i < n; i++)
        spot_run_count_add(&count, there[i] > 0);
    free(there);
    spot_run_law_learn_zone(&s->law, &count, s->job.tick_s);
    s->now.has_spot = count.is_up;
    s->age = count.age;
    s->time_s = trace->end_s;
    return 0;
}

static int read_trace(struct session *s, struct spot_err *err)
{
    const struct spot_trace_series *found = NULL;
    struct spot_trace trace;
    int rc = 0;

    if (spot_trace_load_path(&trace, o.trace, err))
        return -1;
    for (size_t i = 0; !rc && i < trace.n_series; i++) {
        if (o.zone && strcmp(trace.series[i].zone, o.zone) != 0)
            continue;
        if (found)
            rc = spot_err_set(err, SPOT_EUSAGE, "%s has several series: --zone names one", o.trace);
        found = &trace.series[i];
    }
    if (!rc && !found)
        rc = spot_err_set(err, SPOT_EDATA, "%s: no series of zone '%.64s'", o.trace, o.zone);
    rc = rc ? rc : count_runs(s, &trace, found, err);
    spot_prov_add(&s->prov, o.trace, trace.xxh3);
    spot_trace_release(&trace);
    return rc;
}

static int read_law(struct session *s, struct spot_err *err)
{
    const struct spot_run_count nothing = { 0 };

    s->job.tick_s = o.tick_s > 0 ? o.tick_s : 600;
    s->now.has_spot = o.has_spot;
    s->age = 1;
    if (o.forecast)
        return read_forecast(s, err);
    if (o.trace)
        return read_trace(s, err);
    spot_run_law_learn_zone(&s->law, &nothing, s->job.tick_s);
    return 0;
}

/* --- the answer --- */

static int set_now(struct session *s, struct spot_err *err)
{
    for (int m = 0; m < 3; m++)
        if (!strcmp(o.now, mode_name[m]))
            s->now.mode = (enum spot_deadline_mode)m;
    if (!(o.done_s < o.work_s))
        return spot_err_set(err, SPOT_EINFEASIBLE, "all work is done: nothing to run");
    if (s->now.mode == SPOT_DEADLINE_SPOT && !s->now.has_spot)
        s->now.mode = SPOT_DEADLINE_IDLE; /* it is lost */
    s->now.elapsed_s = o.elapsed_s;
    s->now.left_s = o.work_s - o.done_s;
    return spot_deadline_check(&s->job, &s->now, err);
}

static void explain(struct session *s)
{
    const double *usd = s->table.usd;

    for (int m = 0; m < 3; m++)
        if (isinf(usd[m]))
            snprintf(s->why[s->n_why++], WHY_TEXT, "%s: %s", mode_name[m],
                     m == SPOT_DEADLINE_SPOT && !s->now.has_spot
                         ? "there is none"
                         : "on demand could not finish in time after it");
        else
            snprintf(s->why[s->n_why++], WHY_TEXT, "%s now: %.2f usd expected in all%s",
                     mode_name[m], usd[m], m == (int)s->want ? ", the least" : "");
    snprintf(s->why[s->n_why++], WHY_TEXT,
             "on demand alone, from now to the end: %.2f usd; on demand still finishes in time "
             "after whatever is chosen",
             o.on_demand_usd_per_h *
                 ceil((s->now.left_s + (s->now.mode == SPOT_DEADLINE_ON_DEMAND ? 0 : o.restart_s)) /
                          s->job.tick_s -
                      1e-9) *
                 s->job.tick_s / 3600);
}

static int write_json(const struct session *s, FILE *out, struct spot_err *err)
{
    struct spot_jw jw;

    spot_jw_init(&jw, out, true);
    spot_jw_begin_doc(&jw, "spot.plan", 1, &s->prov);
    spot_jw_str(&jw, "kind", "deadline");
    spot_jw_real(&jw, "time_s", s->time_s);
    spot_jw_str(&jw, "mode", mode_name[s->want]);
    spot_jw_real(&jw, "hold_s", s->job.tick_s);
    spot_jw_object(&jw, "expected");
    spot_jw_real(&jw, "usd", s->table.usd[s->want]);
    spot_jw_end(&jw);
    spot_jw_array(&jw, "why");
    for (size_t i = 0; i < s->n_why; i++)
        spot_jw_str(&jw, NULL, s->why[i]);
    spot_jw_end(&jw);
    spot_jw_array(&jw, "alternatives");
    for (int m = 0; m < 3; m++) {
        if (m == (int)s->want || isinf(s->table.usd[m]))
            continue;
        spot_jw_object(&jw, NULL);
        spot_jw_str(&jw, "mode", mode_name[m]);
        spot_jw_real(&jw, "usd", s->table.usd[m]);
        spot_jw_end(&jw);
    }
    spot_jw_end(&jw);
    spot_jw_end(&jw);
    return spot_jw_close(&jw, err);
}

static int write_plan(const struct session *s, enum spot_format format, struct spot_err *err)
{
    struct spot_out out;
    int rc = 0;

    if (spot_out_open(&out, o.common.output, err))
        return -1;
    if (format == SPOT_FORMAT_TABLE) {
        fprintf(out.file, "%s for %g s\n\n", mode_name[s->want], s->job.tick_s);
        for (size_t i = 0; i < s->n_why; i++)
            fprintf(out.file, "%s\n", s->why[i]);
    } else {
        rc = write_json(s, out.file, err);
    }
    return spot_out_finish(&out, rc, err);
}

static int run(struct session *s, struct spot_err *err)
{
    enum spot_format format;

    if (spot_format_parse(o.common.format, &format, err))
        return -1;
    format = spot_format_settle(format, o.common.output, SPOT_FORMAT_JSON);
    s->job = (struct spot_deadline_job){ o.work_s, o.deadline_s,     o.restart_s,
                                         0,        o.spot_usd_per_h, o.on_demand_usd_per_h };
    if (read_law(s, err) || set_now(s, err) ||
        spot_deadline_solve(&s->table, &s->job, &s->law, &s->now, spot_run_stage(s->age), NULL,
                            err))
        return -1;
    s->want = spot_deadline_ask(&s->table, &s->job, &s->now, spot_run_stage(s->age));
    explain(s);
    if (o.explain && !o.common.quiet && format != SPOT_FORMAT_TABLE)
        for (size_t i = 0; i < s->n_why; i++)
            fprintf(stderr, "%s\n", s->why[i]);
    return write_plan(s, format, err);
}

static const struct spot_cli cli = {
    .name = "spot-plan deadline",
    .need = (const struct spot_opt_need[]){ { "forecast", "!trace" },
                                            { "has-spot", "!forecast" },
                                            { "has-spot", "!trace" },
                                            { NULL, NULL } },
    .reads = (const char *const[]){ "forecast", "trace", NULL },
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
            { SPOT_OPT_SECS, 0, "work", &o.work_s, "time",
              "computing time that the job needs (required)", 1, 1e8 },
            { SPOT_OPT_SECS, 0, "deadline", &o.deadline_s, "time",
              "deadline, from the job's start (required)", 1, 1e8 },
            { SPOT_OPT_SECS, 0, "restart", &o.restart_s, "time",
              "time that a launch takes without progress (default 0)", 0, 1e7 },
            { SPOT_OPT_SECS, 0, "done", &o.done_s, "time", "work already done (default 0)", 0,
              1e8 },
            { SPOT_OPT_SECS, 0, "elapsed", &o.elapsed_s, "time",
              "time since the job's start (default 0)", 0, 1e8 },
            { SPOT_OPT_STRING, 0, "now", &o.now, "mode",
              "what runs: spot, on-demand, idle (default)", 0, 0 },
            { SPOT_OPT_GROUP, .help = "the machines" },
            { SPOT_OPT_STRING, 0, "forecast", &o.forecast, "file",
              "spot.forecast/1, - is standard input: availability of spot", 0, 0 },
            { SPOT_OPT_STRING, 0, "trace", &o.trace, "file",
              "learn run lengths from this availability trace instead", 0, 0 },
            { SPOT_OPT_STRING, 0, "zone", &o.zone, "name", "use the series of this zone", 0, 0 },
            { SPOT_OPT_FLAG, 0, "has-spot", &o.has_spot, NULL,
              "spot is available now (default yes; --no-has-spot)", 0, 0 },
            { SPOT_OPT_SECS, 0, "tick", &o.tick_s, "time",
              "time between decisions (default: the forecast's interval, else 10m)", 1, 1e6 },
            { SPOT_OPT_REAL, 0, "spot-usd-per-h", &o.spot_usd_per_h, "usd",
              "price of spot (default 0.9731)", 0, 1e6 },
            { SPOT_OPT_REAL, 0, "on-demand-usd-per-h", &o.on_demand_usd_per_h, "usd",
              "price on demand (default 3.06)", 0, 1e6 },
            { SPOT_OPT_FLAG, 0, "explain", &o.explain, NULL, "say why on stderr", 0, 0 },
            SPOT_TOOL_OPTIONS_AS(&o.common, "json, or table (default on a terminal)"),
            { SPOT_OPT_END },
        },
};

static int plan_deadline(char **operand, size_t n, struct spot_err *err)
{
    struct session s = {
        .prov = { .tool = "spot-plan", .seed = o.common.seed, .is_off = !o.common.provenance }
    };
    const int rc = run(&s, err);

    (void)operand;
    (void)n;
    spot_prov_release(&s.prov);
    spot_deadline_release(&s.table);
    return rc;
}

const struct spot_command plan_deadline_command = {
    .name = "deadline",
    .brief = "spot, on demand or nothing now, to end in time",
    .cli = &cli,
    .common = &o.common,
    .run = plan_deadline,
};
