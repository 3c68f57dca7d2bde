/* SPDX-License-Identifier: MIT */
/* Ours: in every tick the forecast that spot-predict makes of what was seen, and the decision that
 * spot-plan makes by it (plan/decision.h). */
#include <math.h>
#include <stdlib.h>

#include "common/xalloc.h"
#include "plan/decision.h"
#include "sim/fleet_seen.h"
#include "sim/fleet_state.h"

enum { LOAD_TICKS = 4 };
static const double factor_first = 1.2, factor_most = 4, factor_gain = 0.1;

struct spot_fleet_ours {
    struct spot_fleet_seen *seen;
    struct spot_decider *decider;
    double factor;  /* of the load of late */
    size_t *wanted; /* [n_tick] by it */
    int *ready;     /* [n_zone] */
};

struct spot_fleet_ours *spot_fleet_ours_new(const struct spot_fleet_play *play)
{
    struct spot_fleet_ours *o = spot_xcalloc(1, sizeof(*o));
    const struct spot_hold_rule rule = { .usd_per_h = play->usd_per_h,
                                         .on_demand_usd_per_h = play->on_demand_usd_per_h,
                                         .cold = (int)play->cold,
                                         .availability = play->availability };

    o->seen = spot_fleet_seen_new(play->zone, play->type, play->n_zone, play->n_tick, play->tick_s,
                                  play->cold ? (int)play->cold : 1);
    o->decider = spot_policy_fleet.open(&(struct spot_rule){ .fleet = &rule });
    o->factor = factor_first;
    o->wanted = play->load ? spot_xcalloc(play->n_tick, sizeof(*o->wanted)) : NULL;
    o->ready = spot_xcalloc(play->n_zone, sizeof(*o->ready));
    return o;
}

void spot_fleet_ours_free(struct spot_fleet_ours *o)
{
    spot_fleet_seen_free(o->seen);
    spot_policy_fleet.close(o->decider);
    free(o->wanted);
    free(o->ready);
    free(o);
}

/* For a varying load: a factor on the maximum of the last ticks, such that loads exceed it no more
 * often than the target. A load that exceeded it raises the factor, any other lowers it. */
size_t spot_fleet_ours_wanted(struct spot_fleet_state *s)
{
    struct spot_fleet_ours *o = s->ours;
    const struct spot_fleet_play *play = s->play;
    double most = 0;
    size_t launched;

    if (!s->t) {
        o->wanted[0] = s->wanted;
        return s->wanted;
    }
    launched = s->t > play->cold ? s->t - 1 - play->cold : 0; /* that could answer a tick ago */
    o->factor *= exp(factor_gain * ((play->load[s->t - 1] > (double)o->wanted[launched]) -
                                    (1 - play->availability)));
    o->factor = fmin(factor_most, fmax(1, o->factor));
    for (size_t back = 1; back <= LOAD_TICKS && back <= s->t; back++)
        most = fmax(most, play->load[s->t - back]);
    o->wanted[s->t] = (size_t)fmin(SPOT_FLEET_REPLICAS_MAX, fmax(1, ceil(o->factor * most)));
    return o->wanted[s->t];
}

/* Launches come last: what a zone frees is not had again in the same tick. */
static void carry_out(struct spot_fleet_state *s, const struct spot_hold_step *step)
{
    for (size_t i = s->n_unit; i-- > 0;)
        if (s->in_zone[s->unit[i].zone] > step->spot[s->unit[i].zone])
            spot_fleet_end_unit(s, i);
    for (size_t z = 0; z < s->play->n_zone; z++)
        while (s->in_zone[z] < step->spot[z] && spot_fleet_launch(s, z))
            continue;
    spot_fleet_set_on_demand(s, (size_t)step->on_demand);
}

int spot_fleet_ours_step(struct spot_fleet_state *s, struct spot_err *err)
{
    struct spot_fleet_ours *o = s->ours;
    const struct spot_hold_now now = { .wanted = (int)s->wanted,
                                       .spot = s->in_zone,
                                       .spot_ready = o->ready,
                                       .on_demand = (int)s->n_on_demand,
                                       .on_demand_ready = (int)spot_fleet_standing(s) };
    const struct spot_seen seen = { .time_s = (double)s->t * s->play->tick_s,
                                    .forecast = spot_fleet_seen_step(o->seen, s->room),
                                    .fleet = &now };
    struct spot_action action;

    for (size_t z = 0; z < s->play->n_zone; z++)
        o->ready[z] = 0;
    for (size_t i = 0; i < s->n_unit; i++)
        o->ready[s->unit[i].zone] += spot_fleet_is_ready(s, s->unit[i].born);
    if (spot_policy_fleet.observe(o->decider, &seen, err) ||
        spot_policy_fleet.decide(o->decider, &action, NULL, err))
        return -1;
    carry_out(s, &action.fleet);
    if (s->step)
        spot_policy_fleet.save(o->decider, s->step[s->t].state);
    return 0;
}
