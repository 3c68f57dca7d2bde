/* SPDX-License-Identifier: MIT */
/* Goal: origins lie where they were counted to lie, and the score of a model that is certain of the
 * newest value is how far what came lies from it, added up by hand. */
#include "forecast/backtest.h"

#include <stdlib.h>

#include "common/rng.h"
#include "suite.h"

enum { N = 40, HORIZON = 3, CAP = 9, ROOM = 7 };

static int y[N];
static const struct spot_count_grid grid = {
    .start_s = 100, .interval_s = 10, .n = N, .y = y, .cap = CAP
};

/* The last origin can be 36: 40 values, three of them to come. */
static const struct range {
    double from_s;
    size_t n_wanted, n, origin[ROOM];
} ranges[] = {
    { 0, 100, 7, { 30, 31, 32, 33, 34, 35, 36 } },
    { 0, 3, 3, { 30, 33, 36 } },
    { 0, 1, 1, { 30 } },
    { 440, 100, 3, { 34, 35, 36 } }, /* (440 - 100) / 10 */
    { 441, 100, 2, { 35, 36 } },     /* not before */
    { 470, 100, 0, { 0 } },
};

START_TEST(origins_are_even_and_have_a_horizon_behind_them)
{
    const struct range *r = &ranges[_i];
    size_t origin[100];

    ck_assert_uint_eq(spot_backtest_origins(&grid, HORIZON, r->from_s, r->n_wanted, origin), r->n);
    for (size_t k = 0; k < r->n; k++)
        ck_assert_uint_eq(origin[k], r->origin[k]);
}
END_TEST

START_TEST(a_short_series_has_no_origin)
{
    struct spot_count_grid shorter = grid;
    size_t origin[100];

    shorter.n = 33;
    ck_assert_uint_eq(spot_backtest_origins(&shorter, HORIZON, 0, 100, origin), 0);
    shorter.n = 34;
    ck_assert_uint_eq(spot_backtest_origins(&shorter, HORIZON, 0, 100, origin), 1);
    shorter.n = 2;
    ck_assert_uint_eq(spot_backtest_origins(&shorter, HORIZON, 0, 100, origin), 0);
}
END_TEST

static int n_law;

static void count_law(void *user, size_t origin, int step, const double *p)
{
    ck_assert_ptr_eq(user, &n_law);
    ck_assert_int_ge(step, 1);
    ck_assert_int_le(step, HORIZON);
    ck_assert_double_eq_tol(p[y[origin]], 1, 1e-12);
    n_law++;
}

START_TEST(a_model_that_is_certain_scores_its_distance)
{
    const size_t origin[] = { 30, 33 };
    double prob[HORIZON * (CAP + 1)], seconds;
    struct spot_score step[HORIZON] = { { 0 } };
    struct spot_fc_spec spec = { .horizon = HORIZON, .day = 8640 };
    struct spot_err err = { 0 };
    const struct spot_backtest b = { .grid = &grid,
                                     .model = spot_forecaster_find("last", &spec, &err),
                                     .spec = spec,
                                     .origin = origin,
                                     .n_origin = 2,
                                     .dist = count_law,
                                     .user = &n_law };

    for (int i = 0; i < N; i++)
        y[i] = 5;
    y[31] = 7; /* from 30: 2, 0, 1 away */
    y[33] = 4; /* from 33: 1, 1, 4 away */
    y[36] = 0;
    n_law = 0;
    seconds = spot_backtest_run(&b, step, prob);
    ck_assert_double_eq_tol(step[0].crps_sum, 2 + 1, 1e-9);
    ck_assert_double_eq_tol(step[1].crps_sum, 0 + 1, 1e-9);
    ck_assert_double_eq_tol(step[2].crps_sum, 1 + 4, 1e-9);
    ck_assert_uint_eq(step[2].n, 2);
    ck_assert_double_eq_tol(prob[4], 1, 1e-12); /* the distributions of the last origin */
    ck_assert_int_eq(n_law, 2 * HORIZON);
    ck_assert(seconds >= 0);
}
END_TEST

static double *kept;
static size_t n_kept;

static void keep(void *user, size_t origin, int step, const double *p)
{
    const int *cap = user;

    (void)origin;
    (void)step;
    for (int k = 0; k <= CAP; k++)
        kept[n_kept++] = k <= *cap ? p[k] : 0;
}

/* What comes after the last origin, however much it is, changes no forecast. */
START_TEST(the_most_that_comes_later_is_not_known)
{
    enum { CASES = 200 };
    static double seen[2][3 * HORIZON * (CAP + 1)];
    struct spot_fc_spec spec = { .horizon = HORIZON };
    const struct spot_forecaster *model = NULL;
    struct spot_err err = { 0 };
    struct spot_rng rng;
    int cap;

    model = spot_forecaster_find("pool", &spec, &err);
    spot_rng_init(&rng, 5, 0);
    for (int k = 0; k < CASES; k++) {
        const size_t origin[] = { 30, 33, 35 };
        struct spot_score step[HORIZON] = { 0 };
        double prob[HORIZON * (CAP + 1)];

        for (int i = 0; i < N; i++)
            y[i] = (int)spot_rng_below(&rng, 4);
        for (int later = 0; later < 2; later++) {
            struct spot_count_grid g = grid;
            const struct spot_backtest b = { .grid = &g,
                                             .model = model,
                                             .spec = spec,
                                             .origin = origin,
                                             .n_origin = 3,
                                             .dist = keep,
                                             .user = &cap };

            if (later)
                y[N - 1] = y[N - 2] = CAP;
            for (g.cap = 0, cap = 0; cap < N; cap++)
                g.cap = y[cap] > g.cap ? y[cap] : g.cap;
            cap = g.cap;
            kept = seen[later];
            n_kept = 0;
            spot_backtest_run(&b, step, prob);
        }
        ck_assert_mem_eq(seen[0], seen[1], sizeof(seen[0]));
    }
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    tcase_add_loop_test(tc, origins_are_even_and_have_a_horizon_behind_them, 0,
                        sizeof(ranges) / sizeof(ranges[0]));
    add_tests(tc);
    return run_suite("backtest", tc);
}
