/* SPDX-License-Identifier: MIT */
/* Goal: the search by bounds finds the maximum over all targets, to the bit. Oracle: the program
 * that tries all of them in every sweep, which is in use where a migration may outlast its
 * interval. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan/train/liveput_inner.h"
#include "suite.h"

static const char *const shipped[] = { "gpt-1.5b", "gpt-6.7b", "bert", "resnet152", "vgg19" };

/* Values after so many sweeps under a chain of large and small changes, both ways. */
static void compare(struct spot_cost_table *t, const struct spot_count_chain *chain, int sweeps)
{
    const double interval_s = 3600; /* nothing outlasts it: neither has nodes */
    struct spot_liveput_dp search, all;
    size_t n;

    spot_liveput_dp_init(&search, t, interval_s, true);
    spot_liveput_dp_init(&all, t, interval_s, true);
    search.node_per_span = 0;
    ck_assert(spot_liveput_searches(&search) && !spot_liveput_searches(&all));
    spot_liveput_dp_finish(&search, chain, 3);
    spot_liveput_dp_finish(&all, chain, 3);
    spot_liveput_dp_solve(&search, chain, sweeps);
    while (sweeps--) /* each forgets what it found */
        spot_liveput_dp_solve(&all, chain, 1);
    ck_assert_int_eq(all.n_node, 1);
    ck_assert(search.search && !all.search);
    n = spot_liveput_value_at(&all, all.n_context, all.n_low);
    ck_assert(!memcmp(search.value, all.value, n * sizeof(double)));
    spot_liveput_dp_release(&search);
    spot_liveput_dp_release(&all);
}

START_TEST(the_search_finds_what_trying_all_finds)
{
    enum { INSTANCES = 24, MOVES = 60 };
    struct spot_err err = { 0 };
    struct spot_job_doc job;
    struct spot_throughput throughput;
    struct spot_cost_table table;
    struct spot_count_chain chain;
    char path[64];

    snprintf(path, sizeof(path), "examples/jobs/%s.json", shipped[_i]);
    ck_assert(!spot_job_doc_load(&job, path, &err));
    for (double scale = 0.25; scale <= 16; scale *= 4) { /* cheap and costly changes */
        job.cost.rendezvous_s *= scale;
        job.cost.process_s *= scale;
        ck_assert(!spot_throughput_init(&throughput, &job, INSTANCES, SPOT_THROUGHPUT_TABLE, &err));
        spot_cost_table_init(&table, &job, &throughput);
        spot_count_chain_init(&chain, INSTANCES);
        for (int i = 0; i < MOVES; i++)
            spot_count_chain_observe(&chain, INSTANCES / 2, INSTANCES / 2 + i * 7 % 13 - 6);
        compare(&table, &chain, 12);
        spot_cost_table_release(&table);
        spot_throughput_release(&throughput);
    }
    spot_job_doc_release(&job);
}
END_TEST

START_TEST(a_single_price_is_that_of_the_row)
{
    struct spot_err err = { 0 };
    struct spot_job_doc job;
    struct spot_throughput throughput;
    struct spot_cost_table one, rows;
    int n_checked = 0;

    ck_assert(!spot_job_doc_load(&job, "examples/jobs/bert.json", &err));
    ck_assert(!spot_throughput_init(&throughput, &job, 12, SPOT_THROUGHPUT_TABLE, &err));
    spot_cost_table_init(&one, &job, &throughput);
    spot_cost_table_init(&rows, &job, &throughput);
    for (int n = 2; n <= 12; n++)
        for (int from = 0; from < one.n_grid; from++)
            for (int lost = 0; one.d[from] * one.p[from] <= n && lost <= n; lost += 3) {
                const double *row = spot_cost_row(&rows, n, from, lost);
                struct spot_cost_changes *changes = spot_cost_changes(&one, n, from, lost);

                for (int to = one.n_grid - 1; to >= 0; to--, n_checked++) {
                    const bool is_kept = one.p[to] == one.p[from] && one.d[to] <= one.d[from];

                    ck_assert(spot_cost_of(&one, changes, to) == row[to]);
                    if (lost || to != from)
                        ck_assert_double_ge(row[to] * (1 + 1e-9),
                                            spot_cost_least_s(&one, to, is_kept));
                }
            }
    ck_assert_int_gt(n_checked, 1000);
    spot_cost_table_release(&one);
    spot_cost_table_release(&rows);
    spot_throughput_release(&throughput);
    spot_job_doc_release(&job);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    tcase_set_timeout(tc, 300);
    tcase_add_loop_test(tc, the_search_finds_what_trying_all_finds, 0,
                        sizeof(shipped) / sizeof(*shipped));
    tcase_add_test(tc, a_single_price_is_that_of_the_row);
    return run_case("liveput_search", tc);
}
