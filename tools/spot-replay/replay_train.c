/* SPDX-License-Identifier: MIT */
/* spot-replay train - a training job against a recorded trace, under many policies. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/rows.h"
#include "cli/tool.h"
#include "common/out.h"
#include "common/xalloc.h"
#include "model/job_doc.h"
#include "model/measured_cost.h"
#include "peers/registry.h"
#include "peers/train_peers.h"
#include "plan/cost_table.h"
#include "replay.h"
#include "replay_train.h"
#include "trace/trace.h"

static struct {
    const char *job, *trace, *policy, *cost, *plot, *picture, *events;
    const char *throughput, *peer_model;
    double interval_s, from_s, to_s, notice_s[2];
    uint64_t look_ahead, scale;
    bool steps;
    struct spot_tool_common common;
} opt = { .policy = "ideal,optimal,parcae-truth,spot,nowcast,persistence,throughput",
          .throughput = "both",
          .peer_model = "published",
          .picture = "samples",
          .from_s = -1,
          .notice_s = { -1, -1 },
          .to_s = -1,
          .scale = 1,
          .common = SPOT_TOOL_COMMON_DEFAULT };

/* --- input --- */

/* Sum all series on a grid of intervals, and put each on the grid for the forecasts. */
static int load_trace(struct replay_train *s, struct spot_err *err)
{
    struct spot_trace *trace = &s->trace;
    int32_t *one;

    spot_trace_release(trace);
    if (spot_trace_load_path(trace, opt.trace, err))
        return -1;
    if ((opt.from_s >= 0 || opt.to_s >= 0) &&
        spot_trace_cut(trace, opt.from_s < 0 ? 0 : opt.from_s,
                       opt.to_s < 0 ? SPOT_TRACE_TIME_MAX_S : opt.to_s, err))
        return -1;
    spot_trace_scale(trace, (int32_t)opt.scale);
    s->n = spot_trace_grid_n(trace->start_s, trace->end_s, s->interval_s);
    if (spot_trace_check_grid(trace, (trace->end_s - trace->start_s) / s->interval_s, s->interval_s,
                              SPOT_SIM_INTERVALS_MAX,
                              "a larger --interval, or less of it (--from, --to)", err))
        return -1;
    s->available = spot_xcalloc(s->n, sizeof(*s->available));
    one = spot_xcalloc(s->n, sizeof(*one));
    for (size_t k = 0; k < trace->n_series; k++) {
        spot_trace_resample(&trace->series[k], trace->start_s, s->interval_s, s->n, one);
        for (size_t i = 0; i < s->n; i++)
            s->available[i] += one[i];
    }
    free(one);
    return 0;
}

/* Tables cover grids with a known speed; no policy uses others. */
static void make_table(struct replay_train *s)
{
    const struct spot_throughput *t = &s->throughput;
    int *grid = spot_xcalloc((size_t)t->n_grid, sizeof(*grid)), n = 0;

    for (int i = 0; i < t->n_grid; i++)
        if (t->samples_per_s[t->grid_order[i]] > 0)
            grid[n++] = t->grid_order[i];
    spot_cost_table_init_window(&s->table, &s->job, t, 0, t->n_max, t->n_max, grid, n);
    free(grid);
}

/* The largest number of instances in the trace and the profile, for which tables are made; or -1
 * with *err. */
static int count_most(const struct replay_train *s, struct spot_err *err)
{
    const int profiled = spot_job_profiled(&s->job);
    int seen = 0;

    for (size_t i = 0; i < s->n; i++)
        seen = s->available[i] > seen ? s->available[i] : seen;
    if (seen > SPOT_COST_INSTANCES_MAX)
        return spot_err_set(err, SPOT_EDATA,
                            "%d instances at once, a replay prices up to %d; see --scale", seen,
                            SPOT_COST_INSTANCES_MAX);
    if (profiled > SPOT_COST_INSTANCES_MAX)
        return spot_json_fail(&s->job.json, "/profile", err,
                              "a grid of %d instances, a replay prices up to %d", profiled,
                              SPOT_COST_INSTANCES_MAX);
    return spot_sim_cap(&s->job, seen);
}

static int prepare(struct replay_train *s, struct spot_err *err)
{
    const int most = count_most(s, err);

    if (most < 0)
        return -1;
    if (spot_throughput_init(&s->throughput, &s->job, most, s->source, err))
        return -1;
    make_table(s);
    s->table.is_released = opt.cost && !strcmp(opt.cost, "parcae"); /* with Parcae's rules too */
    s->table.carries_rest = !s->table.is_released;
    s->is_ready = true;
    s->sim = (struct spot_sim_train){ .job = &s->job,
                                      .throughput = &s->throughput,
                                      .table = &s->table,
                                      .n_interval = s->n,
                                      .available = s->available,
                                      .trace = &s->trace,
                                      .interval_s = s->interval_s,
                                      .look_ahead = s->look_ahead,
                                      .notice_loss_s = s->notice_loss_s,
                                      .notice_gain_s = s->notice_gain_s,
                                      .peers = &s->peers,
                                      .seed = opt.common.seed };
    return 0;
}

static int find_policies(struct replay_train *s, struct spot_err *err)
{
    size_t n;

    s->is_all = !strcmp(opt.policy, "all");
    if (replay_policies("train", opt.policy, REPLAY_POLICIES_MAX, s->policy, sizeof(void *), &n,
                        err))
        return -1;
    s->n_policy = (int)n;
    return 0;
}

static int parse_options(struct replay_train *s, struct spot_err *err)
{
    enum spot_peer_model model;

    if (!opt.job)
        return spot_err_set(err, SPOT_EUSAGE, "--job is missing");
    s->notice_loss_s = opt.notice_s[0] < 0 ? 120 : opt.notice_s[0];
    s->notice_gain_s = opt.notice_s[0] < 0   ? 0
                       : opt.notice_s[1] < 0 ? opt.notice_s[0]
                                             : opt.notice_s[1];
    if (spot_peer_model_parse(opt.peer_model, &model, err))
        return -1;
    s->peers = *spot_peer_prices_of(model);
    if (spot_throughput_source_parse(opt.throughput, &s->source, err))
        return -1;
    if ((opt.cost && !strcmp(opt.cost, "measured")) != !!opt.events)
        return spot_err_set(err, SPOT_EUSAGE, "--cost measured and --events need each other");
    if (spot_format_parse(opt.common.format, &s->format, err) || find_policies(s, err))
        return -1;
    if (s->format == SPOT_FORMAT_AUTO)
        s->format =
            isatty(STDOUT_FILENO) && !opt.common.output ? SPOT_FORMAT_TABLE : SPOT_FORMAT_CSV;
    if (s->format == SPOT_FORMAT_JSON)
        s->format = SPOT_FORMAT_JSONL;
    return 0;
}

static int run_ideal(struct replay_train *s, struct spot_sim_row *row, struct spot_err *err)
{
    struct spot_sim_total t;

    if (spot_sim_train_run(&s->sim, spot_registry_find("train", "ideal", err), row, err))
        return -1;
    spot_sim_total(row, s->n, &t);
    s->ideal = t.samples;
    return 0;
}

static int run_policies(struct replay_train *s, struct spot_table *table,
                        struct replay_figure *figure, struct spot_err *err)
{
    struct spot_sim_row *row = spot_xcalloc(s->n, sizeof(*row));
    int rc = run_ideal(s, row, err);

    for (int k = 0; k < s->n_policy && rc >= 0; k++) {
        rc = replay_train_play(s, k, row, err);
        if (rc)
            continue;
        if (opt.steps)
            replay_train_print_steps(s, s->policy[k], row, table);
        else
            replay_train_print_total(s, s->policy[k], row, table);
        if (opt.plot)
            replay_figure_add(figure, s, s->policy[k], row);
    }
    free(row);
    return rc < 0 ? -1 : 0;
}

/* --cost measured: replaces cost terms of the job by those of a real run, for every policy. */
static int load_costs(struct replay_train *s, struct spot_err *err)
{
    struct spot_measured_cost m;

    if (spot_measured_cost_load(&m, opt.events, err))
        return -1;
    spot_measured_cost_apply(&m, &s->job.cost);
    spot_tool_info("%zu changes in %s: %.3g s, %.3g s with joiners, %.3g s/GB moved, %.3g s a lost "
                   "stage (%zu seen), step %.3g s",
                   m.n_change, opt.events, m.leave_s, m.join_s, m.byte_s * 1e9, m.restore_s,
                   m.n_restore, m.step_s);
    return 0;
}

static void warn_misspelt(const char *sentence)
{
    spot_tool_warn("%s", sentence);
}

static int run(struct replay_train *s, struct spot_err *err)
{
    struct replay_figure figure = { .picture = opt.picture };
    struct spot_table table = { 0 };
    struct spot_out out;
    int rc;

    if (parse_options(s, err) || spot_job_doc_load(&s->job, opt.job, err))
        return -1;
    if (s->job.kind != SPOT_JOB_TRAIN)
        return spot_json_fail(&s->job.json, "/kind", err, "expected \"train\"");
    if (s->is_all && s->job.cost.on_demand_usd_per_h < 0)
        replay_train_leave_out(s);
    spot_job_doc_warn_misspelt(&s->job, warn_misspelt);
    if (opt.events && load_costs(s, err))
        return -1;
    s->interval_s = opt.interval_s > 0 ? opt.interval_s : s->job.cost.interval_s;
    s->look_ahead = opt.look_ahead ? (int)opt.look_ahead : (int)s->job.cost.look_ahead;
    if (load_trace(s, err) || prepare(s, err))
        return -1;
    if (spot_out_open(&out, opt.common.output, err))
        return -1;
    replay_train_begin(s, opt.steps, &table);
    replay_train_watch(opt.common.quiet);
    rc = run_policies(s, &table, &figure, err);
    replay_train_warn(s);
    if (!rc && !spot_plot_takes_stdout(opt.plot, opt.common.output))
        spot_table_print(&table, out.file, s->format);
    rc = spot_out_finish(&out, rc, err);
    if (!rc && opt.plot)
        rc = replay_figure_draw(&figure, s, opt.plot, err);
    spot_table_release(&table);
    replay_figure_release(&figure);
    return rc;
}

static int replay_train(struct spot_err *err)
{
    struct replay_train s = { 0 };
    int rc;

    if (replay_lists("train", opt.policy))
        return 0;
    if (spot_tool_stdin_is_idle(opt.trace))
        return spot_err_set(err, SPOT_EUSAGE, "no trace: name one, or - for standard input");
    rc = run(&s, err);
    replay_train_release(&s);
    return rc;
}

const struct spot_cli replay_train_command = {
    .name = "spot-replay train",
    .brief = "simulate a training job on a trace, under many policies",
    .need = (const struct spot_opt_need[]){ { "picture", "plot" }, { NULL, NULL } },
    .reads = (const char *const[]){ "job", "trace", "events", NULL },
    .writes = (const char *const[]){ "output", "plot", NULL },
    .choice = (const struct spot_opt_choice[]){ { "cost", "parcae|measured" },
                                                { "peer-model", "published|generous|as-measured" },
                                                { NULL, NULL } },
    .synopsis = "--job job.json --trace trace.csv [options]",
    .summary = "Simulate a training job on an availability trace under each policy and account\n"
               "for every machine-second.",
    .examples = "  spot-replay train --job examples/jobs/bert.json --trace t.csv --notice 0\n"
                "  spot-replay train --job job.json --trace t.csv --policy spot --steps\n"
                "  spot-replay train --job job.json --trace t.csv --plot samples.svg\n",
    .option =
        (const struct spot_opt[]){
            { SPOT_OPT_GROUP, .help = "input" },
            SPOT_ROW_JOB(&opt.job),
            { SPOT_OPT_STRING, 't', "trace", &opt.trace, "file",
              "availability trace (default: stdin)", 0, 0 },
            SPOT_ROW_POLICIES(&opt.policy),
            SPOT_TIMES("notice", opt.notice_s, "loss[:gain]",
                       "notice of both, or of losses and of gains (default: 2m:0)", 0, 1e9),
            SPOT_TEXT("cost", &opt.cost, "model",
                      "cost of a change: measured, or parcae: with its rules (default: ours)"),
            SPOT_TEXT("peer-model", &opt.peer_model, "model",
                      "other systems as published (default), generous or as-measured"),
            SPOT_ROW_THROUGHPUT(&opt.throughput),
            SPOT_TEXT("events", &opt.events, "file",
                      "spot.event/1 log of a real run, for measured"),
            SPOT_ROW_LENGTH(&opt.interval_s),
            SPOT_ROW_HORIZON(&opt.look_ahead),
            SPOT_ROW_FROM(&opt.from_s),
            SPOT_ROW_TO(&opt.to_s),
            SPOT_ROW_SCALE(&opt.scale),
            { SPOT_OPT_GROUP, .help = "output" },
            SPOT_ROW_TICKS(&opt.steps),
            SPOT_ROW_PLOT(&opt.plot),
            SPOT_TEXT("picture", &opt.picture, "what", "samples (default), grids or cost"),
            SPOT_TOOL_OPTIONS(&opt.common),
            { SPOT_OPT_END },
        },
    .common = &opt.common,
    .run_alone = replay_train,
};
