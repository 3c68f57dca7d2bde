/* SPDX-License-Identifier: MIT */
#include "peers/uniform_progress.h"

#include <math.h>

/* The problem with one place, as published. */
struct problem {
    double work_s, deadline_s, restart_s, tick_s;
    double elapsed_s, left_s, pending_s;
    enum spot_deadline_mode mode;
    bool has_spot;
};

enum rule { GREEDY, UNIFORM, NO_HYSTERESIS };

static double ticks_up(const struct problem *p, double time_s)
{
    return ceil(time_s / p->tick_s - 1e-9); /* sums of seconds are not exact */
}

static enum spot_deadline_mode wish(enum rule rule, const struct problem *p)
{
    /* shares of work and time, multiplied out so that whole numbers stay exact */
    const double done = (p->work_s - p->left_s) * p->deadline_s;
    const double due = p->elapsed_s * p->work_s;
    const double due_after = (p->elapsed_s + 2 * p->restart_s) * p->work_s;

    if (p->mode == SPOT_DEADLINE_ON_DEMAND && rule == GREEDY)
        return SPOT_DEADLINE_ON_DEMAND;
    if (p->mode == SPOT_DEADLINE_ON_DEMAND && p->has_spot)
        return rule != UNIFORM || done > due_after ? SPOT_DEADLINE_SPOT : SPOT_DEADLINE_ON_DEMAND;
    if (p->mode == SPOT_DEADLINE_ON_DEMAND && rule == UNIFORM)
        return SPOT_DEADLINE_ON_DEMAND;
    if (p->has_spot)
        return SPOT_DEADLINE_SPOT;
    return rule == GREEDY || done >= due ? SPOT_DEADLINE_IDLE : SPOT_DEADLINE_ON_DEMAND;
}

static enum spot_deadline_mode follow_one(enum rule rule, const struct problem *p)
{
    const double ticks = floor((p->deadline_s - p->elapsed_s) / p->tick_s + 1e-9);
    enum spot_deadline_mode want = wish(rule, p);

    if (p->mode != SPOT_DEADLINE_SPOT && ticks_up(p, p->left_s + 2 * p->restart_s) >= ticks)
        want = SPOT_DEADLINE_ON_DEMAND;
    if (ticks_up(p, p->left_s + p->restart_s) >= ticks)
        want = p->mode == SPOT_DEADLINE_SPOT && p->pending_s <= 0 ? SPOT_DEADLINE_SPOT
                                                                  : SPOT_DEADLINE_ON_DEMAND;
    return want;
}

static struct spot_market_step follow(enum rule rule, const struct spot_market *m,
                                      const struct spot_market_now *now)
{
    const size_t refuge = spot_market_refuge(m);
    const double restart_s = m->restart_s[m->n_restart - 1];
    size_t cheapest = m->n_place;
    struct problem p = { m->work_s, m->deadline_s,  restart_s,
                         m->tick_s, now->elapsed_s, now->left_s,
                         0,         now->mode,      false };
    struct spot_market_step step = { SPOT_DEADLINE_ON_DEMAND, refuge };

    if (now->pending)
        p.pending_s = fmax(0, restart_s - (double)now->pending * m->tick_s);
    for (size_t k = 0; k < m->n_place; k++) {
        const struct spot_market_place *a = &m->place[k], *b = &m->place[cheapest];

        if (now->has_spot[k] &&
            (cheapest == m->n_place || a->spot_usd_per_h / a->speed < b->spot_usd_per_h / b->speed))
            cheapest = k;
    }
    p.has_spot = cheapest < m->n_place;
    step.mode = follow_one(rule, &p);
    if (step.mode == now->mode || step.mode == SPOT_DEADLINE_IDLE)
        step.place = now->place;
    else if (step.mode == SPOT_DEADLINE_SPOT)
        step.place = cheapest;
    return spot_market_settle(m, now, step);
}

static struct spot_market_step greedy(const struct spot_market *m,
                                      const struct spot_market_now *now, void *memory)
{
    (void)memory;
    return follow(GREEDY, m, now);
}

static struct spot_market_step uniform(const struct spot_market *m,
                                       const struct spot_market_now *now, void *memory)
{
    (void)memory;
    return follow(UNIFORM, m, now);
}

static struct spot_market_step no_hysteresis(const struct spot_market *m,
                                             const struct spot_market_now *now, void *memory)
{
    (void)memory;
    return follow(NO_HYSTERESIS, m, now);
}

const struct spot_deadline_policy spot_uniform_progress[] = {
    { "greedy", "spot where it is, on demand when the deadline asks for it", greedy, 0, false,
      false },
    { "uniform-progress", "keeps work in step with time (Can't Be Late)", uniform, 0, false,
      false },
    { "uniform-no-hysteresis", "the same, back to spot at once", no_hysteresis, 0, false, false },
    { 0 },
};
