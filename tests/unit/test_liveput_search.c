/* SPDX-License-Identifier: MIT */
/* Goal: bounds, what is remembered and extrapolation find the maximum over all targets. Oracle: the
 * program that tries all of them in every sweep. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan/train/horizon.h"
#include "plan/train/liveput_inner.h"
#include "suite.h"

static const char *const shipped[] = { "gpt-1.5b", "gpt-6.7b", "bert", "resnet152", "vgg19" };

enum told { VICTIMS, ALL, LOSSES, NOTHING };

static void make(struct spot_liveput_dp *dp, struct spot_cost_table *t, double interval_s,
                 enum told told, bool tries_all)
{
    spot_liveput_dp_init(dp, t, interval_s, told <= ALL);
    dp->sees_victims = told == VICTIMS;
    dp->sees_losses = told == LOSSES;
    dp->tries_all = tries_all;
}

/* Steps of a forecast that leads anywhere: all grids of a count at once, and what is remembered
 * from step to step, give the bits of one by one. */
static void compare_ahead(struct spot_liveput_dp *dp, const struct spot_count_chain *chain)
{
    enum { STEPS = 6 };
    const int counts = dp->n_max + 1;
    const size_t n = (size_t)counts * (size_t)dp->n_node * ((size_t)dp->n_grid + 1);
    double *pmf = calloc((size_t)(STEPS * counts), sizeof(*pmf));
    double *value = calloc(n, sizeof(*value));
    struct spot_horizon h;

    for (int i = 0; i < STEPS * counts; i++)
        pmf[i] = (1 + i % 3) / (2. * counts);
    spot_horizon_init(&h, chain, SPOT_CHAIN_CONTEXTS, 0, dp->n_max, dp->lost_max, dp->n_max / 2, 0,
                      STEPS, &(struct spot_horizon_goal){ pmf, counts, 0 });
    spot_liveput_dp_ahead(dp, &h, 0, STEPS, false);
    memcpy(value, dp->value, n * sizeof(*value));
    spot_liveput_dp_back(dp);
    dp->tries_all = true;
    ck_assert(!spot_liveput_is_plain(dp));
    spot_liveput_dp_ahead(dp, &h, 0, STEPS, false);
    ck_assert(!memcmp(value, dp->value, n * sizeof(*value)));
    spot_liveput_dp_back(dp);
    dp->tries_all = false;
    spot_horizon_release(&h);
    free(value);
    free(pmf);
}

/* Values of so many intervals under a chain of large and small changes, both ways; and how far
 * apart those of an infinite future are, within a context and count. */
static void compare(struct spot_cost_table *t, const struct spot_count_chain *chain, int left,
                    double interval_s, enum told told)
{
    struct spot_liveput_dp search, all;
    const double small = 1e-5 * interval_s;
    double rate = 0;
    size_t n, wide;

    make(&search, t, interval_s, told, false);
    make(&all, t, interval_s, told, true);
    spot_liveput_dp_finish(&search, chain, left);
    spot_liveput_dp_finish(&all, chain, left);
    if (told == VICTIMS && interval_s > 60) /* costs of outcomes one by one, and all of them */
        ck_assert(search.asks && !all.asks);
    ck_assert_int_eq(all.n_node, search.n_node);
    n = spot_liveput_value_at(&all, all.n_context, all.n_low);
    for (size_t i = 0; i < n; i++)
        ck_assert_double_eq_tol(search.value[i], all.value[i], 1e-9 * fabs(all.value[i]) + 1e-12);
    spot_liveput_dp_solve(&search, chain, 400);
    spot_liveput_dp_solve(&all, chain, 400);
    compare_ahead(&search, chain);
    wide = (size_t)all.n_grid + 1;
    for (int g = 0; g < all.n_grid; g++)
        rate = fmax(rate, t->samples_per_s[g]);
    for (int c = 0; c < all.n_context; c++)
        for (int k = 0; k <= all.n_max; k++)
            for (size_t r = 0; r < wide; r++)
                if (spot_liveput_may_run(&all, k, (int)r))
                    ck_assert_double_eq_tol(spot_liveput_dp_value(&search, c, k)[r],
                                            spot_liveput_dp_value(&all, c, k)[r], small * rate);
    spot_liveput_dp_release(&search);
    spot_liveput_dp_release(&all);
}

START_TEST(the_search_finds_what_trying_all_finds)
{
    enum { INSTANCES = 12, MOVES = 60 };
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
        for (int told = VICTIMS; told <= NOTHING;
             told++) /* what outlasts an interval of a minute */
            compare(&table, &chain, 12, scale < 2 ? 3600 : 60, (enum told)told);
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
