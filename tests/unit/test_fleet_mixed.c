/* SPDX-License-Identifier: MIT */
/* Goal: fleets of several types are held to what the whole trace known would cost, and that bound
 * is one. Oracles: the omniscient linear program itself by lp.h; a newsvendor by hand; every whole
 * fleet of small traces; a router by hand; traces that are equal up to some tick. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/rng.h"
#include "common/xalloc.h"
#include "plan/fleet_route.h"
#include "plan/lp.h"
#include "sim/fleet_mixed.h"
#include "sim/fleet_season.h"
#include "suite.h"

enum { TICKS = 16, SPOTS = 2, OFFERS = 4, TYPES = 2, BUCKETS = 2 };

static const char *const type_name[TYPES] = { "small", "large" };
static const struct spot_mixed_offer offer[OFFERS] = {
    { "z1", 0, 0.3 }, { "z2", 1, 0.8 }, { NULL, 0, 1.1 }, { NULL, 1, 2.7 }
};
static const double per_s[BUCKETS * TYPES] = { 1, 3, 0, 1 }; /* small cannot answer the second */
static int32_t count[TICKS * SPOTS];
static double load[TICKS * BUCKETS];

static struct spot_mixed_play play_of(uint64_t seed, size_t n_tick, size_t cold, int32_t most)
{
    struct spot_rng rng;

    spot_rng_init(&rng, seed, 0);
    for (size_t i = 0; i < n_tick * SPOTS; i++)
        count[i] = (int32_t)(spot_rng_unit(&rng) * (most + 1));
    for (size_t i = 0; i < n_tick * BUCKETS; i++)
        load[i] = floor(20 * spot_rng_unit(&rng)) / (i % BUCKETS ? 16 : 8);
    return (struct spot_mixed_play){ .n_type = TYPES,
                                     .n_bucket = BUCKETS,
                                     .n_offer = OFFERS,
                                     .n_spot = SPOTS,
                                     .n_tick = n_tick,
                                     .type = type_name,
                                     .offer = offer,
                                     .count = count,
                                     .per_s = per_s,
                                     .load_per_s = load,
                                     .seen_per_s = load,
                                     .tick_s = 100,
                                     .cold = cold,
                                     .unserved = 0.05,
                                     .rho = 0.9,
                                     .up_s = 300,
                                     .down_s = 1200 };
}

static double requests(const struct spot_mixed_play *play)
{
    double sum = 0;

    for (size_t i = 0; i < play->n_tick * play->n_bucket; i++)
        sum += play->load_per_s[i] * play->tick_s;
    return sum;
}

/* --- the linear program, as it is written --- */

static size_t held_at(size_t t, size_t k)
{
    return t * OFFERS + k;
}
static size_t ready_at(size_t t, size_t k)
{
    return (TICKS + t) * OFFERS + k;
}
static size_t on_at(size_t t, size_t b, size_t g)
{
    return 2 * TICKS * OFFERS + (t * BUCKETS + b) * (TYPES + 1) + g; /* g == TYPES: unserved */
}

static void add_tick(struct spot_lp *lp, const struct spot_mixed_play *play, size_t t)
{
    for (size_t k = 0; k < OFFERS; k++) {
        spot_lp_cost(lp, held_at(t, k), offer[k].usd_per_h * play->tick_s / 3600);
        spot_lp_range(lp, held_at(t, k), 0, k < SPOTS ? count[t * SPOTS + k] : 1e3);
        spot_lp_range(lp, ready_at(t, k), 0, t < play->cold ? 0 : 1e3);
        for (size_t s = t < play->cold ? 0 : t - play->cold; s <= t; s++)
            spot_lp_row(lp, (size_t[]){ ready_at(t, k), held_at(s, k) }, (double[]){ 1, -1 }, 2,
                        SPOT_LP_AT_MOST, 0);
    }
    for (size_t b = 0; b < BUCKETS; b++)
        spot_lp_row(lp, (size_t[]){ on_at(t, b, 0), on_at(t, b, 1), on_at(t, b, TYPES) },
                    (double[]){ per_s[b * TYPES] > 0, 1, 1 }, 3, SPOT_LP_EQUAL,
                    load[t * BUCKETS + b]);
    spot_lp_range(lp, on_at(t, 1, 0), 0, 0);
    for (size_t g = 0; g < TYPES; g++)
        spot_lp_row(
            lp,
            (size_t[]){ on_at(t, 0, g), on_at(t, 1, g), ready_at(t, g), ready_at(t, SPOTS + g) },
            (double[]){ 1 / per_s[g], g ? 1 / per_s[TYPES + g] : 0, -1, -1 }, 4, SPOT_LP_AT_MOST,
            0);
}

static double program(const struct spot_mixed_play *play, double left)
{
    struct spot_lp *lp = spot_lp_new(on_at(TICKS, 0, 0));
    size_t column[TICKS * BUCKETS], n = 0;
    double value[TICKS * BUCKETS], usd = -1;

    for (size_t t = 0; t < play->n_tick; t++) {
        add_tick(lp, play, t);
        for (size_t b = 0; b < BUCKETS; b++, n++) {
            column[n] = on_at(t, b, TYPES);
            value[n] = play->tick_s;
        }
    }
    spot_lp_row(lp, column, value, n, SPOT_LP_AT_MOST, left);
    if (spot_lp_solve(lp, 0, 0) == SPOT_LP_OPTIMAL)
        usd = spot_lp_objective(lp);
    spot_lp_free(lp);
    return usd;
}

START_TEST(the_bound_is_the_omniscient_program)
{
    size_t n = 0;
    double sum = 0;

    for (uint64_t seed = 1; seed <= 12; seed++) {
        const struct spot_mixed_play play = play_of(seed, TICKS, seed % 4, 3);
        struct spot_mixed_bound *bound;

        bound = spot_mixed_bound_new(&play, NULL);
        for (double share = 0.05; share < 0.8; share *= 2) {
            const double left = share * requests(&play), usd = program(&play, left);

            if (usd < 0)
                continue; /* the cold start alone loses more */
            n++;
            spot_mixed_bound_climb(bound, left);
            ck_assert_double_le(spot_mixed_bound_at(bound, left), usd * (1 + 1e-7));
            ck_assert_double_ge(spot_mixed_bound_at(bound, left), usd * 0.97 - 1e-9);
            sum += spot_mixed_bound_at(bound, left) / usd;
        }
        spot_mixed_bound_free(bound);
    }
    ck_assert_uint_ge(n, 24);
    ck_assert_double_ge(sum / (double)n, 0.995);
}
END_TEST

/* --- the distribution of a load --- */

/* One type on demand and a load of 1, or 3 with a chance of .25: for (3 - C) / 4 of each tick left,
 * C machines from 1 to 3 are the least. */
START_TEST(with_its_distribution_alone_a_load_costs_what_a_newsvendor_pays)
{
    static const struct spot_mixed_offer one = { NULL, 0, 3.6 };
    double weight[2 * TICKS], loads[2 * TICKS], mean[TICKS];
    const struct spot_mixed_dist dist = { 2, weight, loads };
    struct spot_mixed_play play = play_of(1, TICKS, 0, 1);
    struct spot_mixed_bound *bound;

    play.n_type = play.n_bucket = play.n_offer = 1;
    play.n_spot = 0;
    play.offer = &one;
    play.load_per_s = mean;
    for (size_t t = 0; t < TICKS; t++) {
        weight[2 * t] = 0.75;
        weight[2 * t + 1] = 0.25;
        loads[2 * t] = 1;
        loads[2 * t + 1] = 3;
        mean[t] = 1.5;
    }
    bound = spot_mixed_bound_new(&play, &dist);
    for (double machines = 1.25; machines < 3; machines += 0.5) {
        const double left = TICKS * play.tick_s * 0.25 * (3 - machines);
        const double usd = TICKS * machines * 3.6 * play.tick_s / 3600;

        spot_mixed_bound_climb(bound, left);
        ck_assert_double_le(spot_mixed_bound_at(bound, left), usd * (1 + 1e-9));
        ck_assert_double_ge(spot_mixed_bound_at(bound, left), usd * 0.998);
    }
    spot_mixed_bound_free(bound);
}
END_TEST

START_TEST(a_distribution_is_of_the_ticks_that_follow_a_load_like_it)
{
    enum { N = 403 };
    double *loads = spot_xcalloc(N * BUCKETS, sizeof(*loads)), came = 0, told = 0;
    struct spot_mixed_play play = play_of(1, TICKS, 1, 1);
    struct spot_mixed_dist dist;

    play.n_tick = N;
    play.load_per_s = loads;
    for (size_t t = 0; t < N; t++) { /* 1, 5, 2, again: two ticks before say all */
        loads[t * BUCKETS] = t % 3 == 0 ? 1 : t % 3 == 1 ? 5 : 2;
        came += loads[t * BUCKETS];
    }
    spot_mixed_dist_init(&play, &dist);
    for (size_t t = 0; t < N; t++) {
        double sum = 0;

        for (size_t i = 0; i < dist.n; i++) {
            const double comes = dist.per_s[(t * dist.n + i) * BUCKETS];

            sum += dist.weight[t * dist.n + i];
            told += dist.weight[t * dist.n + i] * comes;
            if (t > 1 && dist.weight[t * dist.n + i] > 0.03) /* beside the first two */
                ck_assert_double_eq_tol(comes, loads[t * BUCKETS], 0.15);
        }
        ck_assert_double_eq_tol(sum, 1, 1e-12);
    }
    ck_assert_double_eq_tol(told, came, 1e-9 * came);
    spot_mixed_dist_release(&dist);
    free(loads);
}
END_TEST

/* --- whole fleets --- */

enum { FEW = 4 };

enum { WAYS = 1 << OFFERS }; /* one machine of each offer, or none */

/* What is left of a tick where these answer. */
static void leave_all(const struct spot_mixed_play *play, double left[FEW][WAYS])
{
    struct spot_fleet_route *route = spot_fleet_route_new(per_s, BUCKETS, TYPES);

    for (size_t t = 0; t < FEW; t++)
        for (size_t mask = 0; mask < WAYS; mask++) {
            double capacity[TYPES] = { 0 };

            for (size_t k = 0; k < OFFERS; k++)
                capacity[offer[k].type] += mask >> k & 1;
            left[t][mask] =
                play->tick_s * spot_fleet_route_left(route, load + t * BUCKETS, capacity);
        }
    spot_fleet_route_free(route);
}

/* Every fleet over the ticks. Returns how many there are. */
static size_t try_all(const struct spot_mixed_play *play, const struct spot_mixed_bound *bound)
{
    double left_of[FEW][WAYS];
    size_t n = 0;

    leave_all(play, left_of);
    for (size_t code = 0; code < (size_t)WAYS * WAYS * WAYS * WAYS; code++) {
        double usd = 0, left = 0;
        bool is_there = true;

        for (size_t t = 0; t < FEW; t++) {
            const size_t held = code >> OFFERS * t & (WAYS - 1);
            size_t answers = t < play->cold ? 0 : held;

            for (size_t back = 1; answers && back <= play->cold; back++)
                answers &= code >> OFFERS * (t - back);
            for (size_t k = 0; k < OFFERS; k++) {
                usd += (double)(held >> k & 1) * offer[k].usd_per_h * play->tick_s / 3600;
                is_there = is_there && (!(held >> k & 1) || k >= SPOTS || count[t * SPOTS + k]);
            }
            left += left_of[t][answers];
        }
        if (!is_there)
            continue;
        ck_assert_double_ge(usd, spot_mixed_bound_at(bound, left) - 1e-9);
        n++;
    }
    return n;
}

START_TEST(no_whole_fleet_is_below_the_bound)
{
    for (size_t cold = 0; cold < 4; cold++) {
        const struct spot_mixed_play play = play_of(40 + cold, FEW, cold, 1);
        struct spot_mixed_bound *bound;

        bound = spot_mixed_bound_new(&play, NULL);
        for (double share = 0.05; share < 1; share += 0.1)
            spot_mixed_bound_climb(bound, share * requests(&play));
        ck_assert_uint_ge(try_all(&play, bound), 256); /* on demand alone has as many */
        spot_mixed_bound_free(bound);
    }
}
END_TEST

START_TEST(a_router_leaves_what_it_must)
{
    struct spot_fleet_route *route = spot_fleet_route_new(per_s, BUCKETS, TYPES);
    struct spot_rng rng;

    /* the large one is short of 1/6 of a machine: 1/6 of the second size, or 1/2 of the first */
    ck_assert_double_eq_tol(spot_fleet_route_left(route, (double[]){ 4, 0.5 }, (double[]){ 2, 1 }),
                            1.0 / 6, 1e-9);
    ck_assert(spot_fleet_route_left(route, (double[]){ 3.5, 0.5 }, (double[]){ 2, 1 }) == 0);
    ck_assert_double_eq_tol(spot_fleet_route_left(route, (double[]){ 0, 2 }, (double[]){ 9, 0 }), 2,
                            1e-9);
    spot_rng_init(&rng, 3, 0);
    for (int i = 0; i < 2000; i++) {
        const double l[] = { 9 * spot_rng_unit(&rng), 5 * spot_rng_unit(&rng) };
        const double c[] = { floor(6 * spot_rng_unit(&rng)), floor(4 * spot_rng_unit(&rng)) };
        const double before = spot_fleet_route_below(route, l, c);
        const double left = spot_fleet_route_left(route, l, c);

        ck_assert_double_le(before, left + 1e-9);
        ck_assert_double_eq_tol(spot_fleet_route_below(route, l, c), left, 1e-7);
    }
    spot_fleet_route_free(route);
}
END_TEST

/* --- policies --- */

enum { LONG = 400 };

static struct spot_mixed_play long_play(int32_t *counts, double *loads, uint64_t seed)
{
    struct spot_mixed_play play = play_of(1, TICKS, 1, 3);
    struct spot_rng rng;

    spot_rng_init(&rng, seed, 0);
    for (size_t t = 0; t < LONG; t++) {
        for (size_t k = 0; k < SPOTS; k++) /* runs of about 25 ticks */
            counts[t * SPOTS + k] = t && spot_rng_unit(&rng) > 0.04
                                        ? counts[(t - 1) * SPOTS + k]
                                        : (int32_t)(4 * spot_rng_unit(&rng));
        loads[t * BUCKETS] = t % 7 < 2 ? 6 : 3;
        loads[t * BUCKETS + 1] = 1.5;
    }
    play.n_tick = LONG;
    play.count = counts;
    play.load_per_s = play.seen_per_s = loads;
    return play;
}

START_TEST(ours_comes_to_its_aim_near_the_bound_and_below_all_on_demand)
{
    int32_t *counts = spot_xcalloc(LONG * SPOTS, sizeof(*counts));
    double *loads = spot_xcalloc(LONG * BUCKETS, sizeof(*loads));
    struct spot_mixed_play play = long_play(counts, loads, 5);
    struct spot_mixed_run ours, bought, peak;
    struct spot_mixed_bound *bound;
    struct spot_err err;

    spot_mixed_init(&play, &ours);
    spot_mixed_init(&play, &bought);
    spot_mixed_init(&play, &peak);
    ck_assert_int_eq(spot_mixed_spot(&play, &ours, NULL), 0);
    ck_assert_msg(!spot_mixed_on_demand(&play, false, &bought, &err), "%s", err.msg);
    ck_assert_msg(!spot_mixed_on_demand(&play, true, &peak, &err), "%s", err.msg);
    bound = spot_mixed_bound_new(&play, NULL);
    spot_mixed_bound_climb(bound, ours.unserved_share * requests(&play));
    ck_assert_double_le(ours.unserved_share, 1.2 * play.unserved);
    ck_assert_double_ge(ours.unserved_share, 0.3 * play.unserved);
    ck_assert_double_le(ours.total_usd, 0.9 * bought.total_usd);
    ck_assert_double_le(ours.total_usd, 0.9 * peak.total_usd);
    /* whole machines where the program divides them */
    ck_assert_double_le(ours.total_usd,
                        1.4 * spot_mixed_bound_at(bound, ours.unserved_share * requests(&play)));
    ck_assert_double_le(peak.unserved_share, 1.5 / LONG); /* the first tick is cold, and high */
    spot_mixed_bound_free(bound);
    spot_mixed_release(&ours);
    spot_mixed_release(&bought);
    spot_mixed_release(&peak);
    free(counts);
    free(loads);
}
END_TEST

START_TEST(a_choice_does_not_depend_on_what_comes)
{
    int32_t *counts = spot_xcalloc(2 * LONG * SPOTS, sizeof(*counts));
    double *loads = spot_xcalloc(2 * LONG * BUCKETS, sizeof(*loads));
    struct spot_mixed_play play = long_play(counts, loads, 7),
                           other = long_play(counts + LONG * SPOTS, loads + LONG * BUCKETS, 8);
    const size_t same = 250;
    struct spot_mixed_run a, b;

    play.n_tick = other.n_tick = 350;
    memcpy(counts + LONG * SPOTS, counts, same * SPOTS * sizeof(*counts));
    for (size_t t = same; t < LONG; t++)
        loads[(LONG + t) * BUCKETS] = 9;
    spot_mixed_init(&play, &a);
    spot_mixed_init(&other, &b);
    ck_assert_int_eq(spot_mixed_spot(&play, &a, NULL), 0);
    ck_assert_int_eq(spot_mixed_spot(&other, &b, NULL), 0);
    ck_assert_mem_eq(a.held, b.held, same * OFFERS * sizeof(*a.held));
    ck_assert(memcmp(a.held, b.held, 350 * OFFERS * sizeof(*a.held)) != 0);
    spot_mixed_release(&a);
    spot_mixed_release(&b);
    free(counts);
    free(loads);
}
END_TEST

START_TEST(a_fleet_beyond_what_the_policy_weighs_is_refused)
{
    /* 4000 are there and 1200, 1023 are needed; with none on spot all on demand */
    static const struct {
        double need;
        int32_t there;
        int rc;
    } of[] = { { 1200, 4000, -1 }, { 800, 4000, 0 }, { 1200, 0, -1 }, { 880, 0, 0 } };

    for (size_t i = 0; i < sizeof(of) / sizeof(of[0]); i++) {
        struct spot_mixed_play play = play_of(1, 3, 0, 0);
        struct spot_err err = { 0 };
        struct spot_mixed_run run;

        play.n_offer = 3; /* the large one cannot be had on demand */
        for (size_t t = 0; t < play.n_tick; t++) {
            count[t * SPOTS] = of[i].there;
            count[t * SPOTS + 1] = 0;
            load[t * BUCKETS] = of[i].need;
            load[t * BUCKETS + 1] = 0;
        }
        spot_mixed_init(&play, &run);
        ck_assert_int_eq(spot_mixed_spot(&play, &run, &err), of[i].rc);
        if (of[i].rc) {
            ck_assert_int_eq(err.code, SPOT_EINFEASIBLE);
            ck_assert_ptr_nonnull(strstr(err.msg, of[i].there ? "'small' in z1" : "on demand"));
        } else {
            ck_assert_int_ge(run.held[(play.n_tick - 1) * 3 + (of[i].there ? 0 : 2)], 760);
        }
        spot_mixed_release(&run);
    }
}
END_TEST

START_TEST(a_load_that_repeats_is_told_and_one_that_does_not_is_spread)
{
    struct spot_fleet_season *season = spot_fleet_season_new(1, 29);
    double told[SPOT_FLEET_LOADS], weight[SPOT_FLEET_LOADS], mean = 0, sum = 0;
    struct spot_rng rng;
    size_t n;

    for (size_t t = 0; t < 300; t++)
        spot_fleet_season_step(season, &(double){ t % 13 < 4 ? 8 : 2 });
    for (size_t ahead = 1; ahead < 30; ahead++) {
        n = spot_fleet_season_next(season, ahead, told, weight);
        for (size_t i = 0; i < n; i++)
            ck_assert_double_eq(told[i], (299 + ahead) % 13 < 4 ? 8 : 2);
    }
    spot_fleet_season_free(season);
    season = spot_fleet_season_new(1, 1);
    spot_rng_init(&rng, 2, 0);
    for (size_t t = 0; t < 300; t++)
        spot_fleet_season_step(season, &(double){ 10 + 4 * spot_rng_unit(&rng) });
    n = spot_fleet_season_next(season, 1, told, weight);
    for (size_t i = 0; i < n; i++) {
        mean += weight[i] * told[i];
        sum += weight[i];
    }
    ck_assert_double_eq_tol(sum, 1, 1e-12);
    ck_assert_double_ge(mean, 8);
    ck_assert_double_le(mean, 16);
    ck_assert_double_ge(told[n - 1] - told[0], 2.5); /* 3.2 of all, were as few not like the last */
    spot_fleet_season_free(season);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("fleet_mixed");

    tcase_set_timeout(tc, SUITE_TIMEOUT_S);
    add_tests(tc);
    return run_suite("fleet_mixed", tc);
}
