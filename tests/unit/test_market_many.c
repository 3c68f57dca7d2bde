/* SPDX-License-Identifier: MIT */
/* Goal: with many places each step is weighed as the model says, ours goes on when the cheapest
 * leaves, and names and prices as such do not count. Oracle: every history of the model written out
 * again, without tables. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/rng.h"
#include "plan/decision.h"
#include "sim/deadline_sim.h"
#include "suite.h"

enum { PLACES = 5, NONE = PLACES, ON_DEMAND = PLACES + 1 };

/* Work in ticks; places are ranked by price. */
struct model {
    double usd[PLACES + 1], end[PLACES], share[PLACES + 1], better; /* usd of a tick */
};

static double value(const struct model *m, int steps, int runs, int cheapest, int left);

/* runs: 0 nowhere, 1 + rank, ON_DEMAND. Of what runs and the cheapest now, a tick later. */
static double drawn(const struct model *m, int steps, int runs, int worst, int left)
{
    double sum = 0;

    for (int j = 0; j <= PLACES; j++)
        sum += m->share[j] * value(m, steps, runs, j < worst ? j : worst, left);
    return sum;
}

static double later(const struct model *m, int steps, int runs, int cheapest, int left)
{
    const bool is_spot = runs && runs <= PLACES;
    const int worst = is_spot ? runs - 1 : NONE;
    const double ends = is_spot ? m->end[worst] : 0;
    const double gone = cheapest < NONE && cheapest != worst ? m->end[cheapest] : 0;
    double still, goes_on;

    if (left <= 0)
        return 0;
    still = m->better * drawn(m, steps, runs, cheapest, left) +
            (1 - m->better) * value(m, steps, runs, cheapest, left);
    /* of a known law nothing becomes better by a loss */
    goes_on = still + gone * fmax(0, drawn(m, steps, runs, worst, left) - still);
    return goes_on + ends * fmax(0, drawn(m, steps, 0, NONE, left) - goes_on);
}

static double value(const struct model *m, int steps, int runs, int cheapest, int left)
{
    double best;

    if (left <= 0)
        return 0;
    if (left > steps || !steps)
        return left * m->usd[PLACES];
    best = fmin(later(m, steps - 1, 0, cheapest, left),
                m->usd[PLACES] + later(m, steps - 1, ON_DEMAND, cheapest, left - 1));
    if (runs && runs <= PLACES)
        best = fmin(best, m->usd[runs - 1] + later(m, steps - 1, runs, cheapest, left - 1));
    if (cheapest < NONE)
        best = fmin(best, m->usd[cheapest] + later(m, steps - 1, cheapest + 1, cheapest, left - 1));
    return best;
}

static struct spot_market draw_market(uint64_t seed, double deadline_s)
{
    struct spot_market m = { .work_s = 300,
                             .deadline_s = deadline_s,
                             .tick_s = 100,
                             .restart_prob = { 1 },
                             .n_restart = 1,
                             .n_place = PLACES };
    struct spot_rng rng;

    spot_rng_init(&rng, seed, 1);
    for (size_t k = 0; k < PLACES; k++)
        m.place[k] = (struct spot_market_place){ .spot_usd_per_h = 0.5 + 2 * spot_rng_unit(&rng),
                                                 .on_demand_usd_per_h = 3,
                                                 .speed = 1,
                                                 .region = (int)k };
    return m;
}

static void rank(const struct spot_market *m, size_t place[PLACES])
{
    for (size_t k = 0; k < PLACES; k++) {
        size_t j = 0;

        for (size_t i = 0; i < PLACES; i++)
            j += m->place[i].spot_usd_per_h < m->place[k].spot_usd_per_h;
        place[j] = k;
    }
}

START_TEST(each_step_is_weighed_as_every_history_says)
{
    for (uint64_t seed = 0; seed < 12; seed++) {
        const struct spot_market market = draw_market(seed, 500);
        struct spot_run_dist law[PLACES];
        const struct spot_deadline_rule rule = { .market = &market, .law = law };
        const struct spot_market_now now = { .left_s = 300, .is_new = true };
        const bool there[PLACES] = { seed & 1, seed & 2, seed & 4, seed & 8 };
        double step_usd[SPOT_MARKET_PLACES_MAX][3], none = 1;
        struct model model = { .better = 1 - exp(-100.0 / 3600 / 6) };
        struct spot_decider *d;
        struct spot_action action;
        struct spot_err err;
        size_t place[PLACES];
        int cheapest = NONE;

        rank(&market, place);
        for (int j = PLACES - 1; j >= 0; j--)
            cheapest = there[place[j]] ? j : cheapest;
        for (int j = 0; j < PLACES; j++) {
            const double begins = 0.1 + 0.1 * j, ends = 0.3 - 0.05 * j;

            for (int i = 0; i < SPOT_RUN_STAGES; i++) {
                law[place[j]].end_prob[0][i] = begins;
                law[place[j]].end_prob[1][i] = ends;
            }
            model.usd[j] = market.place[place[j]].spot_usd_per_h / 36;
            model.end[j] = ends;
            model.share[j] = none * begins / (begins + ends);
            none -= model.share[j];
        }
        model.usd[PLACES] = 3.0 / 36;
        model.share[PLACES] = none;
        d = spot_policy_deadline.open(&(struct spot_rule){ .deadline = &rule });
        ck_assert(!spot_policy_deadline.observe(
            d, &(struct spot_seen){ .has_spot = there, .now = &now }, &err));
        ck_assert(!spot_policy_deadline.decide(d, &action,
                                               &(struct spot_told){ .step_usd = step_usd }, &err));
        for (int j = 0; j < PLACES; j++)
            if (there[place[j]])
                ck_assert_double_eq_tol(
                    step_usd[place[j]][SPOT_DEADLINE_SPOT],
                    model.usd[j] + later(&model, 4, j + 1, cheapest < j ? cheapest : j, 2), 1e-9);
        ck_assert_double_eq_tol(step_usd[0][SPOT_DEADLINE_ON_DEMAND],
                                model.usd[PLACES] + later(&model, 4, ON_DEMAND, cheapest, 2), 1e-9);
        ck_assert_double_eq_tol(step_usd[0][SPOT_DEADLINE_IDLE], later(&model, 4, 0, cheapest, 3),
                                1e-9);
        spot_policy_deadline.close(d);
    }
}
END_TEST

enum { N = 240 };

static double pay(const struct spot_market *m, const uint8_t *up, struct spot_deadline_tick *tick)
{
    const struct spot_deadline_play play = {
        .market = *m, .has_spot = up, .n = N, .learn_ticks = 20
    };
    struct spot_deadline_result r;
    struct spot_err err;

    ck_assert_msg(!spot_deadline_play_run(&play, &spot_deadline_policies[1], &r, tick, &err), "%s",
                  err.msg);
    ck_assert(!r.is_late);
    return r.usd;
}

/* Places in another order, and prices twice as high: the same steps there, at the same and at
 * twice the cost. */
START_TEST(places_and_prices_by_another_name_are_the_same)
{
    for (uint64_t seed = 0; seed < 6; seed++) {
        struct spot_market m = draw_market(seed, 20000), other;
        uint8_t up[N * PLACES], turned[N * PLACES];
        struct spot_deadline_tick tick[N] = { 0 }, again[N] = { 0 }, dear[N] = { 0 };
        struct spot_rng rng;
        double usd;

        m.work_s = 12000;
        m.restart_s[0] = 150;
        spot_rng_init(&rng, seed, 2);
        for (size_t i = 0; i < sizeof(up); i++)
            up[i] =
                i >= PLACES && spot_rng_below(&rng, 9) ? up[i - PLACES] : spot_rng_below(&rng, 2);
        usd = pay(&m, up, tick);
        other = m;
        for (size_t k = 0; k < PLACES; k++) {
            other.place[k] = m.place[(k + 1) % PLACES];
            for (size_t i = 0; i < N; i++)
                turned[i * PLACES + k] = up[i * PLACES + (k + 1) % PLACES];
        }
        ck_assert_double_eq_tol(pay(&other, turned, again), usd, 1e-9);
        for (size_t k = 0; k < PLACES; k++) {
            m.place[k].spot_usd_per_h *= 2;
            m.place[k].on_demand_usd_per_h *= 2;
        }
        ck_assert_double_eq_tol(pay(&m, up, dear), 2 * usd, 1e-9);
        for (size_t i = 0; i < N; i++) {
            ck_assert_int_eq(tick[i].step.mode, again[i].step.mode);
            ck_assert_int_eq(tick[i].step.mode, dear[i].step.mode);
            ck_assert_uint_eq(tick[i].step.place, dear[i].step.place);
            if (tick[i].step.mode == SPOT_DEADLINE_SPOT)
                ck_assert_uint_eq((again[i].step.place + 1) % PLACES, tick[i].step.place);
        }
    }
}
END_TEST

/* Spot comes and goes with every tick, and a launch takes 58 of them. */
START_TEST(a_run_that_never_lasts_a_launch_has_a_price)
{
    struct spot_market m = draw_market(1, 60000);
    const struct spot_deadline_rule rule = { .market = &m };
    double step_usd[SPOT_MARKET_PLACES_MAX][3];
    struct spot_decider *d;
    struct spot_action action;
    struct spot_err err;

    m.work_s = 20000;
    m.restart_s[0] = 5800;
    d = spot_policy_deadline.open(&(struct spot_rule){ .deadline = &rule });
    for (int i = 0; i <= 1000; i++) {
        const bool up = i % 2 == 0;
        const bool there[SPOT_MARKET_PLACES_MAX] = { up, up, up, up, up };
        const struct spot_market_now now = { .left_s = 20000, .is_new = true };

        ck_assert(!spot_policy_deadline.observe(
            d,
            &(struct spot_seen){
                .time_s = 100.0 * i, .has_spot = there, .now = i == 1000 ? &now : NULL },
            &err));
    }
    ck_assert(!spot_policy_deadline.decide(d, &action, &(struct spot_told){ .step_usd = step_usd },
                                           &err));
    for (int k = 0; k < PLACES; k++)
        ck_assert(isfinite(step_usd[k][SPOT_DEADLINE_SPOT]));
    spot_policy_deadline.close(d);
}
END_TEST

int main(void)
{
    return run_suite("market_many", add_tests(tcase_create("market_many")));
}
