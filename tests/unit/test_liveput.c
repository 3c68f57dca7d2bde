/* SPDX-License-Identifier: MIT */
/* Goal: the survival distributions are exact. The oracle counts subsets of victims one by one in
 * integers on every grid of up to 13 instances; larger grids are held against sampling and against
 * published values. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/rng.h"
#include "plan/liveput.h"
#include "suite.h"

enum { N_MAX = 13 };

/* How many of the C(N, v) subsets have each outcome. */
struct count {
    int64_t all, hold[N_MAX + 2], intact[N_MAX + 1];
};

static void count_subset(const struct spot_liveput *g, unsigned victims, struct count *c)
{
    int least = g->d, intact = 0;

    for (int k = 0; k < g->p; k++) {
        int left = g->d;

        for (int j = 0; j < g->d; j++)
            left -= victims >> (j * g->p + k) & 1;
        least = left < least ? left : least;
    }
    for (int j = 0; j < g->d; j++)
        intact += !(victims >> (j * g->p) & ((1U << g->p) - 1));
    c->all++;
    for (int d = 0; d <= least; d++)
        c->hold[d]++;
    c->intact[intact]++;
}

/* prob * all must be that very integer. */
static void same(double prob, int64_t count, int64_t all, const struct spot_liveput *g,
                 const char *what, int i)
{
    ck_assert_msg(fabs(prob * (double)all - (double)count) <= 1e-9 * (double)(count + 1),
                  "%s[%d] of D=%d P=%d s=%d v=%d: %.17g * %lld, expected %lld", what, i, g->d, g->p,
                  g->s, g->v, prob, (long long)all, (long long)count);
}

/* The distribution of M, keep by keep. */
static void recoverable(const struct spot_liveput *g, double *pmf)
{
    double above = 0;

    for (int keep = g->d; keep >= 0; keep--) {
        const double hold = spot_liveput_hold(g, keep);

        pmf[keep] = hold > above ? hold - above : 0;
        above = hold;
    }
}

static void compare(const struct spot_liveput *g, const struct count *c)
{
    double pmf[N_MAX + 1];

    for (int d = 0; d <= g->d + 1; d++)
        same(spot_liveput_hold(g, d), c->hold[d], c->all, g, "hold", d);
    recoverable(g, pmf);
    for (int d = 0; d <= g->d; d++)
        same(pmf[d], c->hold[d] - c->hold[d + 1], c->all, g, "recoverable", d);
    spot_liveput_intact(g, pmf);
    for (int d = 0; d <= g->d; d++)
        same(pmf[d], c->intact[d], c->all, g, "intact", d);
}

START_TEST(agrees_with_enumeration_in_integers_on_every_grid_of_up_to_13)
{
    static struct count count[N_MAX + 1];
    int n_case = 0;

    for (int d = 1; d <= N_MAX; d++)
        for (int p = 1; d * p <= N_MAX; p++)
            for (int s = 0; d * p + s <= N_MAX; s++) {
                struct spot_liveput g = { d, p, s, 0 };
                const int n = d * p + s;

                memset(count, 0, sizeof(count));
                for (unsigned victims = 0; victims < 1U << n; victims++)
                    count_subset(&g, victims, &count[__builtin_popcount(victims)]);
                for (g.v = 0; g.v <= n; g.v++, n_case++)
                    compare(&g, &count[g.v]);
            }
    ck_assert_int_gt(n_case, 2000);
}
END_TEST

/* Random victims of a large grid; every distribution within five standard errors. */
static void sample(const struct spot_liveput *g, int n_draw)
{
    const int n = g->d * g->p + g->s;
    int hold[65] = { 0 }, order[512];
    struct spot_rng rng;

    spot_rng_init(&rng, 5, 0);
    for (int i = 0; i < n; i++)
        order[i] = i;
    for (int t = 0; t < n_draw; t++) {
        int left[64], least = g->d;

        for (int k = 0; k < g->p; k++)
            left[k] = g->d;
        for (int i = 0; i < g->v; i++) {
            const int j = i + (int)spot_rng_below(&rng, (uint64_t)(n - i)), x = order[j];

            order[j] = order[i];
            order[i] = x;
            if (x < g->d * g->p)
                left[x % g->p]--;
        }
        for (int k = 0; k < g->p; k++)
            least = left[k] < least ? left[k] : least;
        for (int d = 0; d <= least; d++)
            hold[d]++;
    }
    for (int d = 1; d <= g->d; d++) {
        const double p = spot_liveput_hold(g, d);

        ck_assert_double_le(fabs((double)hold[d] / n_draw - p),
                            5 * sqrt(p * (1 - p) / n_draw) + 1e-9);
    }
}

START_TEST(agrees_with_sampling_on_large_grids)
{
    static const struct spot_liveput big[] = {
        { 4, 8, 0, 4 }, { 2, 13, 6, 4 }, { 16, 2, 0, 6 }, { 8, 16, 12, 20 }, { 32, 8, 0, 60 },
    };

    for (size_t i = 0; i < sizeof(big) / sizeof(*big); i++)
        sample(&big[i], 20000);
}
END_TEST

/* parcae.md section 7.2: E[K] and E[M], printed to three places. */
START_TEST(gives_the_published_values)
{
    static const struct {
        struct spot_liveput g;
        double intact, recoverable;
    } known[] = {
        { { 4, 8, 0, 1 }, 3, 3 },         { { 4, 8, 0, 2 }, 2.226, 2.903 },
        { { 4, 8, 0, 4 }, 1.182, 2.473 }, { { 4, 8, 0, 6 }, .594, 2.005 },
        { { 2, 13, 6, 2 }, .690, 1.004 }, { { 2, 13, 6, 4 }, .216, .845 },
        { { 2, 13, 0, 4 }, .096, .765 },
    };

    for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++) {
        const struct spot_liveput *g = &known[i].g;
        double pmf[65], k = 0, m = 0;

        spot_liveput_intact(g, pmf);
        for (int d = 0; d <= g->d; d++)
            k += d * pmf[d];
        recoverable(g, pmf);
        for (int d = 0; d <= g->d; d++)
            m += d * pmf[d];
        ck_assert_double_le(fabs(k - known[i].intact), 6e-4);
        ck_assert_double_le(fabs(m - known[i].recoverable), 6e-4);
    }
}
END_TEST

START_TEST(stays_a_distribution_for_a_thousand_instances)
{
    static const struct spot_liveput huge[] = {
        { 32, 32, 0, 512 }, { 64, 16, 0, 1023 }, { 100, 10, 24, 7 }, { 1024, 1, 0, 300 }
    };
    double pmf[1025];

    for (size_t i = 0; i < sizeof(huge) / sizeof(*huge); i++) {
        const struct spot_liveput *g = &huge[i];
        double sum = 0;

        recoverable(g, pmf);
        for (int d = 0; d <= g->d; d++) {
            ck_assert(pmf[d] >= 0);
            sum += pmf[d];
        }
        ck_assert_double_le(fabs(sum - 1), 1e-9);
    }
}
END_TEST

/* Second method: one number of victims at a time, each under its own rate. */
START_TEST(many_numbers_of_victims_are_what_each_is_alone)
{
    struct spot_rng rng;

    spot_rng_init(&rng, 11, 0);
    for (int t = 0; t < 60; t++) {
        const int scale = t % 3 == 0 ? 1500 : 60; /* one rate does not serve 1,500 instances */
        const int p = 1 + (int)spot_rng_below(&rng, 8);
        const int d = 1 + (int)spot_rng_below(&rng, (uint64_t)(scale / p));
        const struct spot_liveput g = { d, p, (int)spot_rng_below(&rng, 20), 0 };
        const int n = d * p + g.s, keep = (int)spot_rng_below(&rng, (uint64_t)d + 2);
        int victims[64], n_v = 0;
        double hold[64];

        for (int v = (int)spot_rng_below(&rng, 3); v <= n && n_v < 64;
             v += 1 + (int)spot_rng_below(&rng, (uint64_t)(n / 32 + 1)))
            victims[n_v++] = v;
        spot_liveput_hold_many(&g, keep, victims, n_v, hold);
        for (int i = 0; i < n_v; i++) {
            const double want =
                spot_liveput_hold(&(struct spot_liveput){ d, p, g.s, victims[i] }, keep);

            ck_assert_double_le(fabs(hold[i] - want), 1e-10 * want + 1e-13);
        }
    }
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("laws");

    tcase_set_timeout(tc, 300);
    add_tests(tc);
    return run_case("liveput", tc);
}
