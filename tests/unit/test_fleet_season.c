/* SPDX-License-Identifier: MIT */
/* Goal: the law of a load's next ticks is the right one, whatever kind of load it is. Oracles: the
 * transitions of the chain that a load was drawn from, squared by hand; a load that repeats; the
 * quantiles of independent ticks. */
#include <math.h>

#include "common/rng.h"
#include "sim/fleet_season.h"
#include "suite.h"

enum { TICKS = 1500, AHEAD = 2 };

/* P(more than half of the most comes), and the mean, in the tick `ahead`. */
static double chance(const struct spot_fleet_season *season, size_t ahead, double *mean)
{
    double load[SPOT_FLEET_LOADS], weight[SPOT_FLEET_LOADS], sum = 0, above = 0;
    const size_t n = spot_fleet_season_next(season, ahead, load, weight);

    *mean = 0;
    for (size_t i = 0; i < n; i++) {
        sum += weight[i];
        *mean += weight[i] * load[i];
        above += load[i] > 5 ? weight[i] : 0;
    }
    ck_assert_double_eq_tol(sum, 1, 1e-12);
    return above;
}

/* The mean of what two ticks ahead is said to bring, in pauses and in bursts. */
START_TEST(a_pause_and_a_burst_have_each_their_law)
{
    const double begins = 0.1, ends = 0.25; /* of pauses and bursts, each tick */
    struct spot_fleet_season *season = spot_fleet_season_new(1, AHEAD);
    double said[2] = { 0 }, seen[2] = { 0 }, mean;
    struct spot_rng rng;
    bool is_on = false;

    spot_rng_init(&rng, 5, 0);
    for (size_t t = 0; t < TICKS; t++) {
        const double load = is_on ? 10 : 0;

        spot_fleet_season_step(season, &load);
        if (t > TICKS / 2) {
            (void)chance(season, AHEAD, &mean);
            said[is_on] += mean / 10;
            seen[is_on] += 1;
        }
        is_on = spot_rng_unit(&rng) < (is_on ? 1 - ends : begins);
    }
    ck_assert_double_eq_tol(said[0] / seen[0], (1 - begins) * begins + begins * (1 - ends), 0.04);
    ck_assert_double_eq_tol(said[1] / seen[1], ends * begins + (1 - ends) * (1 - ends), 0.06);
    spot_fleet_season_free(season);
}
END_TEST

START_TEST(what_repeats_is_foreseen_to_the_tick)
{
    static const double load[] = { 1, 9, 1, 1, 9, 9, 1 };
    struct spot_fleet_season *season = spot_fleet_season_new(1, AHEAD);
    double mean;

    for (size_t t = 0; t < 300; t++) {
        spot_fleet_season_step(season, &load[t % 7]);
        if (t < 200)
            continue;
        for (size_t h = 1; h <= AHEAD; h++)
            ck_assert_double_eq_tol(chance(season, h, &mean), load[(t + h) % 7] > 5, 0.03);
    }
    spot_fleet_season_free(season);
}
END_TEST

START_TEST(ticks_that_tell_nothing_have_the_law_of_all)
{
    struct spot_fleet_season *season = spot_fleet_season_new(1, AHEAD);
    double said = 0, mean, means = 0;
    struct spot_rng rng;

    spot_rng_init(&rng, 6, 0);
    for (size_t t = 0; t < TICKS; t++) {
        const double load = 10 * spot_rng_unit(&rng);

        spot_fleet_season_step(season, &load);
        if (t < TICKS / 2)
            continue;
        said += chance(season, 1, &mean) / (TICKS - TICKS / 2);
        means += mean / (TICKS - TICKS / 2);
    }
    ck_assert_double_eq_tol(said, 0.5, 0.06);
    ck_assert_double_eq_tol(means, 5, 0.3);
    spot_fleet_season_free(season);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("fleet_season");

    tcase_set_timeout(tc, SUITE_TIMEOUT_S);
    add_tests(tc);
    return run_suite("fleet_season", tc);
}
