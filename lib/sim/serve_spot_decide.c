/* SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdlib.h>

#include "sim/serve_spot_state.h"
#include "trace/load_seen.h"

#define PRIOR_LOSSES     1.0
#define PRIOR_INSTANCE_S 36000.0
#define PRIOR_ARRIVALS_S 300.0
#define ANSWER_KEEPS_S   600.0

static int64_t count_there(const struct spot_serve_run *r)
{
    int64_t n = 0;

    for (size_t i = 0; i < r->n_present; i++) {
        const size_t k = r->present[i];

        n += r->member[k].state != SPOT_MEMBER_ABSENT && isinf(r->member[k].loss_s);
    }
    return n;
}

/* --- what is asked --- */

/* Before anything is known: half of what the most can answer. */
static double first_rate(const struct spot_serve_run *r, int64_t instances)
{
    struct spot_serve_choice c;
    const struct spot_job_serve *s = &r->play->job->serve;

    if (r->play->rate_per_s > 0)
        return r->play->rate_per_s;
    return spot_serve_choose(s, instances * s->gpus, INFINITY, &c) ? 0 : c.request_per_s / 2;
}

static struct spot_serve_demand demand(const struct spot_serve_run *r, int64_t instances)
{
    const struct spot_serve_play *p = r->play;
    const double full = (double)(r->now.D * p->job->serve.max_batch);
    const double waiting = (double)spot_serve_queue_waiting(r->queue);
    const double elapsed_s = fmin(r->now_s - p->start_s, SPOT_RATE_WINDOW_S);
    const double prior_s = PRIOR_ARRIVALS_S - elapsed_s;
    struct spot_serve_demand d = { .backlog = fmax(waiting - full, 0) };

    if (r->is_clairvoyant) {
        const double to_s = fmax(r->now_s + SPOT_RATE_WINDOW_S, p->start_s + 1);

        d.rate_per_s = (double)spot_load_arrivals(p->load, r->now_s, to_s) / (to_s - r->now_s);
        d.dispersion = spot_load_dispersion_seen(p->load, r->now_s, r->now_s + 3600);
        return d;
    }
    d.rate_per_s = spot_load_rate_seen(p->load, p->start_s, r->now_s, SPOT_RATE_WINDOW_S);
    if (prior_s > 0)
        d.rate_per_s =
            (d.rate_per_s * elapsed_s + first_rate(r, instances) * prior_s) / (elapsed_s + prior_s);
    d.dispersion = spot_load_dispersion_seen(p->load, p->start_s, r->now_s);
    return d;
}

/* From the lengths of arrived requests, if they matter. */
static void see_lengths(struct spot_serve_run *r)
{
    const struct spot_load *load = r->play->load;
    const size_t n = spot_serve_knows_lengths(&r->play->job->serve)
                         ? spot_load_arrivals(load, -INFINITY, r->now_s)
                         : 0;

    r->n_length = n < SPOT_SERVE_LENGTHS_MAX ? n : SPOT_SERVE_LENGTHS_MAX;
    for (size_t i = 0; i < r->n_length; i++)
        r->length[i] = (struct spot_serve_length){ load->prompt_token[n - r->n_length + i],
                                                   load->output_token[n - r->n_length + i] };
}

static struct spot_serve_ask make_ask(const struct spot_serve_run *r)
{
    const struct spot_serve_play *p = r->play;
    const int64_t n = count_there(r);
    const struct spot_grid next = { r->answer.D, r->answer.shape.P, r->answer.shape.M };
    const double loss_per_s =
        ((double)r->n_losses + PRIOR_LOSSES) / (r->there_s + PRIOR_INSTANCE_S);

    return (struct spot_serve_ask){
        .serve = &p->job->serve,
        .usd_per_h = p->job->cost.usd_per_h,
        .instances = n,
        .demand = demand(r, n),
        .slo = p->slo,
        .length = r->length,
        .n_length = r->n_length,
        .loss_per_s = r->is_clairvoyant ? 0 : loss_per_s,
        .repair_s = p->boot_s + p->switch_s,
        .current_D = spot_serve_run_live_units(r) ? r->now.D : 0,
        .current = r->now.shape,
        .switch_s = r->has_answer ? spot_serve_run_move_s(r, &next, 0) : p->switch_s,
        .stay_s = fmin(fmax(1 / (loss_per_s * fmax((double)n, 1)), 60), 3600),
    };
}

static bool is_near(double a, double b, double share)
{
    return fabs(a - b) <= share * fmax(a, b);
}

/* Is the last answer good enough for this question? */
static bool is_answered(const struct spot_serve_run *r, const struct spot_serve_ask *ask)
{
    const struct spot_serve_ask *was = &r->asked;

    return r->has_answer && r->now_s - r->asked_at_s < ANSWER_KEEPS_S &&
           was->instances == ask->instances && was->current_D == ask->current_D &&
           was->current.P == ask->current.P && was->current.M == ask->current.M &&
           is_near(was->demand.rate_per_s, ask->demand.rate_per_s, 0.03) &&
           is_near(was->demand.dispersion, ask->demand.dispersion, 0.1) &&
           fabs(was->demand.backlog - ask->demand.backlog) <=
               (double)ask->serve->max_batch + 0.1 * was->demand.backlog;
}

/* --- members --- */

/* Hold n more: those that just came at once, others boot. */
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

/* Give n of the free back: those first that leave first, where that is known. */
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
    int64_t free, boots, healthy; /* members; members of units that will stay */
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
    ask_for(r, (target - has) * each - c.free - c.boots); /* those that just came are here now */
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

/* --- another shape --- */

/* Members of all units are its own to place, and the free. True if there are enough. */
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
    struct spot_serve_ask ask;

    see_lengths(r);
    ask = make_ask(r);
    if (r->is_reshaping)
        return;
    spot_serve_run_end_drained(r);
    if (!is_answered(r, &ask)) {
        if (spot_serve_offer_best(&ask, &r->answer))
            return;
        r->asked = ask;
        r->asked_at_s = r->now_s;
        r->has_answer = true;
    }
    if (!ask.current_D ||
        (r->answer.shape.P == r->now.shape.P && r->answer.shape.M == r->now.shape.M))
        resize(r, &r->answer);
    else
        reshape(r, &r->answer);
}
