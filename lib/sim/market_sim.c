/* SPDX-License-Identifier: MIT */
#include "sim/market_sim.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/rng.h"
#include "common/xalloc.h"

static const double CELLS = 1 << 26; /* what one plan of many may take: some 0.5 s */

struct player {
    const struct spot_market_play *play;
    enum spot_deadline_policy policy;
    struct spot_market market; /* with the learned distributions */
    struct spot_run_count count[SPOT_MARKET_PLACES_MAX];
    struct spot_market_table table;
    int64_t solved_at; /* tick; -1: not yet */
    const struct spot_market_step *known;
    double restart_s; /* of the launch that runs */
};

static bool has_spot(const struct spot_market_play *play, size_t tick, size_t place)
{
    return tick < play->n && play->has_spot[tick * play->market.n_place + place];
}

static void count_runs(struct player *p, size_t end)
{
    for (size_t k = 0; k < p->market.n_place; k++) {
        p->count[k] = (struct spot_run_count){ 0 };
        for (size_t i = 0; i < end; i++)
            spot_run_count_add(&p->count[k], has_spot(p->play, i, k));
    }
}

static int solve(struct player *p, const struct spot_market_now *now, int64_t tick,
                 struct spot_err *err)
{
    const bool is_known = p->policy == SPOT_DEADLINE_PLAY_KNOWN;
    const struct spot_deadline_effort effort = { is_known ? 0 : p->play->learn_ticks, CELLS };
    struct spot_run_count kept[SPOT_MARKET_PLACES_MAX];

    memcpy(kept, p->count, sizeof(kept));
    if (is_known)
        count_runs(p, p->play->n);
    for (size_t k = 0; k < p->market.n_place; k++)
        spot_run_dist_learn_zone(&p->market.place[k].dist, &p->count[k], p->market.tick_s);
    memcpy(p->count, kept, sizeof(kept));
    spot_market_release(&p->table);
    p->solved_at = tick;
    return spot_market_solve(&p->table, &p->market, now, &effort, err);
}

/* A published rule, of one place. */
static struct spot_market_step follow(const struct player *p, const struct spot_market_now *now)
{
    const struct spot_market *m = &p->market;
    const size_t refuge = spot_market_refuge(m);
    const struct spot_deadline_job job = { m->work_s,
                                           m->deadline_s,
                                           m->restart_s[m->n_restart - 1],
                                           m->tick_s,
                                           m->place[0].spot_usd_per_h,
                                           m->place[refuge].on_demand_usd_per_h };
    struct spot_deadline_now one = { now->elapsed_s, now->left_s, 0, now->mode, false };
    struct spot_market_step step = { SPOT_DEADLINE_ON_DEMAND, refuge };
    size_t cheapest = m->n_place;

    if (now->pending)
        one.pending_s = fmax(0, job.restart_s - (double)now->pending * m->tick_s);
    for (size_t k = 0; k < m->n_place; k++) {
        const struct spot_market_place *a = &m->place[k], *b = &m->place[cheapest];

        if (now->has_spot[k] &&
            (cheapest == m->n_place || a->spot_usd_per_h / a->speed < b->spot_usd_per_h / b->speed))
            cheapest = k;
    }
    one.has_spot = cheapest < m->n_place;
    step.mode =
        p->policy == SPOT_DEADLINE_PLAY_ON_DEMAND
            ? SPOT_DEADLINE_ON_DEMAND
            : spot_deadline_follow(p->policy == SPOT_DEADLINE_PLAY_GREEDY ? SPOT_DEADLINE_GREEDY
                                   : p->policy == SPOT_DEADLINE_PLAY_UNIFORM
                                       ? SPOT_DEADLINE_UNIFORM
                                       : SPOT_DEADLINE_UNIFORM_NO_HYSTERESIS,
                                   &job, &one);
    if (step.mode == now->mode || step.mode == SPOT_DEADLINE_IDLE)
        step.place = now->place;
    else if (step.mode == SPOT_DEADLINE_SPOT)
        step.place = cheapest;
    if (!spot_market_is_safe(m, now, step)) {
        const struct spot_market_step stay = { now->mode, now->place };

        step = now->mode != SPOT_DEADLINE_IDLE && spot_market_is_safe(m, now, stay)
                   ? stay
                   : (struct spot_market_step){ SPOT_DEADLINE_ON_DEMAND, refuge };
    }
    return step;
}

static int decide(struct player *p, const struct spot_market_now *now, int64_t tick,
                  struct spot_market_step *step, struct spot_err *err)
{
    const int64_t learn = p->policy == SPOT_DEADLINE_PLAY_SPOT ? p->play->learn_ticks : 0;

    if (p->policy == SPOT_DEADLINE_PLAY_OFFLINE) {
        *step = p->known[tick];
    } else if (p->policy == SPOT_DEADLINE_PLAY_SPOT || p->policy == SPOT_DEADLINE_PLAY_KNOWN) {
        if ((p->solved_at < 0 || (learn && tick - p->solved_at >= learn)) &&
            solve(p, now, tick, err))
            return -1;
        *step = spot_market_ask(&p->table, &p->market, now);
    } else {
        *step = follow(p, now);
    }
    return 0;
}

static double draw_restart(const struct player *p, int64_t tick, size_t place)
{
    const struct spot_market *m = &p->market;
    struct spot_rng rng;
    double x;

    if (p->policy == SPOT_DEADLINE_PLAY_OFFLINE)
        return m->restart_s[0];
    spot_rng_init(&rng, p->play->seed, (uint64_t)tick * SPOT_MARKET_PLACES_MAX + place);
    x = spot_rng_unit(&rng);
    for (size_t i = 0; i + 1 < m->n_restart; i++)
        if ((x -= m->restart_prob[i]) < 0)
            return m->restart_s[i];
    return m->restart_s[m->n_restart - 1];
}

/* What is there at a tick; spot that ran and is gone is lost. */
static void look(struct player *p, struct spot_market_now *now, size_t at)
{
    for (size_t k = 0; k < p->market.n_place; k++) {
        now->has_spot[k] = has_spot(p->play, at, k);
        spot_run_count_add(&p->count[k], now->has_spot[k]);
        now->age[k] = p->count[k].age;
    }
    if (now->mode == SPOT_DEADLINE_SPOT && !now->has_spot[now->place]) {
        now->mode = SPOT_DEADLINE_IDLE;
        now->pending = 0;
    }
}

static int play_all(struct player *p, struct spot_deadline_result *r, struct spot_market_step *step,
                    double *left_s, struct spot_err *err)
{
    struct spot_market_now now = { .left_s = p->market.work_s, .is_new = true };
    const int64_t ticks = spot_market_ticks(&p->market, &now);
    size_t launches = 0;

    for (int64_t tick = 0; now.left_s > 1e-6; tick++) {
        struct spot_market_step want;
        bool starts;

        look(p, &now, p->play->start + (size_t)tick);
        if (decide(p, &now, tick, &want, err))
            return -1;
        starts =
            want.mode != SPOT_DEADLINE_IDLE && (want.mode != now.mode || want.place != now.place);
        launches += starts;
        if (starts)
            p->restart_s = draw_restart(p, tick, want.place);
        r->usd += spot_market_take(&p->market, &now, want, p->restart_s);
        if (step && tick < ticks)
            step[tick] = want;
        if (left_s && tick < ticks)
            left_s[tick] = now.left_s;
    }
    r->finish_s = now.elapsed_s;
    r->is_late = now.elapsed_s > p->market.deadline_s * (1 + 1e-12);
    r->switches = launches ? launches - 1 : 0;
    return 0;
}

static void know_all(struct player *p, struct spot_market_step **known)
{
    const struct spot_market_now now = { .left_s = p->market.work_s };
    const size_t n_place = p->market.n_place, ticks = (size_t)spot_market_ticks(&p->market, &now);
    uint8_t *up = spot_xcalloc(ticks, n_place);

    *known = spot_xcalloc(ticks + 1, sizeof(**known));
    for (size_t i = 0; i < ticks; i++)
        for (size_t k = 0; k < n_place; k++)
            up[i * n_place + k] = has_spot(p->play, p->play->start + i, k);
    spot_market_offline(&p->market, up, ticks, *known);
    free(up);
    p->known = *known;
}

int spot_market_play_run(const struct spot_market_play *play, enum spot_deadline_policy policy,
                         struct spot_deadline_result *result, struct spot_market_step *step,
                         double *left_s, struct spot_err *err)
{
    const struct spot_market_now now = { .left_s = play->market.work_s };
    struct player p = { .play = play, .policy = policy, .market = play->market, .solved_at = -1 };
    struct spot_market_step *known = NULL;
    int rc;

    memset(result, 0, sizeof(*result));
    if (spot_market_check(&play->market, &now, err))
        return -1;
    count_runs(&p, play->start);
    if (policy == SPOT_DEADLINE_PLAY_OFFLINE)
        know_all(&p, &known);
    rc = play_all(&p, result, step, left_s, err);
    spot_market_release(&p.table);
    free(known);
    return rc;
}
