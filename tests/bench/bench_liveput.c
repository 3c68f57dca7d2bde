/* SPDX-License-Identifier: MIT */
/* bench_liveput - seconds of CPU of the planner's parts, per shipped job: the cost table of every
 * change of up to 6 victims among up to 32 instances, one decision of the published optimiser, one
 * decision and one solve of the stochastic program. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "peers/parcae.h"
#include "plan/liveput_dp.h"

static double cpu_s(void)
{
    return (double)clock() / CLOCKS_PER_SEC;
}

static void bench(const char *name)
{
    enum { ROUNDS = 20, LOOK_AHEAD = 12 };
    struct spot_err err = { 0 };
    struct spot_job_doc job;
    struct spot_throughput throughput;
    struct spot_cost_table table;
    struct spot_liveput_dp dp;
    struct spot_count_chain chain;
    const int none[LOOK_AHEAD] = { 0 }, one[LOOK_AHEAD] = { 1 }, change = -1;
    double t[5];
    size_t n_row = 0;
    char path[64];
    int d, p, n_sweep;

    snprintf(path, sizeof(path), "examples/jobs/%s.json", name);
    if (spot_job_doc_load(&job, path, &err) ||
        spot_throughput_init(&throughput, &job, 32, SPOT_THROUGHPUT_TABLE, &err)) {
        fprintf(stderr, "%s\n", err.msg);
        return;
    }
    t[0] = cpu_s();
    spot_cost_table_init(&table, &job, &throughput);
    for (int n = 1; n <= 32; n++)
        for (int from = 0; from < table.n_grid; from++)
            for (int v = 0; table.d[from] * table.p[from] <= n && v <= 6 && v <= n; v++, n_row++)
                spot_cost_row(&table, n, from, v);
    t[1] = cpu_s();
    spot_throughput_best(&throughput, 28, &d, &p);
    for (int i = 0; i < ROUNDS; i++)
        spot_parcae_choose(&table, &(struct spot_cost_state){ 28, spot_cost_grid(&table, d, p), 0 },
                           none, one, LOOK_AHEAD, 60, NULL);
    t[2] = cpu_s();
    spot_count_chain_init(&chain, 32);
    spot_liveput_dp_init(&dp, &table, 60, true);
    n_sweep = spot_liveput_dp_solve(&dp, &chain, 100);
    t[3] = cpu_s();
    for (int i = 0; i < ROUNDS; i++)
        spot_liveput_dp_after(&dp, &(struct spot_liveput_view){
                                       .n = 28,
                                       .from = spot_cost_grid(&table, d, p),
                                       .n_known = 1,
                                       .change = &change,
                                   });
    t[4] = cpu_s();
    printf("%-10s %6zu rows of %3d grids %7.3f s   parcae %7.3f ms   solve %7.3f s (%d sweeps)   "
           "decide %7.4f ms\n",
           name, n_row, table.n_grid, t[1] - t[0], (t[2] - t[1]) / ROUNDS * 1e3, t[3] - t[2],
           n_sweep, (t[4] - t[3]) / ROUNDS * 1e3);
    spot_liveput_dp_release(&dp);
    spot_cost_table_release(&table);
    spot_throughput_release(&throughput);
    spot_job_doc_release(&job);
}

int main(void)
{
    static const char *const name[] = { "gpt-1.5b", "gpt-6.7b", "bert", "resnet152", "vgg19" };

    for (size_t i = 0; i < sizeof(name) / sizeof(*name); i++)
        bench(name[i]);
    return 0;
}
