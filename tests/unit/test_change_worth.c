/* SPDX-License-Identifier: MIT */
/* Goal: what a change of the grid costs is what a job loses that is played tick by tick, over all
 * times at which the members may change; the way with the least is taken, and a change that does
 * not pay is not made. */
#include <math.h>

#include "common/rng.h"
#include "suite.h"
#include "train/change_worth.h"

/* Rate at a time after the decision. */
static double rate_at(const struct spot_change_worth *w, enum spot_change_when when, double t_s)
{
    const double ahead_s = w->moves_s + w->step_s;

    if (when == SPOT_CHANGE_LATER)
        return w->now_per_s;
    if (when == SPOT_CHANGE_AT_ONCE)
        return t_s < w->form_s + w->moves_s ? 0 : w->then_per_s;
    if (t_s < w->form_s)
        return 0;
    if (t_s < w->form_s + ahead_s)
        return w->now_per_s;
    return t_s < 2 * w->form_s + ahead_s ? 0 : w->then_per_s;
}

/* What is lost in each tick, if the members have not changed by then. */
static double played(const struct spot_change_worth *w, enum spot_change_when when)
{
    const double tick_s = 1e-3, most_s = isinf(w->lasts_s) ? 60 : 30 * w->lasts_s;
    double lost = 0;

    for (double t_s = tick_s / 2; t_s < most_s; t_s += tick_s) {
        const double still = isinf(w->lasts_s) ? 1 : exp(-t_s / w->lasts_s);

        lost += tick_s * still * (w->then_per_s - rate_at(w, when, t_s));
    }
    return lost;
}

static struct spot_change_worth some(struct spot_rng *rng)
{
    return (struct spot_change_worth){
        .now_per_s = 1 + 9 * spot_rng_unit(rng),
        .then_per_s = 1 + 9 * spot_rng_unit(rng),
        .form_s = 0.5 * spot_rng_unit(rng),
        .moves_s = 5 * spot_rng_unit(rng),
        .step_s = 2 * spot_rng_unit(rng),
        .lasts_s = 0.5 + 10 * spot_rng_unit(rng),
    };
}

START_TEST(costs_are_those_of_a_job_that_is_played)
{
    struct spot_rng rng;

    spot_rng_init(&rng, 20, 0);
    for (int k = 0; k < 40; k++) {
        const struct spot_change_worth w = some(&rng);
        double cost[3];

        for (int when = 0; when < 3; when++) {
            cost[when] = spot_change_cost(&w, when);
            ck_assert_double_eq_tol(cost[when], played(&w, when), 0.02);
        }
        ck_assert_int_eq(spot_change_pays(&w),
                         w.then_per_s > w.now_per_s && cost[spot_change_how(&w)] < cost[2]);
    }
}
END_TEST

START_TEST(members_that_stay_for_ever_are_the_limit_of_those_that_stay_long)
{
    struct spot_rng rng;

    spot_rng_init(&rng, 21, 0);
    for (int k = 0; k < 40; k++) {
        struct spot_change_worth w = some(&rng), ever;

        w.lasts_s = 1e7;
        ever = w;
        ever.lasts_s = INFINITY;
        for (int when = 0; when < SPOT_CHANGE_LATER; when++) {
            ck_assert_double_eq_tol(spot_change_cost(&w, when), spot_change_cost(&ever, when),
                                    1e-3);
            ck_assert_double_eq_tol(spot_change_cost(&ever, when), played(&ever, when), 0.05);
        }
        ck_assert_int_eq(spot_change_pays(&ever), ever.then_per_s > ever.now_per_s);
    }
}
END_TEST

/* Never dearer than the other way by more than half a step; and where it is dearer at all, it is
 * ahead, and at once would have been a pause of more than a twentieth of a step. */
START_TEST(a_long_pause_is_bought_off_at_a_fair_price)
{
    struct spot_rng rng;
    int n_bought = 0;

    spot_rng_init(&rng, 22, 0);
    for (int k = 0; k < 10000; k++) {
        const struct spot_change_worth w = some(&rng);
        const double at_once = spot_change_cost(&w, SPOT_CHANGE_AT_ONCE),
                     ahead = spot_change_cost(&w, SPOT_CHANGE_PRECOPY);
        const double fair = 0.5 * w.step_s * w.then_per_s;

        if (spot_change_how(&w) == SPOT_CHANGE_AT_ONCE) {
            ck_assert(at_once <= ahead);
            ck_assert(w.moves_s <= 0.05 * w.step_s || ahead - at_once >= fair);
            continue;
        }
        ck_assert(ahead < at_once || (w.moves_s > 0.05 * w.step_s && ahead - at_once < fair));
        n_bought += ahead > at_once;
    }
    ck_assert_int_gt(n_bought, 100);
}
END_TEST

/* D pipelines become D + 1: r' / r = (D + 1) / D. Members stay for ever. */
START_TEST(large_state_moves_ahead_and_small_state_at_once)
{
    struct spot_change_worth w = {
        .now_per_s = 4, .then_per_s = 5, .step_s = 1, .form_s = 0.05, .lasts_s = INFINITY
    };

    w.moves_s = 0.04;
    ck_assert_int_eq(spot_change_how(&w), SPOT_CHANGE_AT_ONCE);
    w.moves_s = 0.2; /* .45 samples more than at once: less than half a step's 2.5 */
    ck_assert_int_eq(spot_change_how(&w), SPOT_CHANGE_PRECOPY);
    w.then_per_s = 12; /* three times the speed: .6 + 9.6 - 2.4 = 7.8 of a step's 12 */
    ck_assert_int_eq(spot_change_how(&w), SPOT_CHANGE_AT_ONCE);
    w.then_per_s = 3; /* one leaves: the old grid is the faster one for as long as it can be */
    w.moves_s = 0.06;
    ck_assert_int_eq(spot_change_how(&w), SPOT_CHANGE_PRECOPY);
    ck_assert(!spot_change_pays(&w));
}
END_TEST

START_TEST(who_will_not_stay_for_long_is_not_worth_a_pause)
{
    struct spot_change_worth w = {
        .now_per_s = 4, .then_per_s = 5, .step_s = 1, .form_s = 1, .moves_s = 0
    };

    w.lasts_s = 10; /* a fifth of 10 s against 1 s */
    ck_assert(spot_change_pays(&w));
    w.lasts_s = 3;
    ck_assert(!spot_change_pays(&w));
    w.form_s = 0.1; /* a warm one costs little */
    ck_assert(spot_change_pays(&w));
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("worth");

    tcase_set_timeout(tc, 300);
    add_tests(tc);
    return run_suite("change_worth", tc);
}
