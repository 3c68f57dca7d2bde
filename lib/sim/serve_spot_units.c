/* SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "sim/serve_spot_state.h"

void spot_serve_run_task(struct spot_serve_run *r, double time_s, enum spot_task_kind kind,
                         size_t a, size_t b, size_t c)
{
    r->task = spot_xgrow(r->task, &r->task_cap, r->n_task + 1, sizeof(*r->task));
    r->task[r->n_task++] = (struct spot_task){ time_s, kind, a, b, c };
}

bool spot_serve_run_is_free(const struct spot_serve_run *r, size_t k)
{
    const struct spot_sim_member *m = &r->member[k];

    return m->state == SPOT_MEMBER_HELD && m->unit == SPOT_NO_UNIT && isinf(m->loss_s);
}

size_t spot_serve_run_live_units(const struct spot_serve_run *r)
{
    size_t n = 0;

    for (size_t k = r->first_unit; k < r->n_unit; k++)
        n += r->unit[k].state != SPOT_UNIT_GONE && !r->unit[k].drains;
    return n;
}

static bool any_up(const struct spot_serve_run *r)
{
    for (size_t k = r->first_unit; k < r->n_unit; k++)
        if (r->unit[k].state == SPOT_UNIT_UP || r->unit[k].state == SPOT_UNIT_PAUSED)
            return true;
    return false;
}

/* --- times --- */

static struct spot_batch_time time_batch(void *user, const size_t *request, size_t n)
{
    const struct spot_shape_times *times = user;

    if (times->is_by_request)
        return spot_serve_batch_time(times->batches, &times->fit[n], request, n);
    return times->time[n];
}

static struct spot_shape_times *new_times(const struct spot_serve_run *r,
                                          const struct spot_serve_shape *shape)
{
    const struct spot_job_serve *s = &r->play->job->serve;
    struct spot_shape_times *times = spot_xcalloc(1, sizeof(*times));

    times->batches = &r->batches;
    times->is_by_request = spot_serve_knows_lengths(s) || s->n_spread || r->batches.served;

    times->shape = *shape;
    times->max_batch = (size_t)s->max_batch;
    for (size_t n = 1; n <= times->max_batch; n++) {
        struct spot_serve_shape g = *shape;
        struct spot_serve_time t = { 0 };

        spot_serve_soonest(s, &g, (int64_t)n, &t);
        times->fit[n] = g;
        times->time[n] = (struct spot_batch_time){
            .first_s = t.prefill_s + t.decode_s,
            .each_s = t.decode_s,
            .last_s = t.request_s - t.prefill_s - t.decode_s * (double)s->output_token,
        };
    }
    return times;
}

static struct spot_replica_law law_of(struct spot_serve_run *r)
{
    const struct spot_serve_shape *g = &r->now.shape;
    size_t i = 0;

    while (i < r->n_times && (r->times[i]->shape.P != g->P || r->times[i]->shape.M != g->M))
        i++;
    if (i == r->n_times) {
        r->times =
            spot_xgrow(r->times, &r->times_cap, r->n_times + 1, sizeof(struct spot_shape_times *));
        r->times[r->n_times++] = new_times(r, g);
    }
    return (struct spot_replica_law){ time_batch, r->times[i], r->times[i]->max_batch };
}

/* --- units --- */

void spot_serve_run_set_up(struct spot_serve_run *r, size_t k)
{
    struct spot_unit *u = &r->unit[k];
    const struct spot_replica_law law = law_of(r);

    if (u->state != SPOT_UNIT_FILLS)
        return;
    u->state = SPOT_UNIT_UP;
    for (size_t i = 0; i < u->n_replica; i++) {
        u->replica[i] = spot_serve_queue_add(r->queue, &law);
        if (u->drains)
            spot_serve_queue_drain(r->queue, u->replica[i], true);
    }
}

/* Also frees members that are about to take a place in the unit. */
static void free_members(struct spot_serve_run *r, size_t unit)
{
    struct spot_unit *u = &r->unit[unit];

    for (size_t i = 0; i < r->n_present; i++)
        if (r->member[r->present[i]].unit == unit)
            r->member[r->present[i]].unit = SPOT_NO_UNIT;
    free(u->member);
    free(u->replica);
    u->member = u->replica = NULL;
    u->n_member = u->n_replica = 0;
    u->state = SPOT_UNIT_GONE;
    while (r->first_unit < r->n_unit && r->unit[r->first_unit].state == SPOT_UNIT_GONE)
        r->first_unit++;
}

void spot_serve_run_drop(struct spot_serve_run *r, size_t k)
{
    struct spot_unit *u = &r->unit[k];

    if (u->state == SPOT_UNIT_GONE)
        return;
    for (size_t i = 0; i < u->n_replica && u->state != SPOT_UNIT_FILLS; i++)
        spot_serve_queue_lose(r->queue, u->replica[i]);
    free_members(r, k);
}

void spot_serve_run_drain(struct spot_serve_run *r, size_t k, bool drains)
{
    struct spot_unit *u = &r->unit[k];

    if (u->state == SPOT_UNIT_GONE)
        return;
    u->drains = drains;
    for (size_t i = 0; i < u->n_replica && u->state != SPOT_UNIT_FILLS; i++)
        spot_serve_queue_drain(r->queue, u->replica[i], drains);
}

void spot_serve_run_end_drained(struct spot_serve_run *r)
{
    for (size_t k = r->first_unit; k < r->n_unit; k++) {
        struct spot_unit *u = &r->unit[k];
        bool is_idle = u->drains && (u->state == SPOT_UNIT_UP || u->state == SPOT_UNIT_FILLS);

        for (size_t i = 0; i < u->n_replica && u->state == SPOT_UNIT_UP; i++)
            is_idle = is_idle && spot_serve_queue_is_idle(r->queue, u->replica[i]);
        if (is_idle)
            spot_serve_run_drop(r, k);
    }
}

static size_t add_unit(struct spot_serve_run *r, const size_t *member, size_t n_member)
{
    const struct spot_job_serve *s = &r->play->job->serve;
    struct spot_unit *u;

    r->unit = spot_xgrow(r->unit, &r->unit_cap, r->n_unit + 1, sizeof(*r->unit));
    u = &r->unit[r->n_unit];
    *u = (struct spot_unit){ .n_member = n_member,
                             .n_replica = (size_t)spot_serve_unit_pipelines(s, &r->now.shape) };
    u->replica = spot_xcalloc(u->n_replica, sizeof(*u->replica));
    u->member = spot_xcalloc(n_member, sizeof(*u->member));
    memcpy(u->member, member, n_member * sizeof(*member));
    for (size_t i = 0; i < n_member; i++)
        r->member[member[i]].unit = r->n_unit;
    return r->n_unit++;
}

/* Pick n free members, first those that stay longest, if that is known. False: too few. */
static bool pick_free(const struct spot_serve_run *r, size_t *pick, size_t n)
{
    size_t found = 0;

    for (size_t i = 0; i < r->n_present && (found < n || r->is_clairvoyant); i++) {
        const size_t k = r->present[i];
        size_t at = found;

        if (!spot_serve_run_is_free(r, k))
            continue;
        while (r->is_clairvoyant && at &&
               r->member[pick[at - 1]].true_loss_s < r->member[k].true_loss_s)
            at--;
        if (at == n)
            continue;
        found += found < n;
        memmove(pick + at + 1, pick + at, (found - at - 1) * sizeof(*pick));
        pick[at] = k;
    }
    return found == n;
}

double spot_serve_run_move_s(const struct spot_serve_run *r, const struct spot_grid *to,
                             int64_t lost)
{
    const struct spot_job_serve *s = &r->play->job->serve;
    const struct spot_grid from = { r->now.D, r->now.shape.P, r->now.shape.M };
    const int64_t used = (spot_grid_size(&from) + s->gpus - 1) / s->gpus;
    const int64_t wants = (spot_grid_size(to) + s->gpus - 1) / s->gpus;

    return r->now.D ? spot_serve_play_move_s(
                          r->play,
                          &(struct spot_serve_change){ from, *to, used, lost,
                                                       wants > used ? wants - used + lost : lost })
                    : r->play->switch_s;
}

bool spot_serve_run_form(struct spot_serve_run *r)
{
    const struct spot_serve_play *p = r->play;
    const size_t n = (size_t)spot_serve_unit_instances(&p->job->serve, &r->now.shape);
    size_t *pick = spot_xcalloc(n, sizeof(*pick));
    const bool is_enough = pick_free(r, pick, n);

    if (is_enough) {
        const struct spot_grid more = { r->now.D + spot_serve_unit_pipelines(&p->job->serve,
                                                                             &r->now.shape),
                                        r->now.shape.P, r->now.shape.M };
        const double fill_s = !r->is_started ? 0
                              : any_up(r)    ? spot_serve_run_move_s(r, &more, 0)
                                             : p->load_s;
        const size_t unit = add_unit(r, pick, n);

        spot_serve_run_task(r, r->now_s + fill_s, SPOT_TASK_UP, unit, 0, 0);
        r->result->changes++;
    }
    free(pick);
    return is_enough;
}

/* --- hand over one place --- */

void spot_serve_run_pause(struct spot_serve_run *r, size_t k)
{
    struct spot_unit *u = &r->unit[k];

    if (u->state != SPOT_UNIT_UP)
        return;
    u->state = SPOT_UNIT_PAUSED;
    for (size_t i = 0; i < u->n_replica; i++)
        spot_serve_queue_pause(r->queue, u->replica[i]);
}

void spot_serve_run_swap(struct spot_serve_run *r, size_t k, size_t to, size_t from)
{
    struct spot_unit *u = &r->unit[k];
    bool is_whole = true;

    if (u->state == SPOT_UNIT_GONE || r->is_reshaping)
        return;
    if (r->member[to].state != SPOT_MEMBER_HELD || r->member[to].unit != k) {
        r->member[from].has_replacement = false;
        if (r->member[from].state == SPOT_MEMBER_ABSENT) /* both are lost */
            spot_serve_run_drop(r, k);
        return;
    }
    for (size_t i = 0; i < u->n_member; i++) {
        if (u->member[i] == from)
            u->member[i] = to;
        is_whole = is_whole && !r->member[u->member[i]].has_replacement;
    }
    r->member[from].unit = SPOT_NO_UNIT;
    r->member[from].has_replacement = false;
    if (u->state != SPOT_UNIT_PAUSED || !is_whole)
        return;
    u->state = SPOT_UNIT_UP;
    for (size_t i = 0; i < u->n_replica; i++)
        spot_serve_queue_resume(r->queue, u->replica[i], NULL);
    r->result->changes++;
}

/* --- a new shape for all --- */

void spot_serve_run_stop_all(struct spot_serve_run *r)
{
    for (size_t k = r->first_unit; k < r->n_unit; k++)
        spot_serve_run_pause(r, k);
}

struct paused {
    size_t replica;
    int64_t progress;
};

static int by_progress(const void *a, const void *b)
{
    const struct paused *x = a, *y = b;

    if (x->progress != y->progress)
        return x->progress > y->progress ? -1 : 1;
    return x->replica < y->replica ? -1 : x->replica > y->replica;
}

/* Collect the paused replicas, those with the most tokens first, and dissolve their units. */
static struct paused *collect(struct spot_serve_run *r, size_t *n)
{
    struct paused *list = NULL;
    size_t cap = 0;

    *n = 0;
    for (size_t k = r->first_unit; k < r->n_unit; k++) {
        struct spot_unit *u = &r->unit[k];

        for (size_t i = 0; i < u->n_replica && u->state == SPOT_UNIT_PAUSED; i++) {
            list = spot_xgrow(list, &cap, *n + 1, sizeof(*list));
            list[(*n)++] = (struct paused){ u->replica[i],
                                            spot_serve_queue_progress(r->queue, u->replica[i]) };
        }
        if (u->state != SPOT_UNIT_GONE)
            free_members(r, k);
    }
    if (list)
        qsort(list, *n, sizeof(*list), by_progress);
    return list;
}

void spot_serve_run_reshape(struct spot_serve_run *r)
{
    const size_t target =
        (size_t)(r->next.D / spot_serve_unit_pipelines(&r->play->job->serve, &r->next.shape));
    size_t n, used = 0;
    struct paused *list = collect(r, &n);
    struct spot_replica_law law;

    r->now = r->next;
    r->is_reshaping = false;
    law = law_of(r);
    for (size_t i = 0; i < r->n_present; i++)
        r->member[r->present[i]].has_replacement = false;
    while (spot_serve_run_live_units(r) < target && spot_serve_run_form(r)) {
        struct spot_unit *u = &r->unit[r->n_unit - 1];

        r->n_task--; /* the task's weights have arrived */
        u->state = SPOT_UNIT_UP;
        for (size_t i = 0; i < u->n_replica; i++) {
            if (used < n) {
                u->replica[i] = list[used++].replica;
                spot_serve_queue_drain(r->queue, u->replica[i], false);
                spot_serve_queue_resume(r->queue, u->replica[i], &law);
            } else {
                u->replica[i] = spot_serve_queue_add(r->queue, &law);
            }
        }
    }
    while (used < n)
        spot_serve_queue_lose(r->queue, list[used++].replica);
    free(list);
}

void spot_serve_run_release(struct spot_serve_run *r)
{
    for (size_t k = 0; k < r->n_unit; k++) {
        free(r->unit[k].member);
        free(r->unit[k].replica);
    }
    for (size_t i = 0; i < r->n_times; i++)
        free(r->times[i]);
    free(r->times);
    free(r->unit);
    free(r->task);
    free(r->member);
    free(r->present);
    free(r->cached);
    free(r->place);
    spot_seen_free(r->seen);
    spot_policy_serve.close(r->decider);
    spot_serve_queue_free(r->queue);
}
