/* SPDX-License-Identifier: MIT */
/* spot-replay serve - how serving policies perform on a trace and a load. */
#include <stdlib.h>
#include <string.h>

#include "cli/plot.h"
#include "cli/rows.h"
#include "cli/tool.h"
#include "common/xalloc.h"
#include "peers/registry.h"
#include "replay.h"
#include "replay_serve.h"
#include "trace/load_seen.h"

static struct options {
    struct spot_tool_common common;
    const char *job, *trace, *load, *policy, *slo, *batching, *plot;
    double rate_per_s, switch_s, load_s, grace_s, boot_s;
    double interval_s;
    uint64_t capacity, pool, cache;
    const char *layout;
    double merge_s, link_byte_per_s;
    bool arrivals_only, steps, until_end;
} o = { .common = SPOT_TOOL_COMMON_DEFAULT,
        .policy = "all",
        .batching = "pools",
        .switch_s = 10,
        .load_s = 25,
        .grace_s = 30,
        .boot_s = 60,
        .interval_s = 60 };

/* --- options --- */

static int add_policy(struct replay_serve *s, const char *name, struct spot_err *err)
{
    static const char on_demand[] = "on-demand-";
    struct replay_served c = { .policy = 0 };
    char *end;

    if (s->n_played == REPLAY_SERVE_POLICIES_MAX)
        return spot_err_set(err, SPOT_EUSAGE, "--policy: more than %d", REPLAY_SERVE_POLICIES_MAX);
    if (!strncmp(name, on_demand, sizeof(on_demand) - 1)) {
        c.policy = SPOT_SERVE_ON_DEMAND;
        c.n = strtoll(name + sizeof(on_demand) - 1, &end, 10);
        if (c.n < 1 || c.n > SPOT_GRID_MAX || *end)
            return spot_err_set(err, SPOT_EUSAGE,
                                "--policy: on-demand-N has N from 1 to %d, got '%s'", SPOT_GRID_MAX,
                                name);
    } else {
        const struct spot_serve_row *row = spot_registry_find("serve", name, err);

        if (!row)
            return -1;
        c.policy = (enum spot_serve_policy)(row - spot_serve_row);
        if (c.policy == SPOT_SERVE_ON_DEMAND)
            return spot_err_set(err, SPOT_EUSAGE, "--policy: on-demand-N says how many, as N");
    }
    snprintf(c.name, sizeof(c.name), "%s", name);
    s->played[s->n_played++] = c;
    return 0;
}

static int read_policies(struct replay_serve *s, struct spot_err *err)
{
    char *copy = spot_xstrdup(o.policy), *rest = copy, *name;
    int rc = 0;

    for (size_t k = 0; !strcmp(copy, "all") && k < SPOT_SERVE_ON_DEMAND; k++)
        rc = rc ? rc : add_policy(s, spot_serve_row[k].name, err);
    while (!rc && strcmp(o.policy, "all") != 0 && (name = strtok_r(rest, ",", &rest)))
        rc = add_policy(s, name, err);
    free(copy);
    return rc;
}

/* A profile with a single length only accepts requests of that length. */
static int read_load(struct replay_serve *s, struct spot_err *err)
{
    const struct spot_job_serve *p = &s->job.serve;

    if (!spot_serve_knows_lengths(p) && !o.arrivals_only)
        return spot_load_read_alike(&s->load, o.load, p->prompt_token, p->output_token, err);
    if (spot_load_read_path(&s->load, o.load, o.arrivals_only ? 0 : p->context, err))
        return -1;
    for (size_t i = 0; o.arrivals_only && i < s->load.n; i++) {
        s->load.prompt_token[i] = (int32_t)p->prompt_token;
        s->load.output_token[i] = (int32_t)p->output_token;
    }
    return 0;
}

/* Requests before the start of the trace wait for it. Those after its end are answered by the last
 * instances, which are not charged. */
static void warn_of_clock(const struct replay_serve *s)
{
    const double start_s = s->trace.start_s, end_s = s->trace.end_s;
    size_t before = 0, after = 0;

    for (size_t i = 0; i < s->load.n; i++) {
        before += s->load.time_s[i] < start_s;
        after += s->load.time_s[i] > end_s;
    }
    if (before)
        spot_tool_warn("%zu of %zu requests come before the trace begins at %.15g s, and wait: do "
                       "both use the same clock?",
                       before, s->load.n, start_s);
    if (after)
        spot_tool_warn("%zu of %zu requests come after the trace ends at %.15g s, when no instance "
                       "is paid for: do both use the same clock?",
                       after, s->load.n, end_s);
}

static int refuse_count(double time_s, long long n, struct spot_err *err)
{
    return spot_err_set(err, SPOT_EDATA,
                        "%s: %lld instances at %.15g s, a replay of serving has up to %d", o.trace,
                        n, time_s, SPOT_GRID_MAX);
}

/* Read the events of the trace. Too large a series is refused: the time is quadratic. */
static int read_events(struct replay_serve *s, struct spot_err *err)
{
    long long there = 0;

    for (size_t k = 0; k < s->trace.n_series; k++)
        for (size_t i = 0; i < s->trace.series[k].n; i++)
            if (s->trace.series[k].available[i] > SPOT_GRID_MAX)
                return refuse_count(s->trace.series[k].time_s[i], s->trace.series[k].available[i],
                                    err);
    spot_serve_play_trace(&s->play, &s->trace, o.common.seed);
    for (size_t i = 0; i < s->play.n_event; i++) {
        there += s->play.event[i].comes ? 1 : -1;
        if (there > SPOT_GRID_MAX)
            return refuse_count(s->play.event[i].time_s, there, err);
    }
    return 0;
}

static int read_all(struct replay_serve *s, struct spot_err *err)
{
    struct spot_serve_slo slo = { 0 };

    s->has_slo = o.slo != NULL;
    s->interval_s = o.interval_s;
    if (read_policies(s, err) || (o.slo && spot_serve_slo_parse(&slo, o.slo, err)) ||
        spot_job_doc_load(&s->job, o.job, err))
        return -1;
    if (s->job.kind != SPOT_JOB_SERVE)
        return spot_json_fail(&s->job.json, "/kind", err, "expected \"serve\"");
    if (read_load(s, err) || spot_trace_load_path(&s->trace, o.trace, err))
        return -1;
    s->play = (struct spot_serve_play){
        .job = &s->job,
        .load = &s->load,
        .switch_s = o.switch_s,
        .load_s = o.load_s,
        .grace_s = o.grace_s,
        .capacity = (size_t)o.capacity,
        .boot_s = o.boot_s,
        .hand_s = 1 /* pause of an answer that moves to another instance */,
        .slo = slo,
        .seed = o.common.seed,
        .rule = { .batching = !strcmp(o.batching, "shared")   ? SPOT_BATCH_SHARED
                              : !strcmp(o.batching, "passes") ? SPOT_BATCH_PASSES
                              : !strcmp(o.batching, "bursts") ? SPOT_BATCH_BURSTS
                                                              : SPOT_BATCH_POOLS,
                  .pool_max = o.pool ? (size_t)o.pool : 2 * (size_t)s->job.serve.max_batch,
                  .is_power_of_two = true,
                  .cache_token = (int64_t)o.cache },
    };
    if (o.cache && spot_load_check_cache(&s->job.serve, &s->load, o.load, err))
        return -1;
    if (read_events(s, err))
        return -1;
    warn_of_clock(s);
    if (o.layout) {
        if (spot_layout_load(&s->layout, o.layout, err))
            return -1;
        s->moves = (struct spot_serve_moves){ .layout = &s->layout,
                                              .serve = &s->job.serve,
                                              .byte_per_s = o.link_byte_per_s,
                                              .other_s = o.switch_s };
        s->play.moves = &s->moves;
    }
    if (o.merge_s > 0)
        spot_serve_play_merge(&s->play, o.merge_s);
    s->until_end = o.until_end;
    s->play.note_every_s = o.steps ? o.interval_s : 0;
    s->play.rate_per_s = o.rate_per_s;
    return 0;
}

/* --- output --- */

static int play_all(struct replay_serve *s, struct spot_err *err)
{
    for (size_t k = 0; k < s->n_played; k++) {
        struct replay_served *p = &s->played[k];

        if (spot_serve_play_run(&s->play, p->policy, p->n, &p->result, err))
            return -1;
    }
    return 0;
}

static int print(const struct replay_serve *s, struct spot_err *err)
{
    struct spot_table table;

    if (spot_tool_table(&o.common, &table, o.steps ? replay_serve_step : replay_serve_total, err))
        return -1;
    table.break_at = 9;
    (o.steps ? replay_serve_print_steps : replay_serve_print_totals)(s, &table);
    return spot_tool_table_write(&o.common, &table, 0, err);
}

static int replay_serve(struct spot_err *err)
{
    struct replay_serve s = { 0 };
    int rc;

    if (replay_lists("serve", o.policy))
        return 0;
    if (!o.job || !o.trace || !o.load)
        return spot_err_set(err, SPOT_EUSAGE, "--job, --trace and --load are needed");
    if (o.plot && spot_plot_check(o.plot, err))
        return -1;
    rc = read_all(&s, err) || play_all(&s, err) ? -1 : 0;
    if (!rc && o.plot)
        rc = replay_serve_draw(&s, o.plot, err);
    if (!rc && !spot_plot_takes_stdout(o.plot, o.common.output))
        rc = print(&s, err);
    for (size_t k = 0; k < s.n_played; k++)
        spot_serve_result_release(&s.played[k].result);
    spot_serve_moves_release(&s.moves);
    if (o.layout)
        spot_layout_release(&s.layout);
    free(s.play.event);
    spot_trace_release(&s.trace);
    spot_load_release(&s.load);
    spot_job_doc_release(&s.job);
    return rc;
}

const struct spot_cli replay_serve_command = {
    .name = "spot-replay serve",
    .brief = "simulate a load on a trace, under policies of serving",
    .need = (const struct spot_opt_need[]){ { "layout", "link-rate" },
                                            { "link-rate", "layout" },
                                            { "cache-tokens", "!arrivals-only" },
                                            { NULL, NULL } },
    .reads = (const char *const[]){ "job", "trace", "load", "layout", NULL },
    .writes = (const char *const[]){ "output", "plot", NULL },
    .choice = (const struct spot_opt_choice[]){ { "format", "csv|tsv|jsonl|table|md" },
                                                { "batching", "pools|bursts|shared|passes" },
                                                { NULL, NULL } },
    .synopsis = "--job job.json --trace trace.csv --load load.csv [options]",
    .summary = "Simulate a load of requests on the instances of a trace, under each policy.",
    .examples =
        "  spot-replay serve --job examples/serve/gpt-20b.json --trace t.csv --load l.csv\n",
    .option =
        (const struct spot_opt[]){
            { SPOT_OPT_GROUP, .help = "input" },
            SPOT_ROW_JOB(&o.job),
            SPOT_ROW_TRACE(&o.trace),
            SPOT_ROW_LOAD(&o.load),
            SPOT_FLAG("arrivals-only", &o.arrivals_only,
                      "every request has the lengths of the job's profile"),
            { SPOT_OPT_GROUP, .help = "policies" },
            SPOT_ROW_POLICIES(&o.policy),
            SPOT_REAL("rate", &o.rate_per_s, "r",
                      "required rate, requests/s (default: measured over 5 minutes)", 1e-9, 1e9),
            SPOT_ROW_SWITCH(&o.switch_s),
            SPOT_TEXT("layout", &o.layout, "file",
                      "spot.layout/1: the time of its bytes over --link-rate instead"),
            SPOT_SIZE("link-rate", &o.link_byte_per_s, "size",
                      "measured bytes per second of an instance's link, each way", 1, 1e15),
            SPOT_SECS("load-time", &o.load_s, "time",
                      "time to load weights from storage (default: 25s)", 0, 1e6),
            SPOT_ROW_GRACE(&o.grace_s),
            SPOT_U64("capacity", &o.capacity, "n",
                     "rerouting: choose the grid for n instances (default: the first count)", 1,
                     SPOT_GRID_MAX),
            SPOT_ROW_BOOT(&o.boot_s),
            SPOT_TEXT("batching", &o.batching, "how",
                      "pools (default), bursts, shared: one queue, or passes as our server"),
            SPOT_U64("pool", &o.pool, "n",
                     "with pools, bursts: requests at a replica (default: twice the batch)", 1,
                     1 << 20),
            SPOT_ROW_CACHE(&o.cache),
            SPOT_ROW_SLO(&o.slo),
            SPOT_SECS("merge", &o.merge_s, "time",
                      "a gain and a loss within this are one change (default: no)", 0, 1e6),
            { SPOT_OPT_GROUP, .help = "output" },
            SPOT_FLAG("until-end", &o.until_end,
                      "latencies only of requests answered by the end of the trace"),
            SPOT_ROW_TICKS(&o.steps),
            SPOT_SECS("interval", &o.interval_s, "time",
                      "interval of --steps and --plot (default: 60s)", 1, 1e6),
            SPOT_ROW_PLOT(&o.plot),
            SPOT_TOOL_OPTIONS_AS(&o.common, "csv, tsv, jsonl, table or md"),
            { SPOT_OPT_END },
        },
    .common = &o.common,
    .run_alone = replay_serve,
};
