/* SPDX-License-Identifier: MIT */
/* Goal: zones of one region and type are found, whatever their order and however their times lie,
 * and what they lose together is counted. Oracle: every pair, interval by interval. */
#include "forecast/regions.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/rng.h"
#include "forecast/shock.h"
#include "suite.h"

enum { ZONES = 7, N_MAX = 90 };

static char type[2][2] = { "a", "b" };
static char zones[ZONES][16] = { "us-east-1a", "eu-west-2b", "us-east-1b", "",
                                 "eu-west-2a", "us-east-1c", "us-east-1d" };

struct sample {
    struct spot_count_grid grid[ZONES];
    int lost[ZONES][N_MAX];
};

static void draw(struct sample *x, struct spot_rng *rng)
{
    for (size_t z = 0; z < ZONES; z++) {
        const size_t n = 2 + spot_rng_below(rng, N_MAX - 2);

        x->grid[z] = (struct spot_count_grid){ .zone = zones[z],
                                               .instance_type = z == 6 ? type[1] : type[0],
                                               .start_s = 60 * (double)spot_rng_below(rng, 40),
                                               .interval_s = 60,
                                               .n = n,
                                               .lost = x->lost[z] };
        for (size_t i = 0; i < n; i++)
            x->lost[z][i] = (int)spot_rng_below(rng, 3) - 1;
    }
}

/* Both lose, and would if each did on its own, over intervals that both have. */
static void count(const struct spot_count_grid *a, const struct spot_count_grid *b, double *both,
                  double *expected)
{
    double n = 0, n_a = 0, n_b = 0;

    for (size_t i = 1; i < a->n; i++)
        for (size_t j = 1; j < b->n; j++)
            if (a->start_s + 60 * (double)i == b->start_s + 60 * (double)j) {
                n++;
                n_a += a->lost[i] > 0;
                n_b += b->lost[j] > 0;
                *both += a->lost[i] > 0 && b->lost[j] > 0;
            }
    *expected += n > 0 ? n_a * n_b / n : 0;
}

static void check(const struct sample *x, const size_t *member, size_t n,
                  const struct spot_forecast_region *r)
{
    double both = 0, expected = 0;
    struct spot_shock shock;

    for (size_t a = 0; a < n; a++)
        for (size_t b = a + 1; b < n; b++)
            count(&x->grid[member[a]], &x->grid[member[b]], &both, &expected);
    shock = spot_shock_fit(both, expected);
    ck_assert_int_eq(r->zones, (int64_t)n);
    ck_assert_double_eq_tol(r->shock_prob, shock.prob, 1e-12);
    ck_assert_double_eq_tol(r->loss_lift, shock.lift, 1e-12);
    ck_assert_double_eq_tol(r->calm_lift, shock.calm, 1e-12);
}

START_TEST(regions_are_those_of_every_pair)
{
    static struct sample x;
    struct spot_rng rng;

    spot_rng_init(&rng, 8, 1);
    for (int turn = 0; turn < 100; turn++) {
        const struct spot_count_grids grids = { .grid = x.grid, .n = ZONES };
        struct spot_forecast_region *region;

        draw(&x, &rng);
        ck_assert_uint_eq(spot_regions_find(&grids, &region), 2);
        ck_assert_str_eq(region[0].region, "us-east-1");
        ck_assert_str_eq(region[1].region, "eu-west-2");
        check(&x, (const size_t[]){ 0, 2, 5 }, 3, &region[0]);
        check(&x, (const size_t[]){ 1, 4 }, 2, &region[1]);
        free(region);
    }
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("regions");

    tcase_add_test(tc, regions_are_those_of_every_pair);
    return run_suite("regions", tc);
}
