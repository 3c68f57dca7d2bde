/* SPDX-License-Identifier: MIT */
#include "sim/serve_spot.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "sim/serve_spot_state.h"
#include "trace/load_cache.h"

enum { INTERVAL_S = 60 }; /* interval of spot-predict's grid */

/* --- handing over one place --- */

static size_t find_free(const struct spot_serve_run *r)
{
    size_t best = SIZE_MAX;

    for (size_t i = 0; i < r->n_present; i++) {
        const size_t k = r->present[i];

        if (spot_serve_run_is_free(r, k) &&
            (best == SIZE_MAX ||
             (r->is_clairvoyant && r->member[k].true_loss_s > r->member[best].true_loss_s)))
            best = k;
    }
    return best;
}

/* A spare takes the place of a leaving member: its weights are loaded while the others answer, and
 * the current answers move in a short pause at the end. */
static bool replace(struct spot_serve_run *r, size_t leaver)
{
    const struct spot_serve_play *p = r->play;
    struct spot_sim_member *m = &r->member[leaver];
    const size_t unit = m->unit, spare = find_free(r);
    const struct spot_grid same = { r->now.D, r->now.shape.P, r->now.shape.M };
    const double done_s = r->now_s + spot_serve_run_move_s(r, &same, 1);

    if (spare == SIZE_MAX)
        return false;
    r->member[spare].unit = unit;
    m->has_replacement = true;
    if (r->unit[unit].state == SPOT_UNIT_UP)
        spot_serve_run_task(r, fmax(r->now_s, fmin(m->loss_s, done_s) - p->hand_s), SPOT_TASK_PAUSE,
                            unit, 0, 0);
    spot_serve_run_task(r, done_s, SPOT_TASK_SWAP, unit, spare, leaver);
    return true;
}

static void replace_doomed(struct spot_serve_run *r)
{
    for (size_t i = 0; i < r->n_present && !r->is_reshaping; i++) {
        const size_t k = r->present[i];
        const struct spot_sim_member *m = &r->member[k];

        if (m->state == SPOT_MEMBER_HELD && m->unit != SPOT_NO_UNIT && !isinf(m->loss_s) &&
            !m->has_replacement && !replace(r, k))
            return;
    }
}

/* --- events --- */

static void on_task(struct spot_serve_run *r, const struct spot_task *t)
{
    switch (t->kind) {
    case SPOT_TASK_BOOTED:
        if (r->member[t->a].state == SPOT_MEMBER_BOOTS)
            r->member[t->a].state = SPOT_MEMBER_HELD;
        replace_doomed(r);
        spot_serve_run_decide(r);
        break;
    case SPOT_TASK_UP:
        spot_serve_run_set_up(r, t->a);
        break;
    case SPOT_TASK_DRAIN:
        spot_serve_run_drain(r, t->a, true);
        break;
    case SPOT_TASK_PAUSE:
        spot_serve_run_pause(r, t->a);
        break;
    case SPOT_TASK_SWAP:
        spot_serve_run_swap(r, t->a, t->b, t->c);
        break;
    case SPOT_TASK_STOP:
        spot_serve_run_stop_all(r);
        break;
    case SPOT_TASK_RESHAPE:
        spot_serve_run_reshape(r);
        spot_serve_run_decide(r);
        break;
    }
}

static void on_notice(struct spot_serve_run *r, size_t k, double loss_s)
{
    struct spot_sim_member *m = &r->member[k];
    double drain_s;

    m->loss_s = loss_s;
    if (m->unit == SPOT_NO_UNIT) {
        if (m->state != SPOT_MEMBER_ABSENT)
            m->state = SPOT_MEMBER_OFFERED;
        return;
    }
    if (r->is_reshaping || replace(r, k))
        return;
    drain_s = fmax(r->now_s, loss_s - r->now.request_s);
    spot_serve_run_task(r, drain_s, SPOT_TASK_DRAIN, m->unit, 0, 0);
}

static void on_loss(struct spot_serve_run *r, size_t k)
{
    struct spot_sim_member *m = &r->member[k];
    const size_t unit = m->unit;

    r->n_losses++;
    m->state = SPOT_MEMBER_ABSENT;
    if (unit == SPOT_NO_UNIT)
        return;
    if (r->unit[unit].state == SPOT_UNIT_PAUSED && (r->is_reshaping || m->has_replacement))
        return;
    r->result->changes++;
    spot_serve_run_drop(r, unit);
}

static void on_gain(struct spot_serve_run *r, size_t k)
{
    struct spot_sim_member *m = &r->member[k];
    size_t i = r->n_present++;

    r->present = spot_xgrow(r->present, &r->present_cap, r->n_present, sizeof(*r->present));
    for (; i && r->present[i - 1] > k; i--)
        r->present[i] = r->present[i - 1];
    r->present[i] = k;
    m->state = SPOT_MEMBER_OFFERED;
    m->unit = SPOT_NO_UNIT;
    m->loss_s = m->true_loss_s - r->lead_s <= r->now_s ? m->true_loss_s : INFINITY;
    m->has_replacement = false;
    m->came_s = r->now_s;
}

/* --- time --- */

/* Members that left and belong to no unit are not examined again. */
static void forget_gone(struct spot_serve_run *r)
{
    size_t n = 0;

    for (size_t i = 0; i < r->n_present; i++) {
        const struct spot_sim_member *m = &r->member[r->present[i]];

        if (m->state != SPOT_MEMBER_ABSENT || m->unit != SPOT_NO_UNIT)
            r->present[n++] = r->present[i];
    }
    r->n_present = n;
}

static void advance(struct spot_serve_run *r, double to_s)
{
    const double from_s = fmin(r->now_s, r->play->end_s);
    const double span_s = fmax(fmin(to_s, r->play->end_s) - from_s, 0);

    forget_gone(r);
    for (size_t i = 0; i < r->n_present; i++) {
        const size_t k = r->present[i];
        const enum spot_sim_member_state state = r->member[k].state;

        if (state != SPOT_MEMBER_ABSENT)
            r->there_s += span_s;
        if (state == SPOT_MEMBER_HELD || state == SPOT_MEMBER_BOOTS)
            r->result->instance_s += span_s;
    }
    spot_serve_queue_run(r->queue, to_s);
    r->now_s = to_s;
}

/* The task that is due first, of equal ones the one set first; NULL: none. */
static struct spot_task *first_task(struct spot_serve_run *r)
{
    struct spot_task *first = NULL;

    for (size_t i = 0; i < r->n_task; i++)
        if (!first || r->task[i].time_s < first->time_s)
            first = &r->task[i];
    return first;
}

static void run_task(struct spot_serve_run *r, struct spot_task *task)
{
    const struct spot_task t = *task;

    memmove(task, task + 1, (size_t)(r->task + r->n_task - task - 1) * sizeof(*task));
    r->n_task--;
    on_task(r, &t);
}

struct cursors {
    size_t event, notice;
    double tick_s;
};

static double next_s(struct spot_serve_run *r, struct cursors *c)
{
    const struct spot_serve_play *p = r->play;
    const struct spot_task *task = first_task(r);
    double time_s = c->tick_s;

    while (c->notice < p->n_event && p->event[c->notice].comes)
        c->notice++;
    if (task)
        time_s = fmin(time_s, task->time_s);
    if (c->event < p->n_event)
        time_s = fmin(time_s, p->event[c->event].time_s);
    if (c->notice < p->n_event)
        time_s = fmin(time_s, p->event[c->notice].time_s - r->lead_s);
    return time_s;
}

static bool meet_events(struct spot_serve_run *r, struct cursors *c)
{
    const struct spot_serve_play *p = r->play;
    bool has_changed = false;

    for (; c->event < p->n_event && p->event[c->event].time_s <= r->now_s; c->event++) {
        const struct spot_serve_event *e = &p->event[c->event];

        if (e->comes)
            on_gain(r, e->instance);
        else
            on_loss(r, e->instance);
        has_changed = true;
    }
    for (; c->notice < p->n_event && p->event[c->notice].time_s - r->lead_s <= r->now_s;
         c->notice++) {
        const struct spot_serve_event *e = &p->event[c->notice];

        if (e->comes || r->member[e->instance].state == SPOT_MEMBER_ABSENT)
            continue;
        on_notice(r, e->instance, e->time_s);
        has_changed = true;
    }
    return has_changed;
}

static void note_step(struct spot_serve_run *r)
{
    struct spot_serve_step step = { .time_s = r->now_s,
                                    .D = (int64_t)spot_serve_run_live_units(r) };
    const struct spot_job_serve *s = &r->play->job->serve;

    for (size_t i = 0; i < r->n_present; i++) {
        const size_t k = r->present[i];
        step.there += r->member[k].state != SPOT_MEMBER_ABSENT;
        step.held +=
            r->member[k].state == SPOT_MEMBER_HELD || r->member[k].state == SPOT_MEMBER_BOOTS;
    }
    if (step.D)
        step.D *= spot_serve_unit_pipelines(s, &r->now.shape);
    step.P = r->now.shape.P;
    step.M = r->now.shape.M;
    spot_serve_result_note(r->result, &step);
}

static void play_all(struct spot_serve_run *r)
{
    const struct spot_serve_play *p = r->play;
    struct cursors c = { .tick_s = p->start_s };
    struct spot_task *task;
    double time_s;

    while ((time_s = next_s(r, &c)) < p->end_s) {
        advance(r, fmax(time_s, r->now_s));
        while ((task = first_task(r)) && task->time_s <= r->now_s)
            run_task(r, task);
        if (meet_events(r, &c) || r->now_s >= c.tick_s)
            spot_serve_run_decide(r);
        if (r->now_s >= c.tick_s) {
            c.tick_s = r->now_s + SPOT_TICK_S;
            r->is_started = true;
        }
        note_step(r);
    }
    advance(r, p->end_s);
    while ((task = first_task(r))) { /* tasks in progress still finish */
        if (task->time_s > r->now_s)
            advance(r, task->time_s);
        if (task->kind == SPOT_TASK_BOOTED || task->kind == SPOT_TASK_DRAIN)
            r->n_task--,
                memmove(task, task + 1, (size_t)(r->task + r->n_task - task) * sizeof(*task));
        else
            run_task(r, task);
    }
}

/* --- the whole run --- */

static void start(struct spot_serve_run *r)
{
    const struct spot_serve_play *p = r->play;
    struct spot_serve_queue_rule rule = { .batching = p->rule.batching == SPOT_BATCH_PASSES
                                                          ? SPOT_BATCH_PASSES
                                                          : SPOT_BATCH_SHARED,
                                          .cache_token = p->rule.cache_token,
                                          .sharing = p->job->serve.sharing,
                                          .n_sharing = p->job->serve.n_sharing };

    r->queue = spot_serve_queue_new(p->load, &rule);
    r->cached = spot_load_cached(p->load, rule.cache_token);
    r->batches = spot_serve_play_batches(p, r->queue);
    r->rule = (struct spot_serve_rule){ .job = p->job,
                                        .slo = p->slo,
                                        .window_s = SPOT_SERVE_WINDOW_S,
                                        .rate_per_s = p->rate_per_s,
                                        .boot_s = p->boot_s,
                                        .switch_s = p->switch_s };
    r->decider = spot_policy_serve.open(&(struct spot_rule){ .serve = &r->rule });
    r->now_s = p->start_s;
    if (p->trace) {
        r->seen = spot_seen_new_shocks(p->trace, INTERVAL_S);
        r->place = spot_xcalloc(p->trace->n_series, sizeof(*r->place));
    }
    r->lead_s = r->is_clairvoyant ? p->grace_s + p->boot_s + p->switch_s : p->grace_s;
    for (size_t i = 0; i < p->n_event; i++)
        if (p->event[i].instance >= r->n_member)
            r->n_member = (size_t)p->event[i].instance + 1;
    r->member = spot_xcalloc(r->n_member, sizeof(*r->member));
    for (size_t k = 0; k < r->n_member; k++)
        r->member[k] = (struct spot_sim_member){ .unit = SPOT_NO_UNIT,
                                                 .loss_s = INFINITY,
                                                 .true_loss_s = INFINITY };
    for (size_t i = 0; i < p->n_event; i++)
        if (!p->event[i].comes)
            r->member[p->event[i].instance].true_loss_s = p->event[i].time_s;
}

void spot_serve_spot_run(const struct spot_serve_play *play, bool is_clairvoyant,
                         struct spot_serve_result *result)
{
    struct spot_serve_run r = { .play = play, .result = result, .is_clairvoyant = is_clairvoyant };
    const struct spot_served *served;

    start(&r);
    play_all(&r);
    spot_serve_queue_run(r.queue, INFINITY);
    served = spot_serve_queue_finish(r.queue, &result->totals);
    result->served = spot_xcalloc(play->load->n, sizeof(*result->served));
    memcpy(result->served, served, play->load->n * sizeof(*served));
    spot_serve_run_release(&r);
}
