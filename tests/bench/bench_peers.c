/* SPDX-License-Identifier: MIT */
/* bench_peers - training under other systems' rules, with constants of theirs changed, or with the
 * victims of each loss drawn instead of expected.
 *
 * usage: bench_peers [JOB TRACE [POLICY,.. [WHAT...]]]    default: the demonstration's, all
 * policies bench_peers constants [model=MODEL]              name, value, unit of each constant
 *   model=published (or generous, as-measured)   other systems' costs
 *   rules=parcae       a change in an unfinished migration, the first interval and ties as in
 *                      Parcae's released code (carry: as ours)
 *   runs=N             draw who is lost, N times: mean, its 95 % interval, 1st, 50th and 99th
 * percentile NAME=VALUE         a constant of another system: 60, or .5x of what it is Prints
 * policy,samples,ideal_share, or policy,runs,mean,ci95,p01,p50,p99,ideal_share. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../peer_constant.h"
#include "common/num.h"
#include "common/xalloc.h"
#include "peers/registry.h"
#include "peers/train_peers.h"
#include "trace/trace.h"

struct bench {
    struct spot_job_doc job;
    struct spot_throughput throughput;
    struct spot_cost_table table;
    struct spot_trace trace;
    struct spot_peer_prices peers;
    struct spot_sim_train sim;
    struct spot_sim_row *row;
    int *available;
    bool is_parcae;
    long runs; /* 0: expected */
};

static void die(const struct spot_err *err)
{
    fprintf(stderr, "bench_peers: %s\n", err->msg);
    exit(2);
}

/* model=.. comes first, whatever the order: constants change it. */
static void take_model(struct bench *b, char **what)
{
    enum spot_peer_model model = SPOT_PEER_PUBLISHED;
    struct spot_err err;

    for (; *what; what++)
        if (!strncmp(*what, "model=", 6) && spot_peer_model_parse(*what + 6, &model, &err))
            die(&err);
    b->peers = *spot_peer_prices_of(model);
}

static void take(struct bench *b, char **what)
{
    struct spot_err err;

    for (; *what; what++)
        if (!strncmp(*what, "rules=", 6))
            b->is_parcae = !strcmp(*what + 6, "parcae");
        else if (!strncmp(*what, "runs=", 5))
            b->runs = strtol(*what + 5, NULL, 10);
        else if (strncmp(*what, "model=", 6) != 0 && peer_constant_set(&b->peers, *what)) {
            spot_err_set(&err, SPOT_EUSAGE, "'%s' is no NAME=VALUE of a constant, or out of range",
                         *what);
            die(&err);
        }
}

static int list_constants(const struct bench *b)
{
    char value[SPOT_NUM_TEXT];

    for (const struct peer_constant *c = peer_constants; c->name; c++)
        printf("%-20s %s %s\n", c->name, spot_num_format(peer_constant_value(c, &b->peers), value),
               c->unit);
    return 0;
}

static void load_trace(struct bench *b, const char *path)
{
    struct spot_trace *const trace = &b->trace;
    const double interval_s = b->job.cost.interval_s;
    struct spot_err err;
    int32_t *one;
    size_t n;

    if (spot_trace_load_path(trace, path, &err))
        die(&err);
    n = spot_trace_grid_n(trace->start_s, trace->end_s, interval_s);
    b->available = spot_xcalloc(n, sizeof(*b->available));
    b->row = spot_xcalloc(n, sizeof(*b->row));
    one = spot_xcalloc(n, sizeof(*one));
    for (size_t k = 0; k < trace->n_series; k++) {
        spot_trace_resample(&trace->series[k], trace->start_s, interval_s, n, one);
        for (size_t i = 0; i < n; i++)
            b->available[i] += one[i];
    }
    b->sim.n_interval = n;
    free(one);
}

static void prepare(struct bench *b)
{
    struct spot_err err;
    int seen = 0, *grid, n = 0;

    for (size_t i = 0; i < b->sim.n_interval; i++)
        seen = b->available[i] > seen ? b->available[i] : seen;
    if (spot_throughput_init(&b->throughput, &b->job, spot_sim_cap(&b->job, seen),
                             SPOT_THROUGHPUT_BOTH, &err))
        die(&err);
    grid = spot_xcalloc((size_t)b->throughput.n_grid, sizeof(*grid));
    for (int i = 0; i < b->throughput.n_grid; i++)
        if (b->throughput.samples_per_s[b->throughput.grid_order[i]] > 0)
            grid[n++] = b->throughput.grid_order[i];
    spot_cost_table_init_window(&b->table, &b->job, &b->throughput, 0, b->throughput.n_max,
                                b->throughput.n_max, grid, n);
    free(grid);
    b->table.carries_rest = !b->is_parcae;
    b->table.is_released = b->is_parcae;
    b->sim = (struct spot_sim_train){ .job = &b->job,
                                      .throughput = &b->throughput,
                                      .table = &b->table,
                                      .n_interval = b->sim.n_interval,
                                      .available = b->available,
                                      .trace = &b->trace,
                                      .interval_s = b->job.cost.interval_s,
                                      .look_ahead = (int)b->job.cost.look_ahead,
                                      .notice_loss_s = 120,
                                      .peers = &b->peers,
                                      .is_sampled = b->runs > 0,
                                      .seed = 1 };
}

/* Samples, or -1 if it cannot be played. */
static double play(struct bench *b, const struct spot_sim_policy *policy)
{
    struct spot_sim_total total;
    struct spot_err err;

    if (spot_sim_train_run(&b->sim, policy, b->row, &err)) {
        fprintf(stderr, "bench_peers: left out: %s\n", err.msg);
        return -1;
    }
    spot_sim_total(b->row, b->sim.n_interval, &total);
    return total.samples;
}

static void draw(struct bench *b, const struct spot_sim_policy *policy, double ideal)
{
    double *x = spot_xcalloc((size_t)b->runs, sizeof(*x)), mean = 0, square = 0;
    const double n = (double)b->runs;

    for (long k = 0; k < b->runs; k++) {
        b->sim.seed = (uint64_t)k + 1;
        x[k] = play(b, policy);
        mean += x[k] / n;
    }
    for (long k = 0; k < b->runs; k++)
        square += (x[k] - mean) * (x[k] - mean);
    qsort(x, (size_t)b->runs, sizeof(*x), spot_num_compare);
    printf("%s,%ld,%.9g,%.4g,%.9g,%.9g,%.9g,%.9g\n", policy->name, b->runs, mean,
           n > 1 ? 1.96 * sqrt(square / (n - 1) / n) : 0, x[(size_t)(0.01 * n)],
           x[(size_t)(0.5 * n)], x[(size_t)(0.99 * n)], mean / ideal);
    free(x);
}

static void play_one(struct bench *b, const struct spot_sim_policy *p, double ideal)
{
    const double samples = play(b, p);

    if (samples >= 0 && b->runs)
        draw(b, p, ideal);
    else if (samples >= 0)
        printf("%s,%.9g,%.9g\n", p->name, samples, samples / ideal);
}

static void play_all(struct bench *b, const char *policies)
{
    const struct spot_sim_policy *p;
    struct spot_err err;
    const double ideal = play(b, spot_registry_find("train", "ideal", &err));
    char *list = spot_xstrdup(policies), *rest = list, *name;

    puts(b->runs ? "policy,runs,mean,ci95,p01,p50,p99,ideal_share" : "policy,samples,ideal_share");
    for (size_t i = 0; !strcmp(policies, "all") && (p = spot_registry_at("train", i)); i++)
        if (!p->is_on_demand)
            play_one(b, p, ideal);
    while (strcmp(policies, "all") != 0 && (name = strtok_r(rest, ",", &rest))) {
        if (!(p = spot_registry_find("train", name, &err)))
            die(&err);
        play_one(b, p, ideal);
    }
    free(list);
}

int main(int argc, char **argv)
{
    static char *none[] = { NULL };
    const bool is_list = argc > 1 && !strcmp(argv[1], "constants");
    char **const what = is_list ? argv + 2 : argc > 4 ? argv + 4 : none;
    static struct bench b;
    struct spot_err err;

    take_model(&b, what);
    take(&b, what);
    if (is_list)
        return list_constants(&b);
    if (spot_job_doc_load(&b.job, argc > 2 ? argv[1] : "examples/jobs/demo.json", &err))
        die(&err);
    load_trace(&b, argc > 2 ? argv[2] : "examples/traces/demo.csv");
    prepare(&b);
    play_all(&b, argc > 3 ? argv[3] : "all");
    spot_cost_table_release(&b.table);
    spot_throughput_release(&b.throughput);
    spot_trace_release(&b.trace);
    spot_job_doc_release(&b.job);
    free(b.available);
    free(b.row);
    return 0;
}
