/* SPDX-License-Identifier: MIT */
#include <stdlib.h>

#include "common/rng.h"
#include "forecast/joint.h"
#include "forecast/shock.h"
#include "suite.h"
#include "trace/region.h"

/* Goal: the joint distribution is a distribution within its bounds, nets out to the distribution of
 * the count, and learns the turnover it is shown. */

enum { CAP = 12 };

static void random_dist(struct spot_rng *rng, double *p)
{
    double sum = 0;

    for (int k = 0; k <= CAP; k++)
        sum += p[k] = spot_rng_unit(rng) < 0.3 ? 0 : spot_rng_unit(rng);
    for (int k = 0; k <= CAP; k++)
        p[k] /= sum;
}

START_TEST(nets_out_to_the_distribution_of_the_count)
{
    struct spot_joint_cell cell[(CAP + 1) * (SPOT_TURNOVER_MAX + 1)];
    struct spot_turnover turnover = { 0 };
    double step[CAP + 1], net[CAP + 1] = { 0 }, sum = 0;
    struct spot_rng rng;
    size_t n;

    spot_rng_init(&rng, 2, (uint64_t)_i);
    random_dist(&rng, step);
    for (int i = 0; i < 10 * _i; i++)
        spot_turnover_observe(&turnover, (int)spot_rng_below(&rng, 9),
                              (int)spot_rng_below(&rng, 9));
    n = spot_joint(&turnover, step, _i, CAP, cell);
    for (size_t i = 0; i < n; i++) {
        ck_assert_int_ge(cell[i].lost, 0);
        ck_assert_int_le(cell[i].lost, _i);
        ck_assert_int_ge(cell[i].gained, 0);
        ck_assert_int_le(_i - cell[i].lost + cell[i].gained, CAP);
        ck_assert_double_gt(cell[i].prob, 0);
        if (i)
            ck_assert(cell[i - 1].lost < cell[i].lost ||
                      (cell[i - 1].lost == cell[i].lost && cell[i - 1].gained < cell[i].gained));
        net[_i - cell[i].lost + cell[i].gained] += cell[i].prob;
        sum += cell[i].prob;
    }
    ck_assert_double_eq_tol(sum, 1, 1e-12);
    for (int k = 0; k <= CAP; k++)
        ck_assert_double_eq_tol(net[k], step[k], 1e-6);
}
END_TEST

START_TEST(losses_and_gains_exclude_each_other_when_they_always_did)
{
    struct spot_joint_cell cell[(CAP + 1) * (SPOT_TURNOVER_MAX + 1)];
    const double step[CAP + 1] = { [4] = 0.2, [5] = 0.6, [6] = 0.2 };
    struct spot_turnover turnover = { 0 };
    double both = 0;
    size_t n;

    for (int i = 0; i < 2000; i++)
        spot_turnover_observe(&turnover, i % 10 == 0, i % 10 == 5);
    n = spot_joint(&turnover, step, 5, CAP, cell);
    for (size_t i = 0; i < n; i++)
        both += cell[i].lost && cell[i].gained ? cell[i].prob : 0;
    ck_assert_double_lt(both, 0.001);
}
END_TEST

static double prob_of(const struct spot_joint_cell *cell, size_t n, int lost, int gained)
{
    double prob = 0;

    for (size_t i = 0; i < n; i++)
        prob += cell[i].lost == lost && cell[i].gained == gained ? cell[i].prob : 0;
    return prob;
}

START_TEST(learns_the_share_of_turnover)
{
    struct spot_joint_cell cell[(CAP + 1) * (SPOT_TURNOVER_MAX + 1)];
    const double step[CAP + 1] = { [5] = 1 };
    struct spot_turnover turnover = { 0 };
    size_t n;

    for (int i = 0; i < 1000; i++)
        spot_turnover_observe(&turnover, i % 4 == 0 ? 2 : 0, i % 4 == 0 ? 2 : 0);
    n = spot_joint(&turnover, step, 5, CAP, cell);
    ck_assert_double_eq_tol(prob_of(cell, n, 2, 2), 0.25, 0.005);
    ck_assert_double_eq_tol(prob_of(cell, n, 0, 0), 0.75, 0.015);
    ck_assert_double_eq(prob_of(cell, n, 5, 1), 0);
}
END_TEST

/* After a loss no turnover was ever seen, but elsewhere one in ten: not impossible after a loss. */
START_TEST(what_a_net_change_has_not_shown_others_tell)
{
    struct spot_joint_cell cell[(CAP + 1) * (SPOT_TURNOVER_MAX + 1)];
    const double step[CAP + 1] = { [4] = 1 };
    struct spot_turnover turnover = { 0 };
    double both = 0;
    size_t n;

    for (int i = 0; i < 500; i++)
        spot_turnover_observe(&turnover, i % 10 == 0, i % 10 == 0);
    for (int i = 0; i < 20; i++)
        spot_turnover_observe(&turnover, 1, 0);
    n = spot_joint(&turnover, step, 5, CAP, cell);
    for (size_t i = 0; i < n; i++)
        both += cell[i].gained ? cell[i].prob : 0;
    ck_assert_double_gt(both, 0.02); /* two turnovers of prior to 20 + 2 / 0.096 intervals */
    ck_assert_double_lt(both, 0.08);
}
END_TEST

/* prob, lift, calm must give a mean of 1 and the second moment they were fitted to. */
START_TEST(a_shock_has_the_moments_it_was_fitted_to)
{
    const struct spot_shock s = spot_shock_fit(500, 100), none = spot_shock_fit(1000, 1000);
    const double pair = (500 + 6.4) / 102;

    ck_assert_double_eq_tol(s.prob * s.lift + (1 - s.prob) * s.calm, 1, 1e-12);
    ck_assert_double_eq_tol(s.prob * s.lift * s.lift + (1 - s.prob) * s.calm * s.calm, pair, 1e-12);
    ck_assert_double_eq(none.prob, 0);
    ck_assert_double_eq(none.lift, 1);
}
END_TEST

START_TEST(regions_are_zones_without_their_letter)
{
    static const struct {
        const char *zone;
        size_t n;
    } zone[] = { { "us-east-1c", 9 },
                 { "us-east-1", 9 },
                 { "europe-west4-a", 12 },
                 { "northcentralus", 14 },
                 { "a", 1 },
                 { "", 0 },
                 { "r1z1", 2 },
                 { "r12z40", 3 },
                 { "r1", 2 },
                 { "r1z", 2 },
                 { "rz1", 3 },
                 { "r1z1x", 4 } };

    for (size_t i = 0; i < sizeof(zone) / sizeof(zone[0]); i++)
        ck_assert_uint_eq(spot_region_length(zone[i].zone), zone[i].n);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    tcase_add_loop_test(tc, nets_out_to_the_distribution_of_the_count, 0, CAP + 1);
    add_tests(tc);
    return run_suite("joint", tc);
}
