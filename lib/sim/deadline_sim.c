/* SPDX-License-Identifier: MIT */
#include "sim/deadline_sim.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/rng.h"
#include "common/xalloc.h"
#include "plan/decision.h"

static const double CELLS = 1 << 26; /* size limit of a plan for several places: about 0.5 s */

static struct spot_market_step on_demand(const struct spot_market *m,
                                         const struct spot_market_now *now, void *memory)
{
    (void)now;
    (void)memory;
    return (struct spot_market_step){ SPOT_DEADLINE_ON_DEMAND, spot_market_refuge(m) };
}

const struct spot_deadline_policy spot_deadline_policies[] = {
    { "on-demand", "on demand from the start", on_demand, 0, false, false },
    { "spot", "least expected cost under run lengths learnt so far", NULL, 0, false, false },
    { "known-law", "the same under the run lengths of the whole trace, which nobody knows", NULL, 0,
      true, false },
    { "offline", "least cost with the whole trace known", NULL, 0, false, true },
    { 0 },
};

struct player {
    const struct spot_deadline_play *play;
    const struct spot_deadline_policy *policy;
    struct spot_market market;                        /* at current prices */
    void *memory;                                     /* state of a rule */
    struct spot_decider *decider;                     /* the decision of spot-plan */
    struct spot_run_dist law[SPOT_MARKET_PLACES_MAX]; /* from the whole series */
    struct spot_market_step *known;                   /* [n_known] */
    size_t n_known;
    double bound_usd;
    double restart_s; /* restart time of the current launch */
};

static bool has_spot(const struct spot_deadline_play *play, size_t tick, size_t place)
{
    return tick < play->n && play->has_spot[tick * play->market.n_place + place];
}

static const double *prices_at(const struct spot_deadline_play *play, size_t tick)
{
    return play->spot_usd_per_h
               ? play->spot_usd_per_h + (tick < play->n ? tick : play->n - 1) * play->market.n_place
               : NULL;
}

static int observe(struct player *p, size_t at, const struct spot_market_now *now,
                   struct spot_err *err)
{
    bool there[SPOT_MARKET_PLACES_MAX];
    const struct spot_seen seen = { .time_s = (double)at * p->play->market.tick_s,
                                    .has_spot = there,
                                    .spot_usd_per_h = prices_at(p->play, at),
                                    .now = now };

    for (size_t k = 0; k < p->play->market.n_place; k++)
        there[k] = has_spot(p->play, at, k);
    return spot_policy_deadline.observe(p->decider, &seen, err);
}

static void learn_all(struct player *p)
{
    const struct spot_deadline_play *play = p->play;

    for (size_t k = 0; k < play->market.n_place; k++) {
        struct spot_run_count count = { 0 };

        for (size_t i = 0; i < play->n; i++)
            spot_run_count_add(&count, has_spot(play, i, k));
        spot_run_dist_learn_zone(&p->law[k], &count, play->market.tick_s);
    }
}

/* Open the decision of spot-plan with what is known before the job; with several places the
 * distribution of runs is that of all ticks. */
static int open_ours(struct player *p, struct spot_err *err)
{
    const bool knows = p->policy->knows_law;
    const struct spot_deadline_rule rule = {
        .market = &p->play->market,
        .learn_ticks = knows ? 0 : p->play->learn_ticks,
        .cells = CELLS,
        .law = knows && p->play->market.n_place <= SPOT_MARKET_EXACT_MAX ? p->law : NULL
    };

    if (knows)
        learn_all(p);
    p->decider = spot_policy_deadline.open(&(struct spot_rule){ .deadline = &rule });
    for (size_t i = 0; i < (knows ? p->play->n : p->play->start); i++)
        if (observe(p, i, NULL, err))
            return -1;
    return 0;
}

static int know_all(struct player *p, struct spot_err *err)
{
    struct spot_market market = p->play->market, *m = &market;
    const struct spot_market_now now = { .left_s = m->work_s };
    const size_t ticks = (size_t)spot_market_ticks(m, &now);
    uint8_t *up = spot_xcalloc(ticks, m->n_place);
    double *path = spot_xcalloc(ticks, m->n_place * sizeof(*path));

    p->n_known = ticks;
    p->known = spot_xcalloc(ticks + 1, sizeof(*p->known));
    for (size_t i = 0; i < ticks; i++)
        for (size_t k = 0; k < m->n_place; k++)
            up[i * m->n_place + k] = has_spot(p->play, p->play->start + i, k);
    for (size_t k = 0; k < m->n_place && p->play->spot_usd_per_h; k++) {
        for (size_t i = 0; i < ticks; i++)
            path[k * ticks + i] = prices_at(p->play, p->play->start + i)[k];
        m->place[k].path[0] = path + k * ticks;
        m->path_ticks = (int64_t)ticks;
        m->n_path = ticks;
    }
    p->bound_usd = spot_market_offline(m, up, ticks, p->known);
    free(path);
    free(up);
    return isnan(p->bound_usd)
               ? spot_err_set(
                     err, SPOT_EUSAGE,
                     "offline: %zu ticks of %g s take more than 1 GiB: give a longer --tick", ticks,
                     m->tick_s)
               : 0;
}

static int decide(struct player *p, const struct spot_market_now *now, int64_t tick,
                  struct spot_market_step *step, struct spot_err *err)
{
    struct spot_action action;

    if (p->policy->knows_series) {
        *step = (size_t)tick < p->n_known ? p->known[tick] : on_demand(&p->market, now, NULL);
    } else if (p->policy->follow) {
        *step = p->policy->follow(&p->market, now, p->memory);
    } else {
        if (observe(p, p->play->start + (size_t)tick, now, err) ||
            spot_policy_deadline.decide(p->decider, &action, NULL, err))
            return -1;
        *step = action.step;
    }
    return 0;
}

static double draw_restart(const struct player *p, int64_t tick, size_t place)
{
    const struct spot_market *m = &p->play->market;
    struct spot_rng rng;
    double x;

    if (p->policy->knows_series)
        return m->restart_s[0];
    spot_rng_init(&rng, p->play->seed, (uint64_t)tick * SPOT_MARKET_PLACES_MAX + place);
    x = spot_rng_unit(&rng);
    for (size_t i = 0; i + 1 < m->n_restart; i++)
        if ((x -= m->restart_prob[i]) < 0)
            return m->restart_s[i];
    return m->restart_s[m->n_restart - 1];
}

/* Observe the availability at a tick; running spot that is no longer available is lost. */
static void look(struct player *p, struct spot_market_now *now, size_t at)
{
    for (size_t k = 0; k < p->market.n_place; k++) {
        now->has_spot[k] = has_spot(p->play, at, k);
        if (p->play->spot_usd_per_h)
            p->market.place[k].spot_usd_per_h = prices_at(p->play, at)[k];
    }
    if (now->mode == SPOT_DEADLINE_SPOT && !now->has_spot[now->place]) {
        now->mode = SPOT_DEADLINE_IDLE;
        now->pending = 0;
    }
}

static int play_all(struct player *p, struct spot_deadline_result *r,
                    struct spot_deadline_tick *played, struct spot_err *err)
{
    const struct spot_market *m = &p->market;
    struct spot_market_now now = { .left_s = m->work_s, .is_new = true };
    const int64_t ticks = spot_market_ticks(m, &now);
    const bool is_sure = spot_market_refuge(m) < m->n_place;
    size_t launches = 0;

    for (int64_t tick = 0; now.left_s > 1e-6 && (is_sure || tick < ticks); tick++) {
        struct spot_market_step want;
        bool starts;

        look(p, &now, p->play->start + (size_t)tick);
        if (decide(p, &now, tick, &want, err))
            return -1;
        starts =
            want.mode != SPOT_DEADLINE_IDLE && (want.mode != now.mode || want.place != now.place);
        launches += starts;
        if (starts)
            p->restart_s =
                draw_restart(p, tick, want.place) + spot_market_move_s(m, &now, want.place);
        r->usd += spot_market_take(m, &now, want, p->restart_s);
        if (played && tick < ticks)
            played[tick] = (struct spot_deadline_tick){ want, now.left_s, now.pending };
    }
    r->finish_s = now.elapsed_s;
    r->is_late = now.elapsed_s > m->deadline_s * (1 + 1e-12) || now.left_s > 1e-6;
    r->switches = launches ? launches - 1 : 0;
    return 0;
}

int spot_deadline_play_run(const struct spot_deadline_play *play,
                           const struct spot_deadline_policy *policy,
                           struct spot_deadline_result *result, struct spot_deadline_tick *tick,
                           struct spot_err *err)
{
    const struct spot_market_now now = { .left_s = play->market.work_s };
    struct player p = { .play = play, .policy = policy, .market = play->market };
    int rc = 0;

    memset(result, 0, sizeof(*result));
    if (spot_market_check(&play->market, &now, err))
        return -1;
    if ((policy->follow || policy->knows_series) &&
        spot_market_refuge(&play->market) == play->market.n_place)
        return spot_err_set(err, SPOT_EUSAGE, "%s: no place sells on demand", policy->name);
    if (policy->memory)
        p.memory = spot_xcalloc(1, policy->memory);
    if (policy->knows_series)
        rc = know_all(&p, err);
    else if (!policy->follow)
        rc = open_ours(&p, err);
    rc = rc ? rc : play_all(&p, result, tick, err);
    if (policy->knows_series)
        result->usd = fmin(result->usd, p.bound_usd);
    if (p.decider)
        spot_policy_deadline.close(p.decider);
    free(p.known);
    free(p.memory);
    return rc;
}
