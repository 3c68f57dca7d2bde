/* SPDX-License-Identifier: MIT */
/* The policy spot: in every tick the forecast that spot-predict would make from the observations,
 * and the decision that spot-plan makes from it (plan/decision.h). */
#include <math.h>
#include <stdlib.h>

#include "common/xalloc.h"
#include "plan/decision.h"
#include "sim/fleet_play.h"
#include "sim/seen.h"

struct ours {
    struct spot_trace own; /* trace of the counts, if the play has none */
    struct spot_seen_trace *seen;
    struct spot_decider *decider;
    size_t *of; /* [n_zone] the zone of each series */
    double *usd_per_h;
    int *spot, *ready; /* [n_zone] in the order of the series */
};

void spot_fleet_ours_open(struct spot_fleet_state *s)
{
    const struct spot_fleet_play *play = s->play;
    struct ours *o = s->own = spot_xcalloc(1, sizeof(*o));
    const struct spot_hold_rule rule = { .on_demand_usd_per_h = play->on_demand_usd_per_h,
                                         .cold = (int)play->cold,
                                         .availability = play->availability };

    if (!play->trace)
        spot_seen_counts(play->count, play->zone, play->type, play->n_zone, play->n_tick,
                         play->tick_s, &o->own);
    o->seen =
        spot_seen_new(play->trace ? play->trace : &o->own, play->tick_s, (int)play->cold, NULL);
    o->decider = spot_policy_fleet.open(&(struct spot_rule){ .fleet = &rule });
    o->of = spot_xcalloc(play->n_zone, sizeof(*o->of));
    o->usd_per_h = spot_xcalloc(play->n_zone, sizeof(*o->usd_per_h));
    o->spot = spot_xcalloc(play->n_zone, sizeof(*o->spot));
    o->ready = spot_xcalloc(play->n_zone, sizeof(*o->ready));
}

void spot_fleet_ours_close(struct spot_fleet_state *s)
{
    struct ours *o = s->own;

    spot_seen_free(o->seen);
    spot_trace_release(&o->own);
    spot_policy_fleet.close(o->decider);
    free(o->of);
    free(o->usd_per_h);
    free(o->spot);
    free(o->ready);
    free(o);
}

/* Launches come last: room that a zone frees cannot be used in the same tick. */
static void carry_out(struct spot_fleet_state *s, const struct spot_hold_step *step, size_t n)
{
    const struct ours *o = s->own;
    const size_t *of = o->of;

    for (size_t k = 0; k < n; k++)
        for (size_t i = s->n_unit; i-- > 0 && s->in_zone[of[k]] > step->spot[k];)
            if (s->unit[i].zone == of[k])
                spot_fleet_end_unit(s, i);
    for (size_t k = 0; k < n; k++)
        while (s->in_zone[of[k]] < step->spot[k] && spot_fleet_launch(s, of[k]))
            continue;
    spot_fleet_set_on_demand(s, (size_t)step->on_demand);
}

/* The running replicas in the order of the series, and the load of past ticks. */
static struct spot_hold_now look(struct spot_fleet_state *s, size_t n)
{
    struct ours *o = s->own;
    const struct spot_fleet_play *play = s->play;
    struct spot_hold_now now = { .wanted = (int)s->wanted,
                                 .load_most = -1,
                                 .usd_per_h = o->usd_per_h,
                                 .spot = o->spot,
                                 .spot_ready = o->ready,
                                 .on_demand = (int)s->n_on_demand,
                                 .on_demand_ready = (int)spot_fleet_standing(s) };

    for (size_t k = 0; k < n; k++) {
        o->usd_per_h[k] = play->usd_per_h[o->of[k]];
        o->spot[k] = s->in_zone[o->of[k]];
        o->ready[k] = 0;
        for (size_t i = 0; i < s->n_unit; i++)
            o->ready[k] += s->unit[i].zone == o->of[k] && spot_fleet_is_ready(s, s->unit[i].born);
    }
    if (play->load && s->t)
        now.load = play->load[s->t - 1];
    for (size_t back = 1; play->load && back <= SPOT_HOLD_LOAD_TICKS && back <= s->t; back++)
        now.load_most = fmax(now.load_most, play->load[s->t - back]);
    return now;
}

int spot_fleet_ours_place(struct spot_fleet_state *s, struct spot_err *err)
{
    struct ours *o = s->own;
    const struct spot_trace *trace = s->play->trace ? s->play->trace : &o->own;
    const double time_s = trace->start_s + (double)s->t * s->play->tick_s;
    const struct spot_forecast *forecast = spot_seen_at(o->seen, time_s, o->of);
    const size_t n = forecast ? forecast->n_series : 0;
    const struct spot_hold_now now = look(s, n);
    const struct spot_seen seen = { .time_s = n ? forecast->series[0].time_s : time_s,
                                    .forecast = forecast,
                                    .fleet = &now };
    struct spot_action action;

    if (spot_policy_fleet.observe(o->decider, &seen, err) ||
        spot_policy_fleet.decide(o->decider, &action, NULL, err))
        return -1;
    carry_out(s, &action.fleet, n);
    if (s->step)
        spot_policy_fleet.save(o->decider, s->step[s->t].state);
    return 0;
}
