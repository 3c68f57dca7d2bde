/* SPDX-License-Identifier: MIT */
/* spot-replay share - jobs on a shared cluster, round by round, under several policies. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/plot.h"
#include "cli/rows.h"
#include "cli/tool.h"
#include "common/num.h"
#include "common/xalloc.h"
#include "plan/decision.h"
#include "replay.h"
#include "sim/share_play.h"
#include "sim/share_sim.h"

static struct options {
    struct spot_tool_common common;
    const char *jobs, *throughput, *cluster, *trace, *policy, *rounds, *plot;
    double round_s, switch_s, checkpoint_s;
    bool steps;
} o = { .common = SPOT_TOOL_COMMON_DEFAULT,
        .policy = "spot,max-min-perf,makespan,fifo-perf,isolated",
        .rounds = "exact",
        .round_s = 360 };

enum { PLAYED_MAX = 32 };

struct played {
    const struct spot_share_player *player;
    struct spot_share_outcome outcome;
};

struct session {
    struct spot_share_jobs jobs;
    struct spot_share_cluster cluster;
    struct spot_job_rates speeds;
    struct spot_trace supply;
    double *rate;
    struct spot_share_play play;
    struct played played[PLAYED_MAX];
    size_t n_played;
};

/* --- input --- */

static int check_supply(const struct session *s, struct spot_err *err)
{
    for (size_t k = 0; k < s->supply.n_series; k++) {
        bool is_known = false;

        for (size_t j = 0; j < s->cluster.n; j++)
            is_known |= !strcmp(s->supply.series[k].instance_type, s->cluster.type[j].name);
        if (!is_known)
            return spot_err_set(err, SPOT_EDATA, "%s: instance type '%.64s' is not of %s", o.trace,
                                s->supply.series[k].instance_type, o.cluster);
    }
    return 0;
}

static int read_all(struct session *s, struct spot_err *err)
{
    if (spot_share_jobs_load(&s->jobs, o.jobs, err) ||
        spot_share_cluster_load(&s->cluster, o.cluster, err) ||
        (o.throughput && spot_job_rates_load(&s->speeds, o.throughput, err)) ||
        (o.trace && spot_trace_load_path(&s->supply, o.trace, err)) || check_supply(s, err))
        return -1;
    s->rate = spot_xcalloc(s->jobs.n * s->cluster.n, sizeof(double));
    s->play = (struct spot_share_play){ .jobs = &s->jobs,
                                        .cluster = &s->cluster,
                                        .speeds = &s->speeds,
                                        .rate = s->rate,
                                        .round_s = o.round_s,
                                        .reset_s = 1920,
                                        .switch_s = o.switch_s,
                                        .checkpoint_s = o.checkpoint_s,
                                        .is_released = !strcmp(o.rounds, "gavel"),
                                        .has_steps = o.steps,
                                        .seed = o.common.seed,
                                        .supply = o.trace ? &s->supply : NULL };
    return spot_share_rates(&s->jobs, &s->cluster, &s->speeds, s->rate, err);
}

/* --- rows --- */

static void add_classes(struct spot_table *table, const struct spot_share_outcome *p)
{
    const struct spot_share_class *high = &p->of[SPOT_SHARE_HIGH], *spot = &p->of[SPOT_SHARE_SPOT];

    spot_table_add(
        table, "%.3g %.3g %.3g %.3g %.3g %.3g %.3g", p->allocation, high->jct_mean_s / 3600,
        high->queue_s / 3600, spot->jct_mean_s / 3600, spot->queue_s / 3600,
        spot->starts ? (double)spot->evictions / (double)spot->starts : 0, spot->lost_s / 3600);
}

static void add_totals(struct spot_table *table, const struct session *s)
{
    for (size_t k = 0; k < s->n_played; k++) {
        const struct spot_share_outcome *p = &s->played[k].outcome;

        spot_table_add(
            table, "%s %lld %.3g %.3g %.3g %.3g %.3g %.3g %.3g %.3g %.3g %lld %lld %.3g %lld",
            s->played[k].player->name, (long long)p->n_done, p->jct_mean_s / 3600,
            p->jct_p99_s / 3600, p->makespan_s / 3600, p->ftf_max, p->utilisation, p->usd,
            p->jct_p50_s / 3600, p->jct_p90_s / 3600, p->ftf_mean, (long long)p->switches,
            (long long)p->preemptions, p->lost_s / 3600, (long long)p->n_failed);
        if (s->jobs.has_classes)
            add_classes(table, p);
    }
}

static void add_steps(struct spot_table *table, const struct session *s)
{
    for (size_t k = 0; k < s->n_played; k++)
        for (size_t i = 0; i < s->played[k].outcome.n_step; i++) {
            const struct spot_share_step *step = &s->played[k].outcome.step[i];
            const struct spot_share_job *job = &s->jobs.job[step->job];

            spot_table_add(table, "%s %s %s %lld %lld %.3e %.3e %.3e %.3e %s %lld %.3e",
                           s->played[k].player->name, job->id,
                           step->type < 0 ? "" : s->cluster.type[step->type].name,
                           (long long)step->first_worker, (long long)step->scale, step->start_s,
                           step->end_s, job->steps - step->left, step->unsaved,
                           step->on < 0 ? "" : s->cluster.type[step->on].name,
                           step->on < 0 ? 0 : (long long)step->on_scale, step->isolated_s);
        }
}

static int print(const struct session *s, struct spot_err *err)
{
    static const char total[] =
        "policy,jobs#,jct_mean_h#,jct_p99_h#,makespan_h#,ftf_max#,utilisation#,usd#,"
        "jct_p50_h#,jct_p90_h#,ftf_mean#,switches#,preemptions#,lost_h#,failed#";
    static const char of_class[] =
        ",allocation#,high_jct_mean_h#,high_queue_h#,spot_jct_mean_h#,spot_queue_h#,"
        "spot_evicted#,spot_lost_h#";
    static const char step[] =
        "policy,job,instance_type,worker#,workers#,start_s#,end_s#,done#,unsaved#,on,"
        "on_workers#,isolated_s#";
    char columns[sizeof(total) + sizeof(of_class)];
    struct spot_table table;

    snprintf(columns, sizeof(columns), "%s%s", o.steps ? step : total,
             s->jobs.has_classes && !o.steps ? of_class : "");
    if (spot_tool_table(&o.common, &table, columns, err))
        return -1;
    (o.steps ? add_steps : add_totals)(&table, s);
    return spot_tool_table_write(&o.common, &table, 0, err);
}

/* --- pictures --- */

/* The share of jobs that ended within a time of their arrival. */
static void draw_cdf(const struct session *s, struct spot_figure *figure,
                     struct spot_series *series, double **xy)
{
    for (size_t k = 0; k < s->n_played; k++) {
        const struct spot_share_outcome *p = &s->played[k].outcome;
        double *x = xy[2 * k] = spot_xcalloc(s->jobs.n + 1, sizeof(double));
        double *y = xy[2 * k + 1] = spot_xcalloc(s->jobs.n + 1, sizeof(double));
        size_t n = 0;

        for (size_t i = 0; i < s->jobs.n; i++)
            if (!isnan(p->jct_s[i]))
                x[++n] = p->jct_s[i] / 3600;
        qsort(x, n + 1, sizeof(*x), spot_num_compare);
        for (size_t i = 0; i <= n; i++)
            y[i] = (double)i / (double)s->jobs.n;
        series[k] = (struct spot_series){ .label = s->played[k].player->name,
                                          .style = SPOT_SERIES_STEP,
                                          .n = n + 1,
                                          .x = x,
                                          .y = y };
    }
    *figure = (struct spot_figure){ .title = "jobs ended, by time since their arrival",
                                    .x_label = "time (h)",
                                    .y_label = "share of jobs",
                                    .series = series,
                                    .n_series = s->n_played };
}

static int draw(const struct session *s, struct spot_err *err)
{
    struct spot_figure figure;
    struct spot_series series[PLAYED_MAX] = { 0 };
    double *xy[2 * PLAYED_MAX] = { 0 };
    int rc;

    draw_cdf(s, &figure, series, xy);
    rc = spot_plot(&figure, o.plot, err);
    for (size_t i = 0; i < sizeof(xy) / sizeof(*xy); i++)
        free(xy[i]);
    return rc;
}

/* --- the command --- */

static int play(struct session *s, struct spot_err *err)
{
    for (size_t k = 0; k < s->n_played; k++)
        if (spot_share_play_run(&s->play, s->played[k].player, &s->played[k].outcome, err))
            return -1;
    return o.plot ? draw(s, err) : 0;
}

static int run(struct session *s, struct spot_err *err)
{
    if ((o.plot && spot_plot_check(o.plot, err)) ||
        replay_policies("share", o.policy, PLAYED_MAX, s->played, sizeof(*s->played), &s->n_played,
                        err) ||
        read_all(s, err))
        return -1;
    if (play(s, err))
        return -1;
    return spot_plot_takes_stdout(o.plot, o.common.output) ? 0 : print(s, err);
}

static int replay_share(struct spot_err *err)
{
    static struct session s;
    int rc;

    if (replay_lists("share", o.policy))
        return 0;
    if (!o.jobs || !o.cluster)
        return spot_err_set(err, SPOT_EUSAGE, "--jobs and --cluster are needed");
    rc = run(&s, err);
    for (size_t k = 0; k < s.n_played; k++)
        spot_share_outcome_release(&s.played[k].outcome);
    spot_share_jobs_release(&s.jobs);
    spot_share_cluster_release(&s.cluster);
    spot_job_rates_release(&s.speeds);
    spot_trace_release(&s.supply);
    free(s.rate);
    return rc;
}

const struct spot_cli replay_share_command = {
    .name = "spot-replay share",
    .brief = "simulate jobs that share a cluster, under policies",
    .need = (const struct spot_opt_need[]){ { "switch|checkpoint|trace", "rounds exact" },
                                            { NULL, NULL } },
    .reads = (const char *const[]){ "jobs", "throughput", "cluster", "trace", NULL },
    .writes = (const char *const[]){ "output", "plot", NULL },
    .choice = (const struct spot_opt_choice[]){ { "format", "csv|tsv|jsonl|table|md" },
                                                { "rounds", "exact|gavel" },
                                                { NULL, NULL } },
    .synopsis = "--jobs jobs.csv --throughput t.json --cluster cluster.csv [options]",
    .summary = "Simulate jobs that share a cluster, round by round, under each policy.",
    .examples = "  spot-replay share --jobs j.csv --throughput t.json --cluster c.csv --rounds "
                "gavel\n  spot-replay share --jobs j.csv --throughput t.json --cluster c.csv "
                "--switch 20s --checkpoint 6m\n",
    .option =
        (const struct spot_opt[]){
            { SPOT_OPT_GROUP, .help = "input" },
            SPOT_TEXT("jobs", &o.jobs, "file", "CSV (required), - is standard input"),
            SPOT_TEXT("throughput", &o.throughput, "file",
                      "spot.throughput/1: steps/s by kind of job and type of worker"),
            SPOT_TEXT("cluster", &o.cluster, "file", "CSV of types (required)"),
            SPOT_TEXT("trace", &o.trace, "file",
                      "availability of workers by instance type (default: all, always)"),
            { SPOT_OPT_GROUP, .help = "policies" },
            SPOT_ROW_POLICIES(&o.policy),
            SPOT_TEXT("rounds", &o.rounds, "what",
                      "exact (default), or gavel: as released, nothing is lost"),
            SPOT_ROW_ROUND(&o.round_s),
            SPOT_ROW_SWITCH_JOB(&o.switch_s),
            SPOT_ROW_CHECKPOINT(&o.checkpoint_s),
            { SPOT_OPT_GROUP, .help = "output" },
            SPOT_ROW_TICKS(&o.steps),
            SPOT_ROW_PLOT(&o.plot),
            SPOT_TOOL_OPTIONS_AS(&o.common, "csv, tsv, jsonl, table or md"),
            { SPOT_OPT_END },
        },
    .common = &o.common,
    .run_alone = replay_share,
};
