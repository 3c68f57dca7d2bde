/* SPDX-License-Identifier: MIT */
/* Goal: shares are the optima of their policies. Oracles: objectives of the authors' policies
 * (shared reference data where it is there), prices that prove a bound in our own arithmetic,
 * orders of jobs, a grid of all shares of two jobs. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/csv_reader.h"
#include "common/rng.h"
#include "peers/gavel.h"
#include "plan/share.h"
#include "plan/share_round.h"
#include "suite.h"

#define GOLDEN "../shared/data/golden/gavel/"

enum { JOBS = 15, TYPES = 3 };

struct golden {
    struct spot_share_want want[JOBS];
    double rate[JOBS * TYPES];
    size_t n;
};

static const struct spot_share_machines machines[TYPES] = { { 2, 2.5, 0 },
                                                            { 2, 1.5, 0 },
                                                            { 4, 0.5, 0 } };

static int on_job(const struct spot_csv_row *row, void *user, struct spot_err *err)
{
    struct golden *g = user;
    struct spot_share_want *want = &g->want[g->n];

    *want = (struct spot_share_want){ .weight = 1, .slo_left_s = INFINITY, .on = -1 };
    ck_assert(!spot_csv_int(row, 0, 1, 16, &want->scale, err) &&
              !spot_csv_real(row, 1, 1, 1e9, &want->left, err));
    for (size_t j = 0; j < TYPES; j++)
        ck_assert(!spot_csv_real(row, 2 + j, 0, 1e9, &g->rate[g->n * TYPES + j], err));
    g->n++;
    return 0;
}

/* The largest violation of x >= 0, of jobs' time and of types' workers. */
static double violation(const struct spot_share_problem *p, const double *x)
{
    double worst = 0;

    for (size_t i = 0; i < p->n_job; i++) {
        double sum = 0;

        for (size_t j = 0; j < p->n_type; j++) {
            worst = fmax(worst, -x[i * p->n_type + j]);
            sum += x[i * p->n_type + j];
        }
        worst = fmax(worst, sum - 1);
    }
    for (size_t j = 0; j < p->n_type; j++) {
        double sum = 0;

        for (size_t i = 0; i < p->n_job; i++)
            sum += x[i * p->n_type + j] * (double)p->want[i].scale;
        worst = fmax(worst, (sum - (double)p->type[j].count) / fmax(1, (double)p->type[j].count));
    }
    return worst;
}

static bool read_golden(struct golden *g)
{
    static const char *const want[] = { "scale_factor", "steps", "tput_v100", "tput_p100",
                                        "tput_k80" };
    struct spot_err err;
    FILE *in = fopen(GOLDEN "lp_input.csv", "r");

    *g = (struct golden){ 0 };
    if (!in)
        return false;
    ck_assert_msg(!spot_csv_read(in, "lp_input.csv", want, 5, on_job, g, NULL, &err), "%s",
                  err.msg);
    fclose(in);
    ck_assert_uint_eq(g->n, JOBS);
    return true;
}

static struct spot_share_problem problem_of(const struct golden *g)
{
    return (struct spot_share_problem){ g->n, TYPES, g->want, g->rate, machines };
}

struct objectives {
    const struct golden *g;
    size_t n;
};

static enum spot_gavel_policy policy_named(const char *name)
{
    static const struct {
        const char *name;
        enum spot_gavel_policy policy;
    } ours[] = { { "max_min_fairness_perf", SPOT_GAVEL_MAX_MIN_PERF },
                 { "max_sum_throughput_perf", SPOT_GAVEL_SUM_THROUGHPUT },
                 { "min_total_duration_perf", SPOT_GAVEL_MAKESPAN },
                 { "finish_time_fairness_perf", SPOT_GAVEL_FTF },
                 { "isolated", SPOT_GAVEL_ISOLATED } };

    for (size_t i = 0; i < sizeof(ours) / sizeof(*ours); i++)
        if (!strcmp(name, ours[i].name))
            return ours[i].policy;
    ck_abort_msg("no policy %s", name);
}

static int on_objective(const struct spot_csv_row *row, void *user, struct spot_err *err)
{
    struct objectives *o = user;
    const struct spot_share_problem p = problem_of(o->g);
    enum spot_gavel_policy policy;
    struct spot_share_answer a;
    double theirs;

    if (!strcmp(row->field[0], "max_min_fairness")) /* without speeds: left out (gavel.h) */
        return 0;
    policy = policy_named(row->field[0]);
    ck_assert(!spot_csv_real(row, 1, 0, 1e9, &theirs, err));
    ck_assert_msg(!spot_gavel_allocate(&p, policy, &a, err), "%s", err->msg);
    ck_assert_double_le(violation(&p, a.x), 1e-7);
    if (policy == SPOT_GAVEL_MAKESPAN) {
        ck_assert_double_le(a.objective, theirs * (1 + 1e-9));
        ck_assert_double_ge(a.objective, theirs / 1.05);
    } else if (policy ==
               SPOT_GAVEL_FTF) { /* theirs stops 4e-6 above the least, which bound proves */
        ck_assert_double_le(a.objective, theirs + 2e-6);
        ck_assert_double_ge(a.objective, theirs - 4e-6);
    } else {
        ck_assert_msg(fabs(a.objective - theirs) <= 2e-6, "%s: %.9g, not %.9g", row->field[0],
                      a.objective, theirs);
    }
    if (!isnan(a.bound))
        ck_assert_double_le(fabs(a.bound - a.objective), 1e-6 * a.objective);
    spot_share_answer_release(&a);
    o->n++;
    return 0;
}

START_TEST(objectives_are_those_of_the_authors)
{
    static const char *const want[] = { "policy", "objective" };
    struct golden g;
    struct objectives o = { &g, 0 };
    struct spot_err err;
    FILE *in;

    if (!read_golden(&g))
        return;
    in = fopen(GOLDEN "lp_objective.csv", "r");
    ck_assert_msg(!spot_csv_read(in, "lp_objective.csv", want, 2, on_objective, &o, NULL, &err),
                  "%s", err.msg);
    fclose(in);
    ck_assert_uint_eq(o.n, 10);
}
END_TEST

/* Jobs of a few kinds, so that some are alike. */
static void draw(struct golden *g, size_t n, uint64_t seed)
{
    struct spot_rng rng;

    spot_rng_init(&rng, seed, 3);
    *g = (struct golden){ .n = n };
    for (size_t i = 0; i < n; i++) {
        const uint64_t kind = spot_rng_below(&rng, 4);

        g->want[i] = (struct spot_share_want){ .weight = 1 + (double)(kind == 3),
                                               .left = 100 + (double)spot_rng_below(&rng, 5) * 50,
                                               .slo_left_s = INFINITY,
                                               .scale = 1 + (int64_t)(kind % 2),
                                               .on = (int)spot_rng_below(&rng, 4) - 1 };
        for (size_t j = 0; j < TYPES; j++)
            g->rate[i * TYPES + j] =
                kind == 2 && j == 1 ? 0 : 1 + (double)((kind * 7 + j * 3) % 5) + (double)j;
    }
}

static void swap(struct golden *g, size_t a, size_t b)
{
    const struct spot_share_want want = g->want[a];

    g->want[a] = g->want[b];
    g->want[b] = want;
    for (size_t j = 0; j < TYPES; j++) {
        const double rate = g->rate[a * TYPES + j];

        g->rate[a * TYPES + j] = g->rate[b * TYPES + j];
        g->rate[b * TYPES + j] = rate;
    }
}

START_TEST(the_order_of_jobs_changes_nothing)
{
    for (uint64_t seed = 0; seed < 20; seed++)
        for (int policy = 0; policy < SPOT_GAVEL_POLICIES; policy++) {
            struct spot_share_answer a, b;
            struct spot_share_problem p;
            struct spot_err err;
            struct golden g;

            if (policy == SPOT_GAVEL_FIFO_PERF)
                continue;
            draw(&g, 2 + seed % 9, seed);
            p = problem_of(&g);
            ck_assert(!spot_gavel_allocate(&p, (enum spot_gavel_policy)policy, &a, &err));
            swap(&g, 0, g.n - 1);
            ck_assert(!spot_gavel_allocate(&p, (enum spot_gavel_policy)policy, &b, &err));
            for (size_t i = 0; i < g.n * TYPES; i++) {
                const size_t job = i / TYPES, was = job == 0 ? g.n - 1 : job == g.n - 1 ? 0 : job;

                ck_assert_msg(a.x[was * TYPES + i % TYPES] == b.x[i], "%s, seed %d",
                              spot_gavel_players[policy].name, (int)seed);
            }
            spot_share_answer_release(&a);
            spot_share_answer_release(&b);
        }
}
END_TEST

static double least_gain(const struct spot_share_problem *p, const double *x)
{
    double least = INFINITY, base[JOBS];

    spot_gavel_proportional_rate(p, base);
    for (size_t i = 0; i < p->n_job; i++) {
        double rate = 0;

        for (size_t j = 0; j < TYPES; j++)
            rate += p->rate[i * TYPES + j] * x[i * TYPES + j];
        least = fmin(least, rate / base[i] * (double)p->want[i].scale / p->want[i].weight);
    }
    return least;
}

START_TEST(prices_prove_the_level_and_filling_keeps_it)
{
    for (uint64_t seed = 0; seed < 40; seed++) {
        struct spot_share_answer a, b;
        struct spot_share_problem p;
        struct spot_err err;
        struct golden g;

        draw(&g, 1 + seed % JOBS, seed + 100);
        p = problem_of(&g);
        ck_assert(!spot_gavel_allocate(&p, SPOT_GAVEL_MAX_MIN_PERF, &a, &err));
        ck_assert(!spot_gavel_allocate(&p, SPOT_GAVEL_WATER_FILLING, &b, &err));
        ck_assert_double_eq_tol(a.bound, a.objective, 1e-6 * a.objective);
        ck_assert_double_eq_tol(least_gain(&p, a.x), a.objective, 1e-6 * a.objective);
        ck_assert_double_eq_tol(least_gain(&p, b.x), a.objective, 1e-6 * a.objective);
        ck_assert_double_le(violation(&p, a.x), 1e-7);
        ck_assert_double_le(violation(&p, b.x), 1e-7);
        spot_share_answer_release(&a);
        spot_share_answer_release(&b);
    }
}
END_TEST

/* Jobs of all ages, of which some run: what shares attain and what prices prove meet, and nobody is
 * later than they say. */
START_TEST(prices_prove_the_least_ratio)
{
    for (uint64_t seed = 0; seed < 120; seed++) {
        double isolated[JOBS], worst = 0;
        struct spot_share_problem p;
        struct spot_share_answer a;
        struct spot_err err;
        struct spot_rng rng;
        struct golden g;

        draw(&g, 1 + seed % JOBS, seed + 700);
        spot_rng_init(&rng, seed, 0);
        for (size_t i = 0; i < g.n; i++) {
            g.want[i].age_s = (double)spot_rng_below(&rng, 50000);
            g.want[i].isolated_s = (double)spot_rng_below(&rng, 50000);
            g.want[i].on = seed % 2 ? (int)spot_rng_below(&rng, TYPES + 1) - 1 : -1;
        }
        p = problem_of(&g);
        spot_share_isolated_rate(&p, isolated);
        ck_assert_msg(!spot_gavel_allocate(&p, SPOT_GAVEL_FTF, &a, &err), "%s", err.msg);
        for (size_t i = 0; i < g.n; i++) {
            double rate = 0;

            for (size_t j = 0; j < TYPES; j++)
                rate += g.rate[i * TYPES + j] * a.x[i * TYPES + j];
            worst = fmax(worst, (g.want[i].age_s + g.want[i].left / rate) /
                                    (g.want[i].isolated_s + g.want[i].left / isolated[i]));
        }
        ck_assert_double_le(violation(&p, a.x), 1e-7);
        ck_assert_double_eq_tol(a.objective, worst, 1e-9 * worst);
        ck_assert_double_le(a.bound, worst * (1 + 1e-9));
        ck_assert_double_ge(a.bound, worst * (1 - 1e-7));
        spot_share_answer_release(&a);
    }
}
END_TEST

/* Two jobs, two types of one worker each: all shares in steps of 1/50. */
START_TEST(no_shares_of_a_grid_are_better)
{
    enum { N = 50 };
    static const struct spot_share_machines one[2] = { { 1, 3, 0 }, { 1, 1, 0 } };
    struct spot_rng rng;

    spot_rng_init(&rng, 11, 0);
    for (int turn = 0; turn < 10; turn++) {
        struct spot_share_want want[2];
        double rate[4], best_t = INFINITY, best_sum = 0;
        const struct spot_share_problem p = { 2, 2, want, rate, one };
        struct spot_share_answer a;
        struct spot_err err;

        for (size_t i = 0; i < 4; i++)
            rate[i] = 1 + (double)spot_rng_below(&rng, 9);
        for (size_t i = 0; i < 2; i++)
            want[i] = (struct spot_share_want){ .weight = 1,
                                                .left = 10 + (double)spot_rng_below(&rng, 90),
                                                .slo_left_s = INFINITY,
                                                .scale = 1,
                                                .on = -1 };
        for (int u = 0; u <= N; u++)
            for (int v = 0; u + v <= N; v++)
                for (int s = 0; s <= N - u; s++)
                    for (int t = 0; t <= N - v && s + t <= N; t++) {
                        const double r0 = (rate[0] * u + rate[1] * v) / N,
                                     r1 = (rate[2] * s + rate[3] * t) / N;

                        best_sum = fmax(best_sum, r0 + r1);
                        if (r0 > 0 && r1 > 0)
                            best_t = fmin(best_t, fmax(want[0].left / r0, want[1].left / r1));
                    }
        ck_assert(!spot_gavel_allocate(&p, SPOT_GAVEL_MAKESPAN, &a, &err));
        ck_assert_double_le(a.objective, best_t * (1 + 1e-9));
        ck_assert_double_ge(a.objective, best_t * 0.95);
        spot_share_answer_release(&a);
        ck_assert(!spot_gavel_allocate(&p, SPOT_GAVEL_SUM_THROUGHPUT, &a, &err));
        ck_assert_double_eq_tol(a.objective, best_sum, 1e-6); /* a corner of the grid */
        spot_share_answer_release(&a);
    }
}
END_TEST

/* --- ours --- */

/* Every choice. */
static double best_choice(const struct spot_share_way *way, const double *value, size_t n_way,
                          size_t n_job, size_t job, int64_t *there)
{
    double best;

    if (job == n_job)
        return 0;
    best = best_choice(way, value, n_way, n_job, job + 1, there);
    for (size_t w = 0; w < n_way; w++) {
        if (way[w].job != job || there[way[w].type] < way[w].scale)
            continue;
        there[way[w].type] -= way[w].scale;
        best = fmax(best, value[w] + best_choice(way, value, n_way, n_job, job + 1, there));
        there[way[w].type] += way[w].scale;
    }
    return best;
}

START_TEST(small_markets_are_cleared_at_the_most_there_is)
{
    struct spot_rng rng;

    spot_rng_init(&rng, 5, 9);
    for (int turn = 0; turn < 400; turn++) {
        const size_t n_job = 1 + spot_rng_below(&rng, 5), n_type = 2;
        struct spot_share_way way[10];
        double value[10], price[2] = { 0 }, worth = 0;
        ptrdiff_t chosen[5];
        int64_t count[2], there[2];
        struct spot_share_choice choice = { .way = chosen, .value = value, .price = price };
        size_t n_way = 0;

        for (size_t j = 0; j < n_type; j++)
            there[j] = count[j] = (int64_t)spot_rng_below(&rng, 5);
        for (size_t i = 0; i < n_job; i++) {
            const int64_t scale = 1 + (int64_t)spot_rng_below(&rng, 3);

            for (size_t j = 0; j < n_type; j++) {
                way[n_way] = (struct spot_share_way){ i, j, scale, 1 };
                value[n_way++] = (double)spot_rng_below(&rng, 20);
            }
        }
        spot_share_market(way, n_way, n_job, count, n_type, &choice);
        for (size_t i = 0; i < n_job; i++)
            if (chosen[i] >= 0) {
                ck_assert_uint_eq(way[chosen[i]].job, i);
                worth += value[chosen[i]];
                there[way[chosen[i]].type] -= way[chosen[i]].scale;
            }
        ck_assert(there[0] >= 0 && there[1] >= 0);
        ck_assert_double_eq(worth, choice.worth);
        ck_assert_double_le(worth, choice.bound + 1e-9);
        memcpy(there, count, sizeof(there));
        ck_assert_double_eq(worth, best_choice(way, value, n_way, n_job, 0, there));
    }
}
END_TEST

int main(void)
{
    return run_suite("share", add_tests(tcase_create("share")));
}
