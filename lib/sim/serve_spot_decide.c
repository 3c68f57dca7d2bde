/* SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdio.h>

#include "common/xalloc.h"

#include "sim/serve_spot_state.h"
#include "trace/load_seen.h"

static int64_t count_there(const struct spot_serve_run *r)
{
    int64_t n = 0;

    for (size_t i = 0; i < r->n_present; i++) {
        const size_t k = r->present[i];

        n += r->member[k].state != SPOT_MEMBER_ABSENT && isinf(r->member[k].loss_s);
    }
    return n;
}

/* --- input of the decision --- */

/* Compute the joint losses that spot-predict would give now. */
static void see_places(struct spot_serve_run *r)
{
    const struct spot_forecast *f = r->seen ? spot_seen_shocks_at(r->seen, r->now_s) : NULL;

    r->n_place = f ? f->n_series : 0;
    for (size_t i = 0; i < r->n_place; i++) {
        const struct spot_forecast_series *s = &f->series[i];

        r->place[i] = (struct spot_serve_place){ (double)s->now, s->shock->own_per_h,
                                                 s->shock->shock_per_h, s->shock->reach };
    }
}

/* The current observation; the clairvoyant also gets the future. */
static struct spot_serve_seen see(struct spot_serve_run *r)
{
    const struct spot_serve_play *p = r->play;
    const struct spot_grid next = { r->answer.D, r->answer.shape.P, r->answer.shape.M };
    struct spot_serve_seen seen;

    see_places(r);
    seen = (struct spot_serve_seen){
        .since_s = p->start_s,
        .load = p->load,
        .cached_token = r->cached,
        .rate_per_s = -1,
        .lost = (double)r->n_losses,
        .instance_s = r->there_s,
        .loss_per_s = -1,
        .place = r->place,
        .n_place = r->n_place,
        .is_forewarned = r->is_clairvoyant,
        .waiting = (double)spot_serve_queue_waiting(r->queue),
        .runs = { spot_serve_run_live_units(r) ? r->now.D : 0, r->now.shape.P, r->now.shape.M },
        .switch_s = r->answer.D ? spot_serve_run_move_s(r, &next, 0) : p->switch_s,
    };

    if (r->is_clairvoyant) {
        const double to_s = fmax(r->now_s + SPOT_SERVE_WINDOW_S, p->start_s + 1);

        seen.rate_per_s = (double)spot_load_arrivals(p->load, r->now_s, to_s) / (to_s - r->now_s);
        seen.dispersion = spot_load_dispersion_seen(p->load, r->now_s, r->now_s + 3600);
    }
    return seen;
}

/* Add the decision to the steps; a later one in the same interval replaces it. */
static void note_decision(struct spot_serve_run *r, const struct spot_serve_seen *seen,
                          int64_t there, const char *state, bool is_made)
{
    struct spot_serve_result *result = r->result;
    const double every_s = r->play->note_every_s;
    struct spot_serve_decided *d;

    if (!(every_s > 0))
        return;
    d = result->n_decided ? &result->decided[result->n_decided - 1] : NULL;
    if (!d || ceil((r->now_s - r->play->start_s) / every_s) >
                  ceil((d->time_s - r->play->start_s) / every_s)) {
        result->decided = spot_xgrow(result->decided, &result->decided_cap, result->n_decided + 1,
                                     sizeof(*result->decided));
        d = &result->decided[result->n_decided++];
    }
    *d = (struct spot_serve_decided){
        .time_s = r->now_s, .there = there, .waiting = (int64_t)seen->waiting, .runs = seen->runs
    };
    if (is_made)
        d->asked = (struct spot_grid){ r->answer.D, r->answer.shape.P, r->answer.shape.M };
    d->spares = is_made ? r->answer.spares : 0;
    snprintf(d->state, sizeof(d->state), "%s", state);
}

/* Ask for a decision. False: the instances present cannot hold the model. */
static bool ask(struct spot_serve_run *r)
{
    const struct spot_serve_seen seen = see(r);
    const struct spot_seen all = { .time_s = r->now_s,
                                   .there = (int)count_there(r),
                                   .serve = &seen };
    char state[SPOT_DECISION_STATE_MAX] = "";
    struct spot_action action;
    bool is_made;

    if (r->play->note_every_s > 0)
        spot_policy_serve.save(r->decider, state);
    is_made = !spot_policy_serve.observe(r->decider, &all, NULL) &&
              !spot_policy_serve.decide(r->decider, &action, NULL, NULL);
    if (is_made)
        r->answer = action.serve;
    note_decision(r, &seen, all.there, state, is_made);
    return is_made;
}

/* --- members --- */

/* Hold n more instances: new ones at once, others after booting. */
static void ask_for(struct spot_serve_run *r, int64_t n)
{
    while (n-- > 0) {
        struct spot_sim_member *best = NULL;

        for (size_t i = 0; i < r->n_present; i++) {
            const size_t k = r->present[i];
            struct spot_sim_member *m = &r->member[k];

            if (m->state != SPOT_MEMBER_OFFERED || !isinf(m->loss_s))
                continue;
            if (!best || (r->is_clairvoyant && m->true_loss_s > best->true_loss_s) ||
                (!r->is_clairvoyant && m->came_s > best->came_s))
                best = m;
        }
        if (!best)
            return;
        if (!r->is_started || best->came_s >= r->now_s) {
            best->state = SPOT_MEMBER_HELD;
            continue;
        }
        best->state = SPOT_MEMBER_BOOTS;
        spot_serve_run_task(r, r->now_s + r->play->boot_s, SPOT_TASK_BOOTED,
                            (size_t)(best - r->member), 0, 0);
    }
}

/* Return n free members, first those that leave first, if that is known. */
static void give_back(struct spot_serve_run *r, int64_t n)
{
    while (n-- > 0) {
        struct spot_sim_member *best = NULL;

        for (size_t i = 0; i < r->n_present; i++) {
            const size_t k = r->present[i];

            if (spot_serve_run_is_free(r, k) &&
                (!best || (r->is_clairvoyant && r->member[k].true_loss_s < best->true_loss_s)))
                best = &r->member[k];
        }
        if (!best)
            return;
        best->state = SPOT_MEMBER_OFFERED;
    }
}

struct census {
    int64_t free, boots, healthy; /* free and booting members; members of units that will stay */
};

static bool is_doomed(const struct spot_serve_run *r, const struct spot_unit *u)
{
    for (size_t i = 0; i < u->n_member; i++) {
        const struct spot_sim_member *m = &r->member[u->member[i]];

        if (!isinf(m->loss_s) && !m->has_replacement)
            return true;
    }
    return false;
}

static struct census count(const struct spot_serve_run *r)
{
    struct census c = { 0 };

    for (size_t i = 0; i < r->n_present; i++) {
        const size_t k = r->present[i];
        c.free += spot_serve_run_is_free(r, k);
        c.boots += r->member[k].state == SPOT_MEMBER_BOOTS;
        c.healthy += r->member[k].state == SPOT_MEMBER_HELD && isinf(r->member[k].loss_s) &&
                     r->member[k].unit != SPOT_NO_UNIT;
    }
    return c;
}

/* --- the same shape: more or fewer units --- */

static int64_t healthy_units(const struct spot_serve_run *r)
{
    int64_t n = 0;

    for (size_t k = r->first_unit; k < r->n_unit; k++)
        n += r->unit[k].state != SPOT_UNIT_GONE && !r->unit[k].drains && !is_doomed(r, &r->unit[k]);
    return n;
}

static bool take_back_a_drained(struct spot_serve_run *r)
{
    for (size_t k = r->first_unit; k < r->n_unit; k++) {
        const struct spot_unit *u = &r->unit[k];

        if (u->state == SPOT_UNIT_GONE || !u->drains || is_doomed(r, u))
            continue;
        spot_serve_run_drain(r, k, false);
        return true;
    }
    return false;
}

static void drain_one(struct spot_serve_run *r)
{
    for (size_t k = r->n_unit; k-- > r->first_unit;) {
        const struct spot_unit *u = &r->unit[k];

        if (u->state == SPOT_UNIT_GONE || u->drains || is_doomed(r, u))
            continue;
        spot_serve_run_drain(r, k, true);
        r->result->changes++;
        break;
    }
    spot_serve_run_end_drained(r);
}

static void resize(struct spot_serve_run *r, const struct spot_serve_offer *o)
{
    const struct spot_job_serve *s = &r->play->job->serve;
    const int64_t target = o->D / spot_serve_unit_pipelines(s, &o->shape);
    const int64_t each = spot_serve_unit_instances(s, &o->shape);
    struct census c = count(r);
    int64_t lacks, has = healthy_units(r);

    r->now = *o;
    spot_serve_queue_pace(r->queue, o->pace_s);
    /* those that just arrived are included now */
    ask_for(r, (target - has) * each - c.free - c.boots);
    for (; has < target && (take_back_a_drained(r) || spot_serve_run_form(r)); has++)
        ;
    for (; has > target; has--)
        drain_one(r);
    c = count(r);
    lacks = (target - has) * each + o->spares - c.free - c.boots;
    ask_for(r, lacks);
    if (lacks < 0)
        give_back(r, -lacks);
}

/* --- a new shape --- */

/* Change the shape: all units are dissolved, and their members and the free ones are placed again.
 * True if there are enough. */
static bool reshape(struct spot_serve_run *r, const struct spot_serve_offer *o)
{
    const struct spot_grid to = { o->D, o->shape.P, o->shape.M };
    const double switch_s = spot_serve_run_move_s(r, &to, 0);
    struct census c = count(r);
    double from_s = INFINITY;

    ask_for(r, o->instances + o->spares - c.free - c.healthy - c.boots);
    c = count(r);
    if (c.free + c.healthy < o->instances)
        return false;
    for (size_t i = 0; i < r->n_present; i++) {
        const struct spot_sim_member *m = &r->member[r->present[i]];

        if (m->unit != SPOT_NO_UNIT && !m->has_replacement)
            from_s = fmin(from_s, m->loss_s - switch_s);
    }
    from_s = isinf(from_s) ? r->now_s : fmax(from_s, r->now_s);
    r->next = *o;
    r->is_reshaping = true;
    spot_serve_run_task(r, from_s, SPOT_TASK_STOP, 0, 0, 0);
    spot_serve_run_task(r, from_s + switch_s, SPOT_TASK_RESHAPE, 0, 0, 0);
    r->result->changes++;
    return true;
}

void spot_serve_run_decide(struct spot_serve_run *r)
{
    if (r->is_reshaping)
        return;
    spot_serve_run_end_drained(r);
    if (!ask(r))
        return;
    if (!spot_serve_run_live_units(r) ||
        (r->answer.shape.P == r->now.shape.P && r->answer.shape.M == r->now.shape.M))
        resize(r, &r->answer);
    else
        reshape(r, &r->answer);
}
