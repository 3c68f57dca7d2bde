/* SPDX-License-Identifier: MIT */
/* Goal: the clock finds when counts can change, and says nothing where they can always; hazards
 * learn what runs have shown. Oracles: traces made with a probe's period and phase known; the
 * hazard a trace was drawn with. */
#include <math.h>

#include "common/rng.h"
#include "sim/fleet_clock.h"
#include "sim/fleet_hazard.h"
#include "suite.h"

enum { ZONES = 2, TICKS = 6000 };

/* Zones that change with probability h at each probe, a probe each `period` ticks. Fills the mean
 * of next() over ticks before a probe, and over the others, in the second half. */
static void play(double period, double h, uint64_t seed, double *probe, double *other)
{
    static const size_t region[ZONES] = { 0, 0 };
    struct spot_fleet_clock *clock = spot_fleet_clock_new(region, ZONES);
    double n_probe = 0, n_other = 0;
    struct spot_rng rng;

    spot_rng_init(&rng, seed, 3);
    *probe = *other = 0;
    for (int t = 1; t < TICKS; t++) {
        const double said = spot_fleet_clock_next(clock, 0);
        const bool is_probe = floor((t + 0.4) / period) > floor((t - 1 + 0.4) / period);
        bool changed[ZONES];

        for (int z = 0; z < ZONES; z++)
            changed[z] = is_probe && spot_rng_unit(&rng) < h;
        spot_fleet_clock_step(clock, changed);
        if (t < TICKS / 2)
            continue;
        *(is_probe ? probe : other) += said;
        *(is_probe ? &n_probe : &n_other) += 1;
    }
    *probe /= n_probe;
    *other /= n_other > 0 ? n_other : 1;
    spot_fleet_clock_free(clock);
}

START_TEST(a_probed_trace_changes_with_its_probes)
{
    static const double period[] = { 2, 3.237, 5.5 };

    for (size_t i = 0; i < 3; i++) {
        double probe, other;

        play(period[i], 0.2, i + 1, &probe, &other);
        ck_assert_msg(probe > 0.6 * period[i], "period %g: %g before a probe", period[i], probe);
        ck_assert_msg(other < 0.4, "period %g: %g else", period[i], other);
    }
}
END_TEST

START_TEST(a_trace_that_changes_at_any_time_has_no_clock)
{
    for (uint64_t seed = 1; seed <= 3; seed++) {
        double all, none;

        play(1, 0.03, seed, &all, &none);
        ck_assert_double_eq_tol(all, 1, 0.05);
    }
}
END_TEST

START_TEST(hazards_are_those_a_trace_was_drawn_with)
{
    static const char *const zone[ZONES] = { "us-east-1a", "us-west-2a" };
    static const double lost[ZONES] = { 0.01, 0.05 };
    struct spot_fleet_hazard *h = spot_fleet_hazard_new(zone, ZONES, 1);
    int32_t room[ZONES] = { 1, 1 };
    double sum[ZONES] = { 0 };
    struct spot_rng rng;
    int n[ZONES] = { 0 };

    spot_rng_init(&rng, 5, 0);
    for (int t = 0; t < 20000; t++) {
        for (int z = 0; z < ZONES; z++)
            room[z] = room[z] ? spot_rng_unit(&rng) >= lost[z] : spot_rng_unit(&rng) < 0.1;
        spot_fleet_hazard_step(h, room);
        for (size_t z = 0; z < ZONES && t > 10000; z++)
            if (room[z]) {
                sum[z] += 1 - spot_fleet_hazard_lasts(h, z, 0, 1);
                n[z]++;
            }
    }
    for (int z = 0; z < ZONES; z++)
        ck_assert_double_eq_tol(sum[z] / n[z], lost[z], 0.2 * lost[z]);
    ck_assert_double_lt(spot_fleet_hazard_lasts(h, 0, 0, 10), spot_fleet_hazard_lasts(h, 0, 0, 1));
    spot_fleet_hazard_free(h);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("fleet_clock");

    tcase_set_timeout(tc, SUITE_TIMEOUT_S);
    tcase_add_test(tc, a_probed_trace_changes_with_its_probes);
    tcase_add_test(tc, a_trace_that_changes_at_any_time_has_no_clock);
    tcase_add_test(tc, hazards_are_those_a_trace_was_drawn_with);
    return run_suite("fleet_clock", tc);
}
