/* SPDX-License-Identifier: MIT */
/* Goal: places are asked in the order of least cost, and a place that is no better than another in
 * price, in granting and in staying is never asked before it, nor left for it. Oracles: every order
 * of every subset, every answer; dominance, which needs no number. */
#include <math.h>
#include <string.h>

#include "common/rng.h"
#include "plan/ask_order.h"
#include "plan/decision.h"
#include "suite.h"

enum { MOST = 6 };

/* --- costs that do not depend on the other places: Weitzman's problem --- */

struct fixed {
    double usd[5], else_usd;
    size_t n;
};

static void weigh_fixed(const void *market, const bool *has_spot, double (*step_usd)[3])
{
    const struct fixed *f = market;

    (void)has_spot;
    for (size_t k = 0; k < f->n; k++) {
        step_usd[k][SPOT_DEADLINE_IDLE] = f->else_usd;
        step_usd[k][SPOT_DEADLINE_SPOT] = f->usd[k];
        step_usd[k][SPOT_DEADLINE_ON_DEMAND] = INFINITY;
    }
}

/* The least cost of asking any of those left, or none. */
static double best_order(const struct fixed *f, const double *granted, unsigned left,
                         double ask_usd, double else_usd)
{
    double best = else_usd;

    for (size_t i = 0; i < f->n; i++)
        if (left >> i & 1) {
            const unsigned rest = left & ~(1U << i);

            /* who is granted may still ask the others */
            best =
                fmin(best, ask_usd +
                               granted[i] * best_order(f, granted, rest, ask_usd,
                                                       fmin(else_usd, f->usd[i])) +
                               (1 - granted[i]) * best_order(f, granted, rest, ask_usd, else_usd));
        }
    return best;
}

START_TEST(no_order_of_asking_costs_less)
{
    struct spot_rng rng;

    spot_rng_init(&rng, 41, 1);
    for (int round = 0; round < 200; round++) {
        struct fixed f = { .n = 1 + (size_t)round % 5, .else_usd = 11.5 };
        const double ask_usd = round % 3 ? 0.4 * spot_rng_unit(&rng) : 0;
        double granted[5];
        struct spot_ask_answer answer;

        for (size_t i = 0; i < f.n; i++) {
            granted[i] = 0.05 + 0.9 * spot_rng_unit(&rng);
            f.usd[i] = 10 + 2 * spot_rng_unit(&rng);
        }
        spot_ask_order(&(struct spot_ask_question){ f.n, granted, ask_usd, weigh_fixed, &f },
                       &answer);
        ck_assert_double_eq_tol(
            answer.usd, best_order(&f, granted, (1U << f.n) - 1, ask_usd, f.else_usd), 1e-12);
        for (size_t i = 0; i < answer.n; i++)
            ck_assert_double_lt(answer.ask[i].usd, f.else_usd);
    }
}
END_TEST

/* --- markets --- */

struct world {
    struct spot_market market;
    struct spot_run_dist law[MOST];
    double granted[MOST], ask_usd;
    struct spot_market_now now;
};

static double draw(struct spot_rng *rng, double least, double most)
{
    return least + (most - least) * spot_rng_unit(rng);
}

/* Of `n` places, and of each the chain, which may depend on age. */
static struct world draw_world(struct spot_rng *rng, size_t n)
{
    struct world w = { .ask_usd = draw(rng, 0, 1) < 0.5 ? 0.005 : draw(rng, 0, 0.1) };

    w.market = (struct spot_market){ .work_s = 600 * floor(draw(rng, 4, 12)),
                                     .tick_s = 600,
                                     .restart_s = { draw(rng, 0, 1) < 0.5 ? 0 : 300 },
                                     .restart_prob = { 1 },
                                     .n_restart = 1,
                                     .n_place = n };
    w.market.deadline_s = w.market.work_s + 600 * floor(draw(rng, 2, 12));
    w.now = (struct spot_market_now){ .left_s = w.market.work_s, .is_new = true };
    for (size_t k = 0; k < n; k++) {
        double end[2] = { draw(rng, 0.02, 0.6), draw(rng, 0.02, 0.4) };

        w.market.place[k] = (struct spot_market_place){
            .spot_usd_per_h = draw(rng, 0.2, 0.9), .on_demand_usd_per_h = 1, .speed = 1, .quota = -1
        };
        w.granted[k] = draw(rng, 0.05, 0.95);
        for (size_t j = 0; j < SPOT_RUN_STAGES; j++)
            for (int up = 0; up < 2; up++)
                w.law[k].end_prob[up][j] = end[up];
    }
    return w;
}

/* Make place a at least as good as b in everything, and better in something. */
static void favour(struct world *w, size_t a, size_t b, struct spot_rng *rng)
{
    const int what = (int)draw(rng, 1, 8);
    const double price = what & 1 ? draw(rng, 0.7, 0.99) : 1;
    const double stays = what & 2 ? draw(rng, 0.3, 0.99) : 1;

    w->market.place[a].spot_usd_per_h = price * w->market.place[b].spot_usd_per_h;
    w->granted[a] = what & 4 ? 1 - draw(rng, 0.2, 0.99) * (1 - w->granted[b]) : w->granted[b];
    w->law[a] = w->law[b];
    for (size_t j = 0; j < SPOT_RUN_STAGES; j++)
        w->law[a].end_prob[1][j] *= stays;
}

static void weigh(const void *decider, const bool *has_spot, double (*step_usd)[3])
{
    spot_deadline_weigh(decider, has_spot, step_usd);
}

static struct spot_decider *decide(struct world *w, struct spot_deadline_rule *rule)
{
    double step_usd[SPOT_MARKET_PLACES_MAX][3];
    struct spot_action action;
    struct spot_decider *d;
    struct spot_err err;

    *rule = (struct spot_deadline_rule){ .market = &w->market, .law = w->law };
    d = spot_policy_deadline.open(&(struct spot_rule){ .deadline = rule });
    ck_assert(!spot_policy_deadline.observe(
        d, &(struct spot_seen){ .has_spot = w->now.has_spot, .now = &w->now }, &err));
    ck_assert_msg(
        !spot_policy_deadline.decide(d, &action, &(struct spot_told){ .step_usd = step_usd }, &err),
        "%s", err.msg);
    return d;
}

static struct spot_ask_answer ask(struct world *w)
{
    struct spot_deadline_rule rule;
    struct spot_decider *d = decide(w, &rule);
    struct spot_ask_answer answer;

    spot_ask_order(
        &(struct spot_ask_question){ w->market.n_place, w->granted, w->ask_usd, weigh, d },
        &answer);
    spot_policy_deadline.close(d);
    return answer;
}

/* The position of a place in the order; answer->n if it is not asked. */
static size_t turn_of(const struct spot_ask_answer *answer, size_t place)
{
    size_t i = 0;

    while (i < answer->n && answer->ask[i].place != place)
        i++;
    return i;
}

/* True if it makes no difference which of two that are there is held: launches are free. */
static bool is_same(struct world *w, size_t a, size_t b)
{
    const bool has_spot[MOST] = { true, true, true, true, true, true };
    double usd[SPOT_MARKET_PLACES_MAX][3];
    struct spot_deadline_rule rule;
    struct spot_decider *d = decide(w, &rule);

    spot_deadline_weigh(d, has_spot, usd);
    spot_policy_deadline.close(d);
    return w->market.restart_s[0] <= 0 &&
           fabs(usd[a][SPOT_DEADLINE_SPOT] - usd[b][SPOT_DEADLINE_SPOT]) < 1e-9;
}

START_TEST(a_place_that_is_no_better_is_never_asked_first)
{
    struct spot_rng rng;
    int asked = 0;

    spot_rng_init(&rng, 77, 1);
    for (int round = 0; round < 800; round++) {
        const size_t n = 2 + (size_t)round % 5, a = (size_t)draw(&rng, 0, (double)n);
        const size_t b = (a + 1 + (size_t)draw(&rng, 0, (double)n - 1)) % n;
        struct world w = draw_world(&rng, n);
        struct spot_ask_answer answer;

        favour(&w, a, b, &rng);
        answer = ask(&w);
        if (turn_of(&answer, b) == answer.n || is_same(&w, a, b))
            continue;
        asked++;
        ck_assert_msg(turn_of(&answer, a) < turn_of(&answer, b), "round %d, %zu places: %zu, %zu",
                      round, n, turn_of(&answer, a), turn_of(&answer, b));
    }
    ck_assert_int_gt(asked, 40);
}
END_TEST

START_TEST(a_place_that_is_no_better_never_displaces_what_runs)
{
    struct spot_rng rng;

    spot_rng_init(&rng, 78, 1);
    for (int round = 0; round < 400; round++) {
        const size_t n = 2 + (size_t)round % 5, a = (size_t)draw(&rng, 0, (double)n);
        const size_t b = (a + 1 + (size_t)draw(&rng, 0, (double)n - 1)) % n;
        struct world w = draw_world(&rng, n);
        struct spot_ask_answer answer;

        favour(&w, a, b, &rng);
        w.now.mode = SPOT_DEADLINE_SPOT;
        w.now.place = a;
        w.now.is_new = false;
        w.now.has_spot[a] = true;
        w.granted[a] = 1;
        answer = ask(&w);
        ck_assert_msg(turn_of(&answer, b) == answer.n, "round %d, %zu places", round, n);
        ck_assert(answer.otherwise.mode != SPOT_DEADLINE_SPOT || answer.otherwise.place == a);
    }
}
END_TEST

/* Where run lengths are learned, of up to four places: b has the history of a, and costs more. Both
 * are there now. */
START_TEST(what_was_learned_to_be_worse_is_not_taken)
{
    struct spot_rng rng;

    spot_rng_init(&rng, 79, 1);
    for (int round = 0; round < 200; round++) {
        const size_t n = 2 + (size_t)round % 3, a = (size_t)draw(&rng, 0, (double)n);
        const size_t b = (a + 1 + (size_t)draw(&rng, 0, (double)n - 1)) % n;
        const bool runs = draw(&rng, 0, 1) < 0.5;
        struct world w = draw_world(&rng, n);
        const struct spot_deadline_rule rule = { .market = &w.market };
        bool has_spot[MOST] = { false };
        double usd[SPOT_MARKET_PLACES_MAX][3];
        struct spot_decider *d;
        struct spot_action action;
        struct spot_err err;

        w.market.place[a].spot_usd_per_h = draw(&rng, 0.8, 0.99) * w.market.place[b].spot_usd_per_h;
        if (runs)
            w.now.mode = SPOT_DEADLINE_SPOT, w.now.place = a, w.now.is_new = false;
        d = spot_policy_deadline.open(&(struct spot_rule){ .deadline = &rule });
        for (int t = 0; t < 200; t++) {
            for (size_t k = 0; k < n; k++)
                if (draw(&rng, 0, 1) < w.law[k].end_prob[has_spot[k]][0])
                    has_spot[k] = !has_spot[k];
            has_spot[b] = has_spot[b] || t == 199;
            has_spot[a] = has_spot[b];
            ck_assert(!spot_policy_deadline.observe(
                d, &(struct spot_seen){ .has_spot = has_spot, .now = t < 199 ? NULL : &w.now },
                &err));
        }
        ck_assert(
            !spot_policy_deadline.decide(d, &action, &(struct spot_told){ .step_usd = usd }, &err));
        spot_deadline_weigh(d, has_spot, usd);
        /* where launches are free it may not matter which of two is held */
        ck_assert_msg(usd[a][SPOT_DEADLINE_SPOT] <= usd[b][SPOT_DEADLINE_SPOT] + 1e-9,
                      "round %d, %zu places: %g, %g", round, n, usd[a][SPOT_DEADLINE_SPOT],
                      usd[b][SPOT_DEADLINE_SPOT]);
        ck_assert(action.step.mode != SPOT_DEADLINE_SPOT || action.step.place != b ||
                  usd[a][SPOT_DEADLINE_SPOT] > usd[b][SPOT_DEADLINE_SPOT] - 1e-9);
        spot_policy_deadline.close(d);
    }
}
END_TEST

/* --- every order --- */

struct game {
    const struct world *w;
    const struct spot_decider *decider;
};

/* The mean of the least cost of a step without a request, over the places not yet asked. */
static double stop(const struct game *g, const int *seen, size_t from, bool *has_spot, double prob,
                   double (*sum)[3])
{
    const size_t n = g->w->market.n_place;
    double least = INFINITY, usd[SPOT_MARKET_PLACES_MAX][3];

    while (from < n && seen[from] >= 0) {
        has_spot[from] = seen[from];
        from++;
    }
    if (from < n) {
        has_spot[from] = true;
        stop(g, seen, from + 1, has_spot, prob * g->w->granted[from], sum);
        has_spot[from] = false;
        stop(g, seen, from + 1, has_spot, prob * (1 - g->w->granted[from]), sum);
    } else {
        spot_deadline_weigh(g->decider, has_spot, usd);
        for (size_t k = 0; k < n; k++)
            for (int mode = 0; mode < 3; mode++)
                sum[k][mode] +=
                    mode == SPOT_DEADLINE_SPOT && seen[k] != 1 ? INFINITY : prob * usd[k][mode];
    }
    for (size_t k = 0; k < n; k++)
        for (int mode = 0; mode < 3; mode++)
            least = fmin(least, sum[k][mode]);
    return least;
}

/* The least cost of any way to ask, which may depend on all answers so far, and go on after a
 * grant. seen: -1 not asked. */
static double play(const struct game *g, int *seen)
{
    const size_t n = g->w->market.n_place;
    bool has_spot[MOST];
    double sum[MOST][3] = { { 0 } }, best = stop(g, seen, 0, has_spot, 1, sum);

    for (size_t k = 0; k < n; k++) {
        double usd = g->w->ask_usd;

        if (seen[k] >= 0)
            continue;
        seen[k] = 1;
        usd += g->w->granted[k] * play(g, seen);
        seen[k] = 0;
        usd += (1 - g->w->granted[k]) * play(g, seen);
        seen[k] = -1;
        best = fmin(best, usd);
    }
    return best;
}

START_TEST(no_way_to_ask_costs_much_less)
{
    struct spot_rng rng;

    spot_rng_init(&rng, 80, 1);
    for (int round = 0; round < 300; round++) {
        struct world w = draw_world(&rng, 2 + (size_t)round % 3);
        int seen[MOST] = { -1, -1, -1, -1, -1, -1 };
        struct spot_ask_answer answer = ask(&w);
        struct spot_deadline_rule rule;
        struct spot_decider *d = decide(&w, &rule);
        const double best = play(&(struct game){ &w, d }, seen);

        ck_assert_double_ge(answer.usd, best - 1e-9);
        ck_assert_msg(answer.usd <= 1.002 * best, "round %d: %g of %g", round, answer.usd, best);
        spot_policy_deadline.close(d);
    }
}
END_TEST

int main(void)
{
    return run_suite("ask_order", add_tests(tcase_create("ask_order")));
}
