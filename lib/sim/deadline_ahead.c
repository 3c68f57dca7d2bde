/* SPDX-License-Identifier: MIT */
#include "sim/deadline_ahead.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/num.h"
#include "common/rng.h"
#include "common/xalloc.h"
#include "plan/decision.h"

static const double CELLS = 1 << 26; /* size of a table, as in deadline_sim.c */

struct player {
    const struct spot_deadline_ahead *ahead;
    struct spot_decider *decider;
    struct spot_rng rng;
    bool has_spot[SPOT_MARKET_PLACES_MAX];
    size_t age[SPOT_MARKET_PLACES_MAX]; /* age of the current run of each place, ticks */
    double restart_s;
};

/* Draw what is available; returns the first step. */
static struct spot_market_step begin(struct player *p)
{
    const struct spot_deadline_ahead *a = p->ahead;

    for (size_t k = 0; k < a->market->n_place; k++) {
        p->has_spot[k] = spot_rng_unit(&p->rng) < a->has_spot[k];
        p->age[k] = a->now.age[k] ? a->now.age[k] : 1;
    }
    for (size_t i = 0; i < a->n_ask; i++)
        if (p->has_spot[a->ask[i].place])
            return (struct spot_market_step){ SPOT_DEADLINE_SPOT, a->ask[i].place };
    return a->first;
}

static void go_on(struct player *p)
{
    for (size_t k = 0; k < p->ahead->market->n_place; k++) {
        const double end = p->ahead->law[k].end_prob[p->has_spot[k]][spot_run_stage(p->age[k])];
        const bool ends = spot_rng_unit(&p->rng) < end;

        p->has_spot[k] = p->has_spot[k] != ends;
        p->age[k] = ends ? 1 : p->age[k] + 1;
    }
}

static double draw_restart(struct player *p)
{
    const struct spot_market *m = p->ahead->market;
    double x = spot_rng_unit(&p->rng);

    for (size_t i = 0; i + 1 < m->n_restart; i++)
        if ((x -= m->restart_prob[i]) < 0)
            return m->restart_s[i];
    return m->restart_s[m->n_restart - 1];
}

static int decide(struct player *p, struct spot_market_now *now, struct spot_market_step *step,
                  struct spot_err *err)
{
    const struct spot_seen seen = { .has_spot = p->has_spot, .now = now };
    struct spot_action action;

    if (now->mode == SPOT_DEADLINE_SPOT && !p->has_spot[now->place]) {
        now->mode = SPOT_DEADLINE_IDLE;
        now->pending = 0;
    }
    if (spot_policy_deadline.observe(p->decider, &seen, err) ||
        spot_policy_deadline.decide(p->decider, &action, NULL, err))
        return -1;
    *step = action.step;
    return 0;
}

/* Play one job to its end. Returns its moves, or -1 with *err. */
static int64_t play(struct player *p, struct spot_deadline_outlook *sum, double *hours,
                    struct spot_err *err)
{
    const struct spot_deadline_ahead *a = p->ahead;
    const struct spot_market *m = a->market;
    struct spot_market_now now = a->now;
    const struct spot_market_step first = begin(p);
    struct spot_market_step step = first;
    const int64_t ticks = spot_market_ticks(m, &now);
    int64_t launches = 0;

    /* a launch in progress has the longest restart */
    p->restart_s = m->restart_s[m->n_restart - 1];
    for (int64_t tick = 0; tick < ticks && now.left_s > 1e-6; tick++) {
        if (decide(p, &now, &step, err))
            return -1;
        if (!tick)
            step = first;
        if (step.mode != SPOT_DEADLINE_IDLE && (step.mode != now.mode || step.place != now.place)) {
            p->restart_s = draw_restart(p) + spot_market_move_s(m, &now, step.place);
            launches++;
        }
        *hours += step.mode != SPOT_DEADLINE_IDLE;
        sum->on_demand += step.mode == SPOT_DEADLINE_ON_DEMAND;
        sum->usd += spot_market_take(m, &now, step, p->restart_s);
        go_on(p);
    }
    sum->late += now.left_s > 1e-6;
    return launches - (launches && a->now.mode == SPOT_DEADLINE_IDLE);
}

int spot_deadline_look_ahead(const struct spot_deadline_ahead *a, struct spot_deadline_outlook *out,
                             struct spot_err *err)
{
    const struct spot_deadline_rule rule = { .market = a->market, .law = a->law, .cells = CELLS };
    struct player p = { .ahead = a };
    int64_t *moves = spot_xcalloc(a->plays, sizeof(*moves));
    double hours = 0;
    int rc = 0;

    *out = (struct spot_deadline_outlook){ 0 };
    spot_rng_init(&p.rng, a->seed, 1);
    p.decider = spot_policy_deadline.open(&(struct spot_rule){ .deadline = &rule });
    for (size_t i = 0; i < a->plays && !rc; i++) {
        moves[i] = play(&p, out, &hours, err);
        out->moves += (double)moves[i];
        rc = moves[i] < 0 ? -1 : 0;
    }
    spot_policy_deadline.close(p.decider);
    if (!rc) {
        const double n = (double)a->plays;

        qsort(moves, a->plays, sizeof(*moves), spot_num_compare_int64);
        out->usd /= n;
        out->late /= n;
        out->moves /= n;
        out->on_demand /= fmax(1, hours);
        out->few = (size_t)moves[a->plays / 20];
        out->many = (size_t)moves[a->plays - 1 - a->plays / 20];
    }
    free(moves);
    return rc;
}
