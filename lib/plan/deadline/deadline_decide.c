/* SPDX-License-Identifier: MIT */
/* The decision of a job with a deadline: spot, on demand or nothing in the next tick, and where. */
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "plan/deadline/market_many.h"
#include "plan/decision.h"

struct spot_decider {
    struct spot_deadline_rule rule;
    struct spot_market market; /* the market, with the run lengths learned */
    struct spot_run_count count[SPOT_MARKET_PLACES_MAX];
    struct spot_market_now now;
    struct spot_market_table table;
    struct market_seen seen; /* history of a market with several places */
    struct market_many many;
    int64_t tick; /* ticks since the job began, of the newest observation; -1: none yet */
    bool is_new;  /* run lengths were learned again since the table was made */
};

static bool has_many(const struct spot_decider *d)
{
    return d->market.n_place > SPOT_MARKET_EXACT_MAX;
}

static struct spot_decider *deadline_open(const struct spot_rule *rule)
{
    struct spot_decider *d = spot_xcalloc(1, sizeof(*d));

    d->rule = *rule->deadline;
    d->market = *rule->deadline->market;
    d->tick = -1;
    return d;
}

/* Run lengths are learned from the history when the job begins, and after every learn_ticks of it.
 */
static void learn(struct spot_decider *d)
{
    if (has_many(d))
        market_many_learn(&d->many, &d->market, &d->seen, d->count, d->rule.law);
    for (size_t k = 0; k < d->market.n_place && !has_many(d); k++)
        if (d->rule.law)
            d->market.place[k].dist = d->rule.law[k];
        else
            spot_run_dist_learn_zone(&d->market.place[k].dist, &d->count[k], d->market.tick_s);
    d->is_new = true;
}

static int deadline_observe(struct spot_decider *d, const struct spot_seen *seen,
                            struct spot_err *err)
{
    (void)err;
    for (size_t k = 0; k < d->market.n_place; k++) {
        spot_run_count_add(&d->count[k], seen->has_spot[k]);
        if (seen->spot_usd_per_h)
            d->market.place[k].spot_usd_per_h = seen->spot_usd_per_h[k];
    }
    if (has_many(d))
        market_seen_add(&d->seen, seen->has_spot, d->market.n_place);
    if (!seen->now)
        return 0;
    d->now = *seen->now;
    for (size_t k = 0; k < d->market.n_place; k++) {
        d->now.has_spot[k] = seen->has_spot[k];
        d->now.age[k] = d->count[k].age;
    }
    /* the instance was lost */
    if (d->now.mode == SPOT_DEADLINE_SPOT && !d->now.has_spot[d->now.place]) {
        d->now.mode = SPOT_DEADLINE_IDLE;
        d->now.pending = 0;
    }
    d->tick++;
    if (!d->tick || (d->rule.learn_ticks && d->tick % d->rule.learn_ticks == 0))
        learn(d);
    return 0;
}

static int64_t learns_in(const struct spot_decider *d)
{
    return d->rule.learn_ticks ? d->rule.learn_ticks - d->tick % d->rule.learn_ticks : 0;
}

static void decide_many(struct spot_decider *d, struct spot_action *action,
                        const struct spot_told *told)
{
    if (d->is_new || told)
        market_many_solve(&d->many, &d->market, &d->now, learns_in(d));
    d->is_new = false;
    action->step = market_many_ask(&d->many, &d->market, &d->now, told ? told->step_usd : NULL);
}

static int deadline_decide(struct spot_decider *d, struct spot_action *action,
                           const struct spot_told *told, struct spot_err *err)
{
    const struct spot_deadline_effort effort = { .keep_ticks = learns_in(d),
                                                 .cells = d->rule.cells };

    if (has_many(d)) {
        decide_many(d, action, told);
        return 0;
    }
    if (d->is_new || told) {
        spot_market_release(&d->table);
        if (spot_market_solve(&d->table, &d->market, &d->now, &effort, err))
            return -1;
        d->is_new = false;
    }
    action->step = spot_market_ask(&d->table, &d->market, &d->now);
    if (told)
        spot_market_weigh(&d->table, &d->market, &d->now, told->step_usd);
    return 0;
}

void spot_deadline_weigh(const struct spot_decider *d, const bool *has_spot, double (*step_usd)[3])
{
    struct spot_market_now now = d->now;

    for (size_t k = 0; k < d->market.n_place; k++) {
        now.age[k] = now.has_spot[k] == has_spot[k] ? now.age[k] : 1;
        now.has_spot[k] = has_spot[k];
    }
    if (has_many(d))
        market_many_ask(&d->many, &d->market, &now, step_usd);
    else
        spot_market_weigh(&d->table, &d->market, &now, step_usd);
}

static void deadline_close(struct spot_decider *d)
{
    spot_market_release(&d->table);
    market_many_release(&d->many);
    free(d->seen.there);
    free(d);
}

const struct spot_policy spot_policy_deadline = {
    .kind = "deadline",
    .name = "spot",
    .summary = "least expected cost under run lengths learnt so far",
    .open = deadline_open,
    .observe = deadline_observe,
    .decide = deadline_decide,
    .close = deadline_close,
};
