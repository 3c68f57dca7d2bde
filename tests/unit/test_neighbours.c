/* SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdio.h>

#include "common/rng.h"
#include "doc_rig.h"
#include "forecast/neighbours.h"
#include "trace/generate.h"

/* Goal: shocks that were put in are found, "together" is counted as by hand, and where most
 * interruptions come together the law says so. */

/* n instances, always brought back; a shock and losses of one's own in each window. */
/* `together` in a market: `n` instances there, the rates of *shock. */
static double expected(const struct spot_forecast_shock *shock, int n)
{
    /* Another's own loss, or another shock, within the window on either side of one's own. */
    const double span_h = 2 * SPOT_NEIGHBOURS_WINDOW_S / 3600;
    const double nobody = pow(1 - shock->reach, n - 1);
    const double others =
        exp(-((n - 1) * shock->own_per_h + shock->shock_per_h * (1 - nobody)) * span_h);
    const double by_shock = shock->shock_per_h * shock->reach;
    const double all = by_shock + shock->own_per_h;

    return all > 0 ? 1 - (by_shock * nobody + shock->own_per_h) / all * others : 0;
}

static struct spot_neighbours play(uint64_t seed, int n, double shock, double reach, double own)
{
    struct spot_neighbours seen = { 0 };
    struct spot_rng rng;

    spot_rng_init(&rng, seed, 0);
    for (int i = 0; i < 20000; i++) {
        const bool is_shock = spot_rng_unit(&rng) < shock;
        int lost = 0;

        for (int k = 0; k < n; k++)
            lost += spot_rng_unit(&rng) < own || (is_shock && spot_rng_unit(&rng) < reach);
        spot_neighbours_observe(&seen, SPOT_NEIGHBOURS_WINDOW_S, n, lost);
    }
    return seen;
}

START_TEST(shocks_that_were_put_in_are_found)
{
    static const struct {
        double shock, reach, own;
    } law[] = { { .02, .7, .002 }, { .01, .3, .001 }, { .03, .9, .0005 } };

    for (size_t c = 0; c < sizeof(law) / sizeof(law[0]); c++) {
        const struct spot_neighbours seen = play(7 + c, 16, law[c].shock, law[c].reach, law[c].own);
        const struct spot_neighbours *const of[] = { &seen };
        const double per_h = 3600 / SPOT_NEIGHBOURS_WINDOW_S;
        struct spot_forecast_shock got;

        ck_assert(spot_neighbours_is_sound(&seen));
        spot_neighbours_law(of, 1, SPOT_NEIGHBOURS_WINDOW_S, &got);
        ck_assert_double_eq_tol(got.reach, law[c].reach, .06);
        ck_assert_double_eq_tol(got.shock_per_h / per_h / law[c].shock, 1, .2);
        ck_assert_double_eq_tol(got.own_per_h / per_h / law[c].own, 1, .5);
        ck_assert_double_eq_tol(expected(&got, 16), got.together, .08);
    }
}
END_TEST

/* By hand: losses of 1, 1, 2, 1, 1 at minutes 1, 4, 20, 30, 34; three minutes are near, four not.
 */
START_TEST(together_is_counted_as_by_hand)
{
    struct spot_neighbours seen = { 0 };
    struct spot_forecast_shock got;
    const struct spot_neighbours *const of[] = { &seen };

    for (int minute = 1; minute < 60; minute++) {
        const int lost =
            minute == 1 || minute == 4 || minute == 30 || minute == 34 ? 1 : 2 * (minute == 20);

        spot_neighbours_observe(&seen, 60, 8, lost);
    }
    spot_neighbours_law(of, 1, 60, &got);
    ck_assert_double_eq(seen.lost, 6);
    ck_assert_double_eq(seen.together, 4);
    ck_assert_double_eq_tol(got.together, 4.0 / 6, 1e-12);
}
END_TEST

/* One instance cannot tell: its type does. */
START_TEST(a_series_of_one_has_the_law_of_its_type)
{
    const struct spot_neighbours many = play(3, 16, .02, .8, .001), one = play(4, 1, .02, .8, .001);
    const struct spot_neighbours *const of[] = { &many, &one };
    struct spot_forecast_shock got[2];

    spot_neighbours_law(of, 2, SPOT_NEIGHBOURS_WINDOW_S, got);
    ck_assert_double_eq_tol(got[1].reach, got[0].reach, .1);
    ck_assert_double_gt(got[1].shock_per_h, .1);
}
END_TEST

/* "Of interruptions of one type in one zone over 92 % fall within three minutes of one another"
 * (Spot-and-Scoot, 2026): of a stormy market, and told by the law. Of a calm one that is less. */
START_TEST(most_interruptions_come_together)
{
    static const struct {
        const char *profile;
        double least, most;
    } market[] = { { "stormy", .92, 1 }, { "typical", .75, 1 }, { "calm", .3, .9 } };

    for (size_t c = 0; c < sizeof(market) / sizeof(market[0]); c++) {
        struct spot_neighbours seen = { 0 };
        const struct spot_neighbours *const of[] = { &seen };
        struct spot_trace_model model;
        struct spot_generator gen;
        struct spot_gen_net net;
        struct spot_forecast_shock got;
        struct spot_err err;
        double mean = 0;

        ck_assert(!spot_trace_model_profile(market[c].profile, 32, &model, &err));
        spot_generator_init(&gen, &model, 1, 1, 32, 41 + c);
        for (int i = 0; i < 14 * 1440; i++) {
            const int before = gen.zone[0].available;

            spot_generator_step(&gen, 60, &net);
            spot_neighbours_observe(&seen, 60, before, net.lost);
            mean += before / (14 * 1440.0);
        }
        spot_generator_release(&gen);
        spot_neighbours_law(of, 1, 60, &got);
        printf("# %s: together %.3f, under the law %.3f\n", market[c].profile, got.together,
               expected(&got, (int)mean));
        ck_assert_double_ge(got.together, market[c].least);
        ck_assert_double_le(got.together, market[c].most);
        ck_assert_double_eq_tol(expected(&got, (int)mean), got.together, .15);
    }
}
END_TEST

int main(void)
{
    return run_suite("neighbours", add_tests(tcase_create("core")));
}
