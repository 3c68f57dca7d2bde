/* SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/rng.h"
#include "forecast/recal.h"
#include "suite.h"

/* Goal: a distribution that is wrong in a way that can be learned becomes right, one that is right
 * stays right, and every corrected distribution is a distribution. */

enum { CAP = 8, STEPS = 3, WIDTH = CAP + 1 };

static double sum_of(const double *p)
{
    double sum = 0, least = 0, most = 0;

    for (int k = 0; k < WIDTH; k++) {
        least = fmin(least, p[k]);
        most = fmax(most, p[k]);
        sum += p[k];
    }
    ck_assert(least >= 0 && most <= 1 + 1e-12);
    return sum;
}

START_TEST(only_the_odds_of_events_move)
{
    struct spot_recal recal = { 0 };
    double p[WIDTH] = { 0.02, 0.03, 0.05, 0.1, 0.5, 0.1, 0.1, 0.06, 0.04 }, was[WIDTH];

    memcpy(was, p, sizeof(p));
    spot_recal_observe(&recal, 4);
    spot_recal_apply(&recal, CAP, 0, 1, false, p);
    ck_assert_double_eq_tol(sum_of(p), 1, 1e-12);
    /* inside a tail and between tails the proportions stay: 0..3 hold a fifth, 6..8 do */
    for (int k = 1; k <= 3; k++)
        ck_assert_double_eq_tol(p[k] / p[0], was[k] / was[0], 1e-12);
    for (int k = 7; k <= 8; k++)
        ck_assert_double_eq_tol(p[k] / p[6], was[k] / was[6], 1e-12);
    /* the start values at age 1 of a first value: one change in 21 intervals is expected */
    ck_assert_double_eq_tol(
        (1 - p[4]) / p[4],
        0.5 / 0.5 * exp(-0.12 - 0.10 * log2(1.0 / 21.0) - 0.12 * log2(1 / (1.0 / 21.0 + 1))),
        1e-12);
}
END_TEST

START_TEST(a_certain_distribution_stays_certain)
{
    struct spot_recal recal = { 0 };

    for (int t = 0; t < 50; t++) {
        double p[STEPS * WIDTH] = { 0 };

        spot_recal_observe(&recal, 3);
        for (int h = 0; h < STEPS; h++)
            p[h * WIDTH + 3] = 1;
        spot_recal_apply(&recal, CAP, 0, STEPS, true, p);
        for (int h = 0; h < STEPS; h++)
            ck_assert_double_eq_tol(p[h * WIDTH + 3], 1, 1e-15);
    }
}
END_TEST

/* The count leaves 4 with probability 0.3 and is back at once; a model says `said` instead.
 * Returns what the corrected distribution says of a change after n rounds. */
static double learned(double said, int n, uint64_t seed)
{
    struct spot_recal recal = { 0 };
    struct spot_rng rng;
    double p[WIDTH];

    spot_rng_init(&rng, seed, 1);
    for (int t = 0;; t++) {
        memset(p, 0, sizeof(p));
        spot_recal_observe(&recal, 4);
        p[4] = 1 - said;
        p[3] = p[5] = said / 2;
        spot_recal_apply(&recal, CAP, 0, 1, true, p);
        ck_assert_double_eq_tol(sum_of(p), 1, 1e-12);
        if (t == n)
            return 1 - p[4];
        spot_recal_observe(&recal, spot_rng_unit(&rng) < 0.3 ? 5 : 4);
    }
}

START_TEST(a_wrong_rate_is_learned_and_a_right_one_kept)
{
    for (uint64_t seed = 1; seed <= 3; seed++) {
        ck_assert_double_eq_tol(learned(0.1, 30000, seed), 0.3, 0.05);
        ck_assert_double_eq_tol(learned(0.6, 30000, seed), 0.3, 0.05);
        ck_assert_double_eq_tol(learned(0.3, 30000, seed), 0.3, 0.05);
        ck_assert_double_lt(fabs(learned(0.3, 20, seed) - 0.3), 0.08); /* not hasty */
    }
}
END_TEST

/* The filter in its information form, the precision matrix kept and solved by Cramer's rule, with
 * the terms taken from the whole history: what the module must agree with. */
struct oracle {
    double shift[3], info[3][3];
};

static double det3(double m[3][3])
{
    return m[0][0] * (m[1][1] * m[2][2] - m[1][2] * m[2][1]) -
           m[0][1] * (m[1][0] * m[2][2] - m[1][2] * m[2][0]) +
           m[0][2] * (m[1][0] * m[2][1] - m[1][1] * m[2][0]);
}

static void oracle_terms(const int *y, int n, double x[3])
{
    int age = 1, n_change = 0, recent = 0;

    for (int t = 1; t < n; t++) {
        const int changed = y[t] != y[t - 1];

        n_change += changed;
        recent += changed && t >= n - 60;
        age = changed ? 1 : age + 1;
    }
    x[0] = 1;
    x[1] = log2(age * (n_change + 1.0) / (n + 20.0));
    x[2] = log2((recent + 1.0) / ((n < 60 ? n : 60) * (n_change + 1.0) / (n + 20.0) + 1));
}

static double oracle_prob(const struct oracle *o, const double *x, double said)
{
    static const double start[] = { -0.12, -0.10, -0.12 };
    double z = log(said / (1 - said));

    for (int i = 0; i < 3; i++)
        z += (start[i] + o->shift[i]) * x[i];
    return 1 / (1 + exp(-z));
}

static void oracle_learn(struct oracle *o, const double *x, double p, bool came)
{
    const double v = p * (1 - p);

    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++)
            o->info[i][j] += v * x[i] * x[j];
    for (int i = 0; i < 3; i++) {
        double m[3][3], whole;

        memcpy(m, o->info, sizeof(m));
        whole = det3(m);
        for (int j = 0; j < 3; j++)
            m[j][i] = x[j];
        o->shift[i] += (came - p) * det3(m) / whole;
    }
}

START_TEST(the_filter_agrees_with_its_information_form)
{
    enum { N = 1500 };
    static int y[N];
    struct spot_recal recal = { 0 };
    struct oracle oracle = { .info = { { 400, 0, 0 }, { 0, 400, 0 }, { 0, 0, 400 } } };
    struct spot_rng rng;
    double x[3] = { 0 }, expected = 0, worst = 0;

    spot_rng_init(&rng, 11, 1);
    for (int t = 0; t < N; t++) {
        const double rate = t / 300 % 2 ? 0.3 : 0.03; /* restless and calm in turn */
        double p[2];

        y[t] = t ? y[t - 1] ^ (spot_rng_unit(&rng) < rate) : 0;
        if (t)
            oracle_learn(&oracle, x, expected, y[t] != y[t - 1]);
        oracle_terms(y, t + 1, x);
        expected = oracle_prob(&oracle, x, 0.1);
        spot_recal_observe(&recal, y[t]);
        p[y[t]] = 0.9;
        p[!y[t]] = 0.1;
        spot_recal_apply(&recal, 1, 0, 1, true, p);
        worst = fmax(worst, fabs(p[!y[t]] - expected));
    }
    ck_assert_double_lt(worst, 1e-10);
    ck_assert_double_gt(fabs(oracle.shift[2]), 0.05); /* there was something to learn */
}
END_TEST

/* Distributions of the spread `said` around a count that is normal with spread 2, always 4 at the
 * origin. */
static double outside(double said, int n)
{
    struct spot_recal recal = { 0 };
    struct spot_rng rng;
    double p[WIDTH], tails = 0;

    spot_rng_init(&rng, 5, 1);
    for (int t = 0; t < n; t++) {
        double sum = 0;
        int y;

        spot_recal_observe(&recal, 4);
        for (int k = 0; k < WIDTH; k++)
            sum += p[k] = exp(-0.5 * (k - 4) * (k - 4) / said / said);
        for (int k = 0; k < WIDTH; k++)
            p[k] /= sum;
        spot_recal_apply(&recal, CAP, 0, 1, true, p);
        tails = p[0] + p[1] + p[7] + p[8];
        y = (int)lround(4 + 2 * spot_rng_normal(&rng));
        spot_recal_observe(&recal, y < 0 ? 0 : y > CAP ? CAP : y);
    }
    return tails;
}

START_TEST(tails_that_are_too_light_grow)
{
    const double right = outside(2, 1), few = outside(1.2, 1), more = outside(1.2, 20000);

    ck_assert_double_gt(more, 2 * few);
    ck_assert_double_lt(fabs(more - right), fabs(few - right));
}
END_TEST

START_TEST(a_long_series_is_learned_from_ever_more_rarely)
{
    struct spot_recal recal = { 0 };
    uint64_t n_due = 0;

    for (int t = 1; t <= 1000000; t++) {
        spot_recal_observe(&recal, t % 2);
        n_due += spot_recal_is_due(&recal);
        if (t == 2000)
            ck_assert_uint_eq(n_due, 2000);
    }
    ck_assert_uint_lt(n_due, 24000);
}
END_TEST

START_TEST(what_cannot_be_is_not_sound)
{
    struct spot_recal recal = { 0 };

    spot_recal_observe(&recal, 3);
    ck_assert(spot_recal_is_sound(&recal, CAP));
    recal.newest = CAP + 1;
    ck_assert(!spot_recal_is_sound(&recal, CAP));
    recal.newest = -1;
    ck_assert(!spot_recal_is_sound(&recal, CAP));
}
END_TEST

int main(void)
{
    return run_suite("recal", add_tests(tcase_create("core")));
}
