/* SPDX-License-Identifier: MIT */
/* Goal: the chain through a forecast's steps has its distributions and is the nearest to the chain
 * that was learned, shown over all paths; the program over these steps is the recursion over all
 * events and grids. */
#include "plan/train/horizon.h"

#include <math.h>
#include <stdlib.h>

#include "common/rng.h"
#include "common/xalloc.h"
#include "plan/liveput_dp.h"
#include "plan/train/liveput_inner.h"
#include "suite.h"

enum { MOST = 4, COUNTS = MOST + 1, STEPS = 3, PATHS = COUNTS * COUNTS * COUNTS };

/* A chain that has seen some changes. */
static void learn(struct spot_count_chain *chain, struct spot_count_law *law, struct spot_rng *rng)
{
    struct spot_count_chain seen;
    int n = 2;

    spot_count_chain_init(&seen, MOST);
    for (int i = 0; i < 200; i++) {
        const int before = n;

        if (spot_rng_unit(rng) < 0.3)
            n = (int)spot_rng_below(rng, COUNTS);
        spot_count_chain_observe(&seen, before, n);
    }
    spot_count_chain_law(&seen, law);
    spot_count_chain_follow(chain, law, MOST);
}

static void draw(struct spot_rng *rng, double *pmf)
{
    double sum = 0;

    for (int k = 0; k < COUNTS; k++)
        sum += pmf[k] = 0.02 + spot_rng_unit(rng);
    for (int k = 0; k < COUNTS; k++)
        pmf[k] /= sum;
}

/* The chance of a path. */
static double path(const struct spot_horizon *h, const int *n)
{
    double prob = 1;

    for (int s = 1; s <= STEPS; s++)
        prob *= spot_horizon_next(h, s, s > 1 ? n[s - 2] : h->start)[n[s - 1]];
    return prob;
}

static double log_ratio(const struct spot_horizon *fit, const struct spot_horizon *free_,
                        const int *n)
{
    return log(path(fit, n)) - log(path(free_, n));
}

/* Of the distributions on paths with given ones at every step the nearest is the one whose ratio to
 * the reference is a product of factors of the steps: exchanging what happens at one step changes
 * it by the same, whatever happens at another. */
START_TEST(the_nearest_chain_has_the_distributions_and_only_factors_of_steps)
{
    double pmf[STEPS * COUNTS], own[STEPS * COUNTS];
    struct spot_horizon fit, plain;
    struct spot_count_chain chain;
    struct spot_count_law law;
    struct spot_rng rng;

    spot_rng_init(&rng, 7, (uint64_t)_i);
    learn(&chain, &law, &rng);
    for (int s = 0; s < STEPS; s++)
        draw(&rng, pmf + s * COUNTS);
    spot_horizon_init(&fit, &chain, SPOT_CHAIN_CONTEXTS, 0, MOST, MOST, 2, law.context, STEPS,
                      &(struct spot_horizon_goal){ pmf, COUNTS, 0 });
    ck_assert_double_lt(fit.missed, 1e-6);
    for (int s = 1; s <= STEPS; s++)
        for (int k = 0; k < COUNTS; k++)
            ck_assert_double_eq_tol(spot_horizon_mass(&fit, s, k), pmf[(s - 1) * COUNTS + k], 1e-5);
    /* another fit of the same reference: both have factors of steps alone, or neither */
    for (int s = 0; s < STEPS; s++)
        for (int k = 0; k < COUNTS; k++)
            own[s * COUNTS + k] = 1. / COUNTS;
    spot_horizon_init(&plain, &chain, SPOT_CHAIN_CONTEXTS, 0, MOST, MOST, 2, law.context, STEPS,
                      &(struct spot_horizon_goal){ own, COUNTS, 0 });
    for (int p = 0; p < PATHS; p++) {
        const int n[] = { p % COUNTS, p / COUNTS % COUNTS, p / COUNTS / COUNTS };

        for (int s = 0; s < STEPS; s++) {
            const int t = (s + 1) % STEPS;
            int b[] = { n[0], n[1], n[2] }, c[] = { n[0], n[1], n[2] }, d[] = { n[0], n[1], n[2] };

            b[s] = d[s] = (n[s] + 1) % COUNTS;
            c[t] = d[t] = (n[t] + 2) % COUNTS;
            ck_assert_double_eq_tol(log_ratio(&fit, &plain, n) + log_ratio(&fit, &plain, d),
                                    log_ratio(&fit, &plain, b) + log_ratio(&fit, &plain, c), 1e-6);
        }
    }
    spot_horizon_release(&fit);
    spot_horizon_release(&plain);
}
END_TEST

struct rig {
    struct spot_job_doc job;
    struct spot_throughput throughput;
    struct spot_cost_table table;
    struct spot_liveput_dp dp;
    struct spot_horizon h;
};

/* What is had of steps step + 1 .. STEPS from grid g on n instances. */
static double recurse(struct rig *r, int step, int n, int g)
{
    double sum = 0;

    if (step == STEPS)
        return 0;
    for (int to = 0; to <= MOST; to++) {
        const double prob = spot_horizon_next(&r->h, step + 1, n)[to];
        double best = recurse(r, step + 1, to, SPOT_GRID_NONE);

        for (int k = 0; k < r->table.n_grid; k++) {
            double cost;

            if (r->table.d[k] * r->table.p[k] > to)
                continue;
            cost = spot_cost_row(&r->table, n, g, to < n ? n - to : 0)[k];
            best =
                fmax(best, r->table.samples_per_s[k] * (60 - cost) + recurse(r, step + 1, to, k));
        }
        sum += prob * best;
    }
    return sum;
}

START_TEST(the_program_over_the_steps_is_the_recursion)
{
    struct rig *r = spot_xcalloc(1, sizeof(*r));
    double pmf[STEPS * COUNTS];
    struct spot_count_chain chain;
    struct spot_count_law law;
    struct spot_err err = { 0 };
    struct spot_rng rng;

    spot_rng_init(&rng, 11, (uint64_t)_i);
    ck_assert(!spot_job_doc_load(&r->job, "examples/jobs/demo.json", &err));
    ck_assert(!spot_throughput_init(&r->throughput, &r->job, MOST, SPOT_THROUGHPUT_TABLE, &err));
    spot_cost_table_init(&r->table, &r->job, &r->throughput);
    learn(&chain, &law, &rng);
    for (int s = 0; s < STEPS; s++)
        draw(&rng, pmf + s * COUNTS);
    spot_liveput_dp_init(&r->dp, &r->table, 60, true);
    r->dp.node_per_span = 0;
    spot_liveput_dp_solve(&r->dp, &chain, 5);
    spot_horizon_init(&r->h, &chain, SPOT_CHAIN_CONTEXTS, 0, MOST, MOST, 2, law.context, STEPS,
                      &(struct spot_horizon_goal){ pmf, COUNTS, 0 });
    spot_liveput_dp_ahead(&r->dp, &r->h, 0, STEPS, true);
    for (int k = 0; k < r->table.n_grid; k++)
        if (r->table.d[k] * r->table.p[k] <= 2) {
            const double want = recurse(r, 0, 2, k);

            ck_assert_double_gt(want, 0);
            ck_assert_double_eq_tol(spot_liveput_dp_value(&r->dp, 0, 2)[r->dp.rank[k]], want,
                                    1e-4 * want);
        }
    spot_liveput_dp_back(&r->dp);
    spot_horizon_release(&r->h);
    spot_liveput_dp_release(&r->dp);
    spot_cost_table_release(&r->table);
    spot_throughput_release(&r->throughput);
    spot_job_doc_release(&r->job);
    free(r);
}
END_TEST

/* What was never seen can be told by a forecast. */
START_TEST(a_certain_collapse_is_believed)
{
    double pmf[STEPS * COUNTS] = { 0 };
    struct spot_count_chain chain;
    struct spot_count_law law;
    struct spot_horizon h;
    struct spot_count_chain seen;

    spot_count_chain_init(&seen, MOST);
    for (int i = 0; i < 1000; i++)
        spot_count_chain_observe(&seen, MOST, MOST);
    spot_count_chain_law(&seen, &law);
    spot_count_chain_follow(&chain, &law, MOST);
    pmf[MOST] = pmf[COUNTS] = pmf[2 * COUNTS + MOST] = 1; /* none in step 2, all in step 3 */
    spot_horizon_init(&h, &chain, SPOT_CHAIN_CONTEXTS, 0, MOST, MOST, MOST, law.context, STEPS,
                      &(struct spot_horizon_goal){ pmf, COUNTS, 0 });
    ck_assert_double_gt(spot_horizon_next(&h, 2, MOST)[0], 1 - 1e-9);
    ck_assert_double_gt(spot_horizon_next(&h, 3, 0)[MOST], 1 - 1e-9);
    spot_horizon_release(&h);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    tcase_add_loop_test(tc, the_nearest_chain_has_the_distributions_and_only_factors_of_steps, 0,
                        20);
    tcase_add_loop_test(tc, the_program_over_the_steps_is_the_recursion, 0, 10);
    tcase_add_test(tc, a_certain_collapse_is_believed);
    return run_case("horizon", tc);
}
