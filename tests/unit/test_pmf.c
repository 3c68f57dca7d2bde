/* SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdlib.h>

#include "common/rng.h"
#include "forecast/pmf.h"
#include "forecast/score.h"
#include "suite.h"

/* Goal: distributions stay distributions, and the scores are those of the textbooks, by other
 * formulas. */

enum { CAP = 32 };

static void random_dist(struct spot_rng *rng, double *p)
{
    for (int k = 0; k <= CAP; k++)
        p[k] = spot_rng_unit(rng) < 0.4 ? 0 : spot_rng_unit(rng);
    spot_pmf_normalize(p, CAP, 3);
}

static double sum_of(const double *p)
{
    double sum = 0;

    for (int k = 0; k <= CAP; k++)
        sum += p[k];
    return sum;
}

/* E|X - y| - E|X - X'| / 2: Gneiting and Raftery 2007, eq. 21. */
static double energy_score(const double *p, int y)
{
    double score = 0;

    for (int i = 0; i <= CAP; i++) {
        score += p[i] * abs(i - y);
        for (int j = 0; j <= CAP; j++)
            score -= 0.5 * p[i] * p[j] * abs(i - j);
    }
    return score;
}

START_TEST(crps_equals_the_energy_form)
{
    struct spot_rng rng;
    double p[CAP + 1];

    spot_rng_init(&rng, 3, (uint64_t)_i);
    random_dist(&rng, p);
    for (int y = 0; y <= CAP; y++)
        ck_assert_double_eq_tol(spot_pmf_crps(p, CAP, y), energy_score(p, y), 1e-12);
}
END_TEST

START_TEST(crps_of_a_point_is_its_distance)
{
    double p[CAP + 1];

    for (int k = -2; k <= CAP + 2; k++) {
        const int at = k < 0 ? 0 : k > CAP ? CAP : k;

        spot_pmf_point(p, CAP, k);
        for (int y = 0; y <= CAP; y++)
            ck_assert_double_eq(spot_pmf_crps(p, CAP, y), abs(at - y));
    }
}
END_TEST

START_TEST(normal_distribution_equals_erfc_and_folds_its_tails)
{
    static const double mean[] = { -50, -0.3, 0, 4.5, 16, 31.9, 60 }, sd[] = { 0, 0.2, 1, 7, 90 };

    for (int i = 0; i < 7; i++)
        for (int j = 0; j < 5; j++) {
            const double s = fmax(sd[j], 0.05);
            double p[CAP + 1];

            spot_pmf_normal(p, CAP, mean[i], sd[j]);
            ck_assert_double_eq_tol(sum_of(p), 1, 1e-12);
            for (int k = 0; k <= CAP; k++) {
                const double hi = k < CAP ? 0.5 * erfc(-(k + 0.5 - mean[i]) / s / sqrt(2)) : 1;
                const double lo = k > 0 ? 0.5 * erfc(-(k - 0.5 - mean[i]) / s / sqrt(2)) : 0;

                ck_assert_double_eq_tol(p[k], hi - lo, 1e-12);
                ck_assert_double_ge(p[k], 0);
            }
        }
}
END_TEST

START_TEST(a_distribution_without_mass_becomes_the_fallback)
{
    double p[CAP + 1] = { 0 };

    spot_pmf_normalize(p, CAP, 7);
    ck_assert_double_eq(p[7], 1);
    p[7] = NAN;
    spot_pmf_normalize(p, CAP, 9);
    ck_assert_double_eq(p[9], 1);
    ck_assert_double_eq(sum_of(p), 1);
}
END_TEST

START_TEST(quantiles_are_the_least_counts_that_reach_the_level)
{
    const double p[CAP + 1] = { [2] = 0.25, [5] = 0.5, [9] = 0.25 };

    ck_assert_int_eq(spot_pmf_quantile(p, CAP, 0), 0);
    ck_assert_int_eq(spot_pmf_quantile(p, CAP, 0.25), 2);
    ck_assert_int_eq(spot_pmf_quantile(p, CAP, 0.26), 5);
    ck_assert_int_eq(spot_pmf_quantile(p, CAP, 0.5), 5);
    ck_assert_int_eq(spot_pmf_quantile(p, CAP, 0.76), 9);
    ck_assert_int_eq(spot_pmf_quantile(p, CAP, 1), 9);
    ck_assert_double_eq(spot_pmf_mean(p, CAP), 5.25);
    ck_assert_double_eq(spot_pmf_below(p, 5), 0.25);
}
END_TEST

/* Outcomes drawn from the distribution itself: the transform must be flat and cover as told. */
START_TEST(a_true_distribution_is_calibrated)
{
    const double p[CAP + 1] = { [0] = 0.3, [1] = 0.2, [4] = 0.35, [20] = 0.15 };
    struct spot_score score = { 0 };
    struct spot_rng rng;
    double total = 0;

    spot_rng_init(&rng, 4, 0);
    for (int i = 0; i < 20000; i++)
        spot_score_add(&score, p, CAP, 4, spot_pmf_quantile(p, CAP, spot_rng_unit(&rng)));
    ck_assert_double_eq_tol(score.cover_sum / 20000, 0.8, 0.01);
    for (int i = 0; i < SPOT_SCORE_PIT; i++) {
        ck_assert_double_eq_tol(score.pit[i] / 20000, 1.0 / SPOT_SCORE_PIT, 0.005);
        total += score.pit[i];
    }
    ck_assert_double_eq_tol(total, 20000, 1e-6);
    ck_assert_double_eq_tol(score.brier_sum / 20000, 0.25, 0.01); /* a coin of one half */
}
END_TEST

/* Two halves of the outcomes, scored apart and put together. */
START_TEST(scores_of_parts_add_up_to_that_of_the_whole)
{
    double p[CAP + 1] = { 0.1, 0.2, 0.4, 0.3 };
    struct spot_score whole = { 0 }, part[2] = { { 0 }, { 0 } };

    for (int y = 0; y < 4; y++) {
        spot_score_add(&whole, p, CAP, 2, y);
        spot_score_add(&part[y / 2], p, CAP, 2, y);
    }
    spot_score_merge(&part[0], &part[1]);
    ck_assert_uint_eq(part[0].n, 4);
    ck_assert_double_eq_tol(part[0].abs_sum, whole.abs_sum, 1e-12);
    ck_assert_double_eq_tol(part[0].crps_sum, whole.crps_sum, 1e-12);
    ck_assert_double_eq_tol(part[0].brier_sum, whole.brier_sum, 1e-12);
    ck_assert_double_eq_tol(part[0].cover_sum, whole.cover_sum, 1e-12);
    for (int i = 0; i < SPOT_SCORE_PIT; i++)
        ck_assert_double_eq_tol(part[0].pit[i], whole.pit[i], 1e-12);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    tcase_add_loop_test(tc, crps_equals_the_energy_form, 0, 8);
    add_tests(tc);
    return run_suite("pmf", tc);
}
