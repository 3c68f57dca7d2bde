/* SPDX-License-Identifier: MIT */
/* Goal: what a held fleet promises, where requests are refused and losses are announced. Oracle:
 * every answer of every zone with every count that may be there, one by one. */
#include <math.h>
#include <string.h>

#include "common/rng.h"
#include "plan/decision.h"
#include "suite.h"

enum { ZONES = 3, CAP = 4, HORIZON = 4 };

static struct spot_forecast_series series[ZONES];
static struct spot_forecast_start start[ZONES];
static double prob[ZONES][HORIZON * (CAP + 1)];
static double usd_per_h[ZONES] = { 1, 1.1, 1.2 };
static int spot[ZONES], ready[ZONES], cold[ZONES];

static struct spot_forecast any_forecast(struct spot_rng *rng)
{
    static const char *const zone[ZONES] = { "us-1a", "eu-1a", "ap-1a" };

    for (int z = 0; z < ZONES; z++) {
        series[z] = (struct spot_forecast_series){ .zone = zone[z],
                                                   .instance_type = "g",
                                                   .now = 2 + (int)spot_rng_below(rng, 3),
                                                   .cap = CAP,
                                                   .prob = prob[z],
                                                   .start = z ? &start[z] : NULL };
        start[z].granted = spot_rng_unit(rng);
        spot[z] = (int)spot_rng_below(rng, (uint64_t)series[z].now + 1);
        ready[z] = 0;
        cold[z] = 1 + (int)spot_rng_below(rng, HORIZON);
        for (int h = 0; h < HORIZON; h++) {
            double sum = 0, *row = prob[z] + (ptrdiff_t)h * (CAP + 1);

            for (int n = 0; n <= CAP; n++)
                sum += row[n] = spot_rng_unit(rng);
            for (int n = 0; n <= CAP; n++)
                row[n] /= sum;
        }
    }
    return (struct spot_forecast){
        .interval_s = 60, .horizon = HORIZON, .series = series, .n_series = ZONES
    };
}

/* P(more than `level` of a zone are there in the worst of its ticks until a launch answers). */
static double lasts(int z, int level)
{
    double least = 1;

    for (int h = 0; h < cold[z]; h++) {
        double more = 0;

        for (int n = level + 1; n <= CAP; n++)
            more += prob[z][h * (CAP + 1) + n];
        least = fmin(least, more);
    }
    return least;
}

/* P(fewer than `wanted` of the zones from z on). */
static double misses(const struct spot_hold_step *step, int z, int wanted)
{
    const double granted = z && z < ZONES && step->spot[z] > spot[z] ? start[z].granted : 1;
    double sum = 0;

    if (z == ZONES)
        return wanted > 0;
    for (int is_granted = 0; is_granted < 2; is_granted++) {
        const double answer = is_granted ? granted : 1 - granted;
        const int runs = is_granted ? step->spot[z] : spot[z];

        for (int k = 0; k <= runs && answer > 0; k++) {
            const double exactly = (k ? lasts(z, k - 1) : 1) - (k < runs ? lasts(z, k) : 0);

            sum += answer * exactly * misses(step, z + 1, wanted - k);
        }
    }
    return sum;
}

static struct spot_hold_step decide(const struct spot_forecast *forecast, int wanted, double usd)
{
    const struct spot_hold_rule rule = { usd, HORIZON, 0.99 };
    const struct spot_hold_now now = { .wanted = wanted,
                                       .load_most = -1,
                                       .usd_per_h = usd_per_h,
                                       .cold = cold,
                                       .spot = spot,
                                       .spot_ready = ready };
    const struct spot_seen seen = { .time_s = 60, .forecast = forecast, .fleet = &now };
    struct spot_decider *d = spot_policy_fleet.open(&(struct spot_rule){ .fleet = &rule });
    struct spot_action action;
    struct spot_err err = { 0 };

    ck_assert_msg(!spot_policy_fleet.observe(d, &seen, &err) &&
                      !spot_policy_fleet.decide(d, &action, NULL, &err),
                  "%s", err.msg);
    spot_policy_fleet.close(d);
    return action.fleet;
}

START_TEST(what_is_promised_is_what_all_answers_and_counts_come_to)
{
    struct spot_rng rng;
    int launches = 0;

    spot_rng_init(&rng, 11, 0);
    for (int i = 0; i < 300; i++) {
        const struct spot_forecast forecast = any_forecast(&rng);
        const int wanted = 1 + i % 4;
        const struct spot_hold_step step = decide(&forecast, wanted, 3 + 30 * (i % 2));

        for (int z = 1; z < ZONES; z++)
            launches += step.spot[z] > spot[z];
        ck_assert_double_eq_tol(step.miss, misses(&step, 0, wanted - step.on_demand), 1e-12);
    }
    ck_assert_int_gt(launches, 50);
}
END_TEST

START_TEST(who_says_no_is_asked_last_and_who_tells_of_losses_needs_fewer)
{
    struct spot_rng rng;
    int fewer = 0;

    spot_rng_init(&rng, 12, 0);
    for (int i = 0; i < 100; i++) {
        const struct spot_forecast forecast = any_forecast(&rng);
        struct spot_hold_step step, told;

        memset(spot, 0, sizeof(spot));
        start[1].granted = 0.01;
        start[2].granted = 0.99;
        step = decide(&forecast, 2, 3);
        ck_assert(!step.spot[1] || (step.spot[0] && step.spot[2]));
        for (int z = 0; z < ZONES; z++)
            cold[z] = HORIZON;
        step = decide(&forecast, 2, 3);
        for (int z = 0; z < ZONES; z++)
            cold[z] = 1;
        told = decide(&forecast, 2, 3);
        fewer += told.on_demand < step.on_demand;
        ck_assert_int_le(told.on_demand, step.on_demand);
    }
    ck_assert_int_gt(fewer, 10);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("fleet_hold");

    tcase_add_test(tc, what_is_promised_is_what_all_answers_and_counts_come_to);
    tcase_add_test(tc, who_says_no_is_asked_last_and_who_tells_of_losses_needs_fewer);
    return run_suite("fleet_hold", tc);
}
