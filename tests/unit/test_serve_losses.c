/* SPDX-License-Identifier: MIT */
/* Goal: spares for neighbours that fall together. Oracle: every number of shocks and of single
 * losses, one by one; k shocks of n instances take as many as k n of which each goes with the
 * reach. Properties: without shocks it is Poisson; a shock more than that is worth spares; where
 * they are counts, the order does not. */
#include <math.h>

#include "common/rng.h"
#include "plan/serve/serve_losses.h"
#include "suite.h"

enum { PLACES_MAX = 2, COUNT_MAX = 40 };

static double poisson(double mean, int k)
{
    return exp(k * log(fmax(mean, 1e-300)) - mean - lgamma(k + 1));
}

static double binomial(int n, double p, int k)
{
    return exp(lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1) + k * log(p) +
               (n - k) * log1p(-p));
}

/* P(no more than `spares` are away), of the places from k on, each with whole[k] instances, with
 * `own` expected in all alone. */
static double enumerate(const struct spot_serve_place *place, const int *whole, int n, double level,
                        double own, int spares)
{
    double sum = 0;

    if (!n) {
        for (int k = 0; k <= spares; k++)
            sum += poisson(own, k);
        return sum;
    }
    own += place->own * level * *whole;
    for (int shocks = 0; shocks < COUNT_MAX; shocks++)
        for (int gone = 0; gone <= shocks * *whole && gone <= spares; gone++)
            sum += poisson(place->shock * level, shocks) *
                   (shocks ? binomial(shocks * *whole, place->reach, gone) : gone == 0) *
                   enumerate(place + 1, whole + 1, n - 1, level, own, spares - gone);
    return sum;
}

START_TEST(away_is_what_all_shocks_and_losses_come_to)
{
    struct spot_rng rng;

    spot_rng_init(&rng, 3, 0);
    for (int i = 0; i < 200; i++) {
        struct spot_serve_place place[PLACES_MAX];
        int whole[PLACES_MAX], all = 0;
        const int n = 1 + (int)spot_rng_below(&rng, PLACES_MAX), spares = i % 5;
        struct spot_serve_ask ask = { .place = place, .n_place = (size_t)n, .repair_s = 100 };
        double rate = 0, level;

        for (int k = 0; k < n; k++) {
            whole[k] = 2 + spares + (int)spot_rng_below(&rng, 6);
            all += whole[k];
            place[k] = (struct spot_serve_place){ whole[k], spot_rng_unit(&rng),
                                                  spot_rng_unit(&rng), spot_rng_unit(&rng) };
            rate += whole[k] * (place[k].own + place[k].shock * place[k].reach);
        }
        ask.loss_per_s = 1e-3 * spot_rng_unit(&rng);
        level = ask.loss_per_s * ask.repair_s * all / rate;
        ck_assert_double_eq_tol(spot_serve_share_beyond(&ask, all - spares, spares),
                                1 - enumerate(place, whole, n, level, 0, spares), 1e-9);
    }
}
END_TEST

START_TEST(alone_they_are_poisson_and_a_place_of_half_an_instance_is_a_mix)
{
    struct spot_serve_place place = { .there = 4, .own = 1 };
    struct spot_serve_ask ask = { .loss_per_s = 1e-4, .repair_s = 300 };
    double within = 0, alone;

    for (int k = 0; k <= 2; k++)
        within += poisson(1e-4 * 300 * 9, k);
    alone = spot_serve_share_beyond(&ask, 7, 2);
    ck_assert_double_eq_tol(alone, 1 - within, 1e-12);
    ask.place = &place;
    ask.n_place = 1;
    ck_assert_double_eq_tol(spot_serve_share_beyond(&ask, 7, 2), alone, 1e-12);

    /* two places, one and a half instances each: none is away unless a shock takes one */
    {
        const struct spot_serve_place two[2] = { { 3, 0, 2, 0.3 }, { 3, 0, 2, 0.3 } };
        const double per_shock = 1 - 0.7 * (1 - 0.5 * 0.3), level = 1e-4 * 300 * 6 / (6 * 2 * 0.3);

        ask.place = two;
        ask.n_place = 2;
        ck_assert_double_eq_tol(spot_serve_share_beyond(&ask, 3, 0),
                                1 - exp(-2 * 2 * level * per_shock), 1e-12);
    }
}
END_TEST

START_TEST(neighbours_want_more_spares_than_the_same_losses_alone)
{
    struct spot_serve_place place[] = { { 12, 0.2, 0.4, 0.8 }, { 6, 0.1, 0.3, 0.5 } },
                            turned[] = { place[1], place[0] };
    struct spot_serve_ask alone = { .instances = 40, .loss_per_s = 0.3 / 3600, .repair_s = 200 },
                          together = alone, other;
    int64_t last = 40;

    together.place = place;
    together.n_place = 2;
    other = together;
    other.place = turned;
    ck_assert_int_gt(spot_serve_spares(&together, 12, 0.01), spot_serve_spares(&alone, 12, 0.01));
    for (double share = 2e-3; share < 0.9; share *= 1.5) {
        const int64_t n = spot_serve_spares(&together, 12, share);

        ck_assert_int_eq(n, spot_serve_spares(&other, 12, share));
        ck_assert_int_le(n, last);
        if (spot_serve_share_beyond(&together, 12, 28) > share)
            ck_assert_int_eq(n, spot_serve_spares(&alone, 12, share));
        else
            ck_assert_double_le(spot_serve_share_beyond(&together, 12, n), share);
        ck_assert(!n || spot_serve_share_beyond(&together, 12, n - 1) > share);
        last = n;
    }
    together.loss_per_s = 0;
    ck_assert_int_eq(spot_serve_spares(&together, 12, 0.01), 0);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("serve_losses");

    tcase_add_test(tc, away_is_what_all_shocks_and_losses_come_to);
    tcase_add_test(tc, alone_they_are_poisson_and_a_place_of_half_an_instance_is_a_mix);
    tcase_add_test(tc, neighbours_want_more_spares_than_the_same_losses_alone);
    return run_suite("serve_losses", tc);
}
