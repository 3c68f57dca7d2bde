/* SPDX-License-Identifier: MIT */
#include <check.h>
#include <math.h>

#include "common/rng.h"
#include "forecast/daily.h"
#include "forecast/recal.h"
#include "suite.h"

/* Goal: what depends on the hour is learned for that hour, what does not is left alone, and only
 * series of one place are corrected. */

enum { DAY = 144 }; /* intervals of ten minutes */

/* Hours whole and hours whole plus one: two hours of the day share a cell of the first kind if
 * they lie in one pair 0-1, 2-3, .., of the second if in one of 23-0, 1-2, .. */
START_TEST(neighbouring_hours_share_one_cell_of_two)
{
    for (int hour = 0; hour < 24; hour++)
        for (int other = 0; other < 24; other++) {
            const struct spot_daily_time a =
                spot_daily_time_at((uint64_t)(hour * 6 + 3 + 5 * DAY), DAY, false);
            const struct spot_daily_time b = spot_daily_time_at((uint64_t)(other * 6), DAY, false);

            ck_assert(a.is_known && spot_daily_time_is_sound(&a));
            ck_assert_int_eq(a.cell[0] == b.cell[0], hour / 2 == other / 2);
            ck_assert_int_eq(a.cell[1] == b.cell[1], (hour + 1) % 24 / 2 == (other + 1) % 24 / 2);
        }
}
END_TEST

START_TEST(high_and_low_counts_share_nothing)
{
    const struct spot_daily_time low = spot_daily_time_at(7, DAY, false);
    const struct spot_daily_time high = spot_daily_time_at(7, DAY, true);
    struct spot_daily daily = { 0 };

    spot_daily_learn(&daily, &high, 0.1, true, 1);
    ck_assert_double_gt(spot_daily_by(&daily, &high), 0);
    ck_assert_double_eq(spot_daily_by(&daily, &low), 0);
}
END_TEST

START_TEST(without_a_day_nothing_is_learned)
{
    const struct spot_daily_time never = spot_daily_time_at(7, 0, true);
    struct spot_daily daily = { 0 };

    for (int i = 0; i < 100; i++)
        spot_daily_learn(&daily, &never, 0.1, true, 1);
    ck_assert(!never.is_known);
    ck_assert_double_eq(spot_daily_by(&daily, &never), 0);
}
END_TEST

static double tilted(double said, double by)
{
    return 1 / (1 + (1 - said) / said * exp(-by));
}

/* The penalised maximum of the likelihood for one hour that saw `came` of n: both cells are s,
 * the prior has precision 8 for each. By bisection of the derivative, which falls with s. */
static double best_offset(double said, int n, int came)
{
    double lo = -5, hi = 5;

    for (int i = 0; i < 100; i++) {
        const double s = 0.5 * (lo + hi);

        if (came - n * tilted(said, 2 * s) - 8 * s > 0)
            lo = s;
        else
            hi = s;
    }
    return lo + hi;
}

START_TEST(an_hour_is_learned_like_by_penalised_likelihood)
{
    static const double truth[] = { 0.02, 0.2, 0.5 };

    for (int i = 0; i < 3; i++)
        for (int n = 200; n <= 20000; n *= 10) {
            const struct spot_daily_time time = spot_daily_time_at(31, DAY, true);
            struct spot_daily daily = { 0 };
            struct spot_rng rng;
            int came = 0;

            spot_rng_init(&rng, 3, (uint64_t)n);
            for (int k = 0; k < n; k++) {
                const bool event = spot_rng_unit(&rng) < truth[i];
                const double p = tilted(0.2, spot_daily_by(&daily, &time));

                came += event;
                spot_daily_learn(&daily, &time, p, event, 1);
            }
            ck_assert_double_eq_tol(tilted(0.2, spot_daily_by(&daily, &time)),
                                    tilted(0.2, best_offset(0.2, n, came)), 0.02);
        }
}
END_TEST

/* A place that changes state with probability .15 in eight hours of each day and .01 in the
 * others, foretold with .05: mean log loss of the corrected distribution over the last half of 60
 * days. */
static double loss_with(double day, int cap)
{
    struct spot_recal recal = { 0 };
    struct spot_rng rng;
    double loss = 0;
    int y = 0, n = 0;

    spot_rng_init(&rng, 17, 1);
    for (int t = 0; t < 60 * DAY; t++) {
        const double rate = t % DAY / 48 == 1 ? 0.15 : 0.01;
        double p[3] = { 0 };
        int next;

        spot_recal_observe(&recal, y);
        p[y] = 0.95;
        p[!y] = 0.05;
        spot_recal_apply(&recal, cap, day, 1, true, p);
        next = y ^ (spot_rng_unit(&rng) < rate);
        if (t >= 30 * DAY) {
            loss -= log(p[next]);
            n++;
        }
        y = next;
    }
    return loss / n;
}

START_TEST(a_cycle_is_found_on_one_place_and_not_looked_for_on_more)
{
    /* with the truth known: 1/3 of the intervals lose H(.15), 2/3 H(.01) */
    const double least =
        -(0.15 * log(0.15) + 0.85 * log(0.85)) / 3 - 2 * (0.01 * log(0.01) + 0.99 * log(0.99)) / 3;
    const double with = loss_with(DAY, 1), without = loss_with(0, 1), wrong = loss_with(97.3, 1);

    ck_assert_double_lt(with, 0.5 * least + 0.5 * without);
    ck_assert_double_gt(with, 0.9 * least);
    ck_assert_double_lt(wrong, 1.02 * without); /* no cycle: little is lost */
    ck_assert_double_eq(loss_with(DAY, 2), loss_with(0, 2));
}
END_TEST

START_TEST(a_time_that_cannot_be_is_not_sound)
{
    struct spot_recal recal = { 0 };

    spot_recal_observe(&recal, 1);
    ck_assert(spot_recal_is_sound(&recal, 1));
    recal.moment[5].time.cell[1] = 2 * SPOT_DAILY_CELLS;
    ck_assert(!spot_recal_is_sound(&recal, 1));
}
END_TEST

int main(void)
{
    return run_suite("daily", add_tests(tcase_create("core")));
}
