/* SPDX-License-Identifier: MIT */
/* Goal: jobs under a quota get the machines where these are worth most; what that costs in the end
 * is near what one who plans them together pays. Oracles: every choice of every job; a dynamic
 * program over two jobs at once. */
#include <math.h>
#include <string.h>

#include "common/rng.h"
#include "plan/decision.h"
#include "plan/market_quota.h"
#include "suite.h"

enum { JOBS = 4, PLACES = 3, CHOICES = 3 * PLACES };

struct drawn {
    double usd[JOBS][SPOT_MARKET_PLACES_MAX][3];
    struct spot_market_step alone[JOBS];
    int64_t quota[PLACES];
    size_t n;
};

static void draw(struct drawn *d, struct spot_rng *rng)
{
    d->n = 1 + spot_rng_below(rng, JOBS);
    for (size_t k = 0; k < PLACES; k++)
        d->quota[k] = (int64_t)spot_rng_below(rng, 4) - 1;
    for (size_t j = 0; j < d->n; j++) {
        double least = INFINITY;

        for (size_t i = 0; i < CHOICES; i++) {
            double *x = &d->usd[j][i / 3][i % 3];

            *x = i && spot_rng_below(rng, 4) == 0 ? INFINITY : 1 + (double)spot_rng_below(rng, 40);
            if (*x < least) {
                least = *x;
                d->alone[j] = (struct spot_market_step){ (enum spot_deadline_mode)(i % 3), i / 3 };
            }
        }
    }
}

/* The least sum of jobs j.. with what is left of the quotas. */
static double least_of(const struct drawn *d, size_t j, int64_t *left)
{
    double least = INFINITY;

    if (j == d->n)
        return 0;
    for (size_t i = 0; i < CHOICES; i++) {
        const size_t k = i / 3;
        const bool counts = i % 3 == SPOT_DEADLINE_SPOT && left[k] >= 0;

        if (isinf(d->usd[j][k][i % 3]) || (counts && !left[k]))
            continue;
        left[k] -= counts;
        least = fmin(least, d->usd[j][k][i % 3] + least_of(d, j + 1, left));
        left[k] += counts;
    }
    return least;
}

START_TEST(no_choice_of_the_jobs_costs_less)
{
    struct spot_rng rng;

    spot_rng_init(&rng, 5, 0);
    for (int i = 0; i < 400; i++) {
        struct drawn d;
        struct spot_market_step step[JOBS];
        int64_t left[PLACES], used[PLACES] = { 0 };
        double usd, worth[PLACES], sum = 0;
        struct spot_err err;

        draw(&d, &rng);
        memcpy(left, d.quota, sizeof(left));
        ck_assert_msg(
            !spot_market_divide(&(struct spot_market_quota){ d.n, PLACES, d.usd, d.alone, d.quota },
                                step, &usd, worth, &err),
            "%s", err.msg);
        for (size_t j = 0; j < d.n; j++) {
            sum += d.usd[j][step[j].place][step[j].mode];
            used[step[j].place] += step[j].mode == SPOT_DEADLINE_SPOT;
        }
        ck_assert_double_eq_tol(sum, usd, 1e-9);
        ck_assert_double_eq_tol(usd, least_of(&d, 0, left), 1e-5);
        for (size_t k = 0; k < PLACES; k++) {
            ck_assert(d.quota[k] < 0 || used[k] <= d.quota[k]);
            left[k] += left[k] >= 0;
            ck_assert_double_eq_tol(worth[k], usd - least_of(&d, 0, left), 1e-5);
            left[k] = d.quota[k];
        }
    }
}
END_TEST

/* A job of which nothing is safe but the machine it has keeps it, whatever others would save. */
START_TEST(a_job_that_could_be_late_goes_first)
{
    double usd[2][SPOT_MARKET_PLACES_MAX][3];
    const int64_t quota[] = { 1 };
    const struct spot_market_step alone[2] = { { SPOT_DEADLINE_SPOT, 0 },
                                               { SPOT_DEADLINE_SPOT, 0 } };
    struct spot_market_step step[2];
    struct spot_err err;
    double sum;

    for (int j = 0; j < 2; j++)
        for (int mode = 0; mode < 3; mode++)
            usd[j][0][mode] = j ? INFINITY : 1000 * (mode != SPOT_DEADLINE_SPOT);
    usd[1][0][SPOT_DEADLINE_SPOT] = 5;
    ck_assert(!spot_market_divide(&(struct spot_market_quota){ 2, 1, usd, alone, quota }, step,
                                  &sum, NULL, &err));
    ck_assert_int_eq(step[1].mode, SPOT_DEADLINE_SPOT);
    ck_assert_int_ne(step[0].mode, SPOT_DEADLINE_SPOT);
}
END_TEST

/* --- two jobs, one machine, to the end --- */

enum { TICKS = 8, WORK = 4, SOONER = 4 }; /* the second is due so much sooner */

struct pair {
    struct spot_market market; /* ticks of an hour, no restart, so that what runs is no state */
    struct spot_run_dist law;
    double end, begin;
    bool is_shared; /* by spot_market_divide; else the first job goes first */
};

static double price(const struct pair *p, int mode)
{
    return mode == SPOT_DEADLINE_SPOT        ? p->market.place[0].spot_usd_per_h
           : mode == SPOT_DEADLINE_ON_DEMAND ? p->market.place[0].on_demand_usd_per_h
                                             : 0;
}

static bool can(int mode, int ticks, int left, bool is_up)
{
    if (!left)
        return mode == SPOT_DEADLINE_IDLE;
    return (mode != SPOT_DEADLINE_SPOT || is_up) &&
           left - (mode != SPOT_DEADLINE_IDLE) <= ticks - 1;
}

static double optimum(const struct pair *p, int ticks, bool is_up, int first, int second);

static double later(const struct pair *p, int ticks, bool is_up, int first, int second,
                    double (*value)(const struct pair *, int, bool, int, int))
{
    const double up = is_up ? 1 - p->end : p->begin;

    return up * value(p, ticks, true, first, second) +
           (1 - up) * value(p, ticks, false, first, second);
}

static double optimum(const struct pair *p, int ticks, bool is_up, int first, int second)
{
    double least = INFINITY;

    if (!first && !second)
        return 0;
    for (int a = 0; a < 3; a++)
        for (int b = 0; b < 3; b++)
            if (!(a == SPOT_DEADLINE_SPOT && b == SPOT_DEADLINE_SPOT) &&
                can(a, ticks, first, is_up) && can(b, ticks - SOONER, second, is_up))
                least = fmin(least, price(p, a) + price(p, b) +
                                        later(p, ticks - 1, is_up, first - (a > 0),
                                              second - (b > 0), optimum));
    return least;
}

static void weigh(const struct pair *p, int ticks, int due, bool is_up, int left,
                  double usd[SPOT_MARKET_PLACES_MAX][3], struct spot_market_step *alone)
{
    struct spot_market market = p->market;
    const struct spot_deadline_rule rule = { .market = &market, .law = &p->law };
    const struct spot_market_now now = { .elapsed_s = 3600.0 * (TICKS - ticks),
                                         .left_s = 3600.0 * left,
                                         .is_new = true };
    struct spot_decider *d;
    struct spot_action action;
    struct spot_err err;

    market.deadline_s = 3600.0 * due;
    d = spot_policy_deadline.open(&(struct spot_rule){ .deadline = &rule });
    ck_assert(!spot_policy_deadline.observe(
        d, &(struct spot_seen){ .has_spot = &is_up, .now = &now }, &err));
    ck_assert(
        !spot_policy_deadline.decide(d, &action, &(struct spot_told){ .step_usd = usd }, &err));
    spot_policy_deadline.close(d);
    *alone = action.step;
    if (!is_up)
        usd[0][SPOT_DEADLINE_SPOT] = INFINITY;
}

static double followed(const struct pair *p, int ticks, bool is_up, int first, int second)
{
    static const int64_t quota[] = { 1 };
    double usd[2][SPOT_MARKET_PLACES_MAX][3], sum;
    struct spot_market_step alone[2] = { { 0, 0 } }, step[2] = { { 0, 0 } };
    const int left[2] = { first, second };
    struct spot_err err;

    if (!first && !second)
        return 0;
    for (int j = 0; j < 2; j++) {
        if (left[j])
            weigh(p, ticks, TICKS - j * SOONER, is_up, left[j], usd[j], &alone[j]);
        for (int mode = 0; !left[j] && mode < 3; mode++)
            usd[j][0][mode] = mode ? INFINITY : 0;
    }
    if (p->is_shared) {
        ck_assert(!spot_market_divide(&(struct spot_market_quota){ 2, 1, usd, alone, quota }, step,
                                      &sum, NULL, &err));
    } else {
        const int64_t none[] = { alone[0].mode == SPOT_DEADLINE_SPOT ? 0 : 1 };

        step[0] = alone[0];
        ck_assert(!spot_market_divide(&(struct spot_market_quota){ 1, 1, &usd[1], &alone[1], none },
                                      &step[1], &sum, NULL, &err));
    }
    for (int j = 0; j < 2; j++)
        ck_assert(can((int)step[j].mode, ticks - j * SOONER, left[j], is_up));
    return price(p, (int)step[0].mode) + price(p, (int)step[1].mode) +
           later(p, ticks - 1, is_up, first - (step[0].mode > 0), second - (step[1].mode > 0),
                 followed);
}

START_TEST(two_jobs_pay_little_more_than_planned_together)
{
    double ours = 0, best = 0, in_turn = 0;

    for (int i = 0; i < 6; i++) {
        struct pair p = { .market = { .work_s = 3600 * WORK,
                                      .deadline_s = 3600 * TICKS,
                                      .tick_s = 3600,
                                      .restart_prob = { 1 },
                                      .n_restart = 1,
                                      .n_place = 1 },
                          .end = 0.1 + 0.1 * i,
                          .begin = 0.7 - 0.1 * i,
                          .is_shared = true };
        double one;

        p.market.place[0] =
            (struct spot_market_place){ .spot_usd_per_h = 1, .on_demand_usd_per_h = 3, .speed = 1 };
        for (int stage = 0; stage < SPOT_RUN_STAGES; stage++) {
            p.law.end_prob[1][stage] = p.end;
            p.law.end_prob[0][stage] = p.begin;
        }
        best += optimum(&p, TICKS, true, WORK, WORK - 1);
        ours += one = followed(&p, TICKS, true, WORK, WORK - 1);
        ck_assert_double_ge(one, optimum(&p, TICKS, true, WORK, WORK - 1) - 1e-9);
        p.is_shared = false;
        in_turn += followed(&p, TICKS, true, WORK, WORK - 1);
    }
    ck_assert_double_le(ours, 1.02 * best);
    ck_assert_double_gt(in_turn, 1.02 * ours);
}
END_TEST

int main(void)
{
    return run_suite("market_quota", add_tests(tcase_create("market_quota")));
}
