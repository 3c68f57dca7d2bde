/* SPDX-License-Identifier: MIT */
#include "peers/serve_peers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "peers/spotserve.h"
#include "sim/serve_spot.h"
#include "trace/load_seen.h"

const struct spot_serve_row spot_serve_row[] = {
    { "rerouting", "one shape of pipeline; one that loses an instance is gone, its requests go "
                   "elsewhere" },
    { "reparallelization", "the rule at every change, all pipelines anew from storage" },
    { "spotserve", "the rule at every change, weights and answers move within the grace period" },
    { "spotserve-released", "the same with the batch overwritten by the largest, as its artifact "
                            "does" },
    { "spot", "ours: least price x P99, or the --slo, by a queueing model; holds what that needs" },
    { "clairvoyant", "ours, told the rate of the next minutes and losses early; no bound" },
    { "on-demand", "on-demand-N: N instances that stay, at their price" },
    { 0 },
};

/* --- one run --- */

#define RATE_WINDOW_S 300
#define ASK_S         30

/* Batch times of a pipeline of one shape. */
struct shape_law {
    const struct spot_serve_batches *batches; /* of the run */
    struct spot_serve_shape shape;
};

/* Replicas that share instances: one pipeline on several, or several on one. */
struct unit {
    size_t *replica; /* [n_replica] of the queue */
    size_t n_replica;
    bool is_up;
    double up_s;        /* when its weights are loaded */
    uint32_t *instance; /* [n_instance] */
    size_t n_instance;
};

struct run {
    const struct spot_serve_play *play;
    struct spot_serve_batches batches;
    struct spot_serve_queue *queue;
    struct shape_law **law; /* [n_law] laws in use; replicas point to them */
    size_t n_law, law_cap;
    struct spot_serve_choice now; /* the current grid; D 0: none */
    struct unit *unit;            /* [n_unit] */
    size_t n_unit, unit_cap;
    uint32_t *spare; /* [n_spare] rerouting: instances that belong to no unit */
    size_t n_spare, spare_cap;
    size_t n_there, changes;
    bool is_released, is_started;
    double asked_s; /* when the rule was last applied only because of the rate */
};

static struct spot_batch_time time_batch(void *user, const size_t *request, size_t n)
{
    const struct shape_law *law = user;

    return spot_serve_batch_time(law->batches, &law->shape, request, n);
}

static struct spot_replica_law law_of(struct run *r)
{
    size_t i = 0;

    while (i < r->n_law && memcmp(&r->law[i]->shape, &r->now.shape, sizeof(r->now.shape)) != 0)
        i++;
    if (i == r->n_law) {
        r->law = spot_xgrow(r->law, &r->law_cap, ++r->n_law, sizeof(struct shape_law *));
        r->law[i] = spot_xcalloc(1, sizeof(struct shape_law));
        *r->law[i] = (struct shape_law){ &r->batches, r->now.shape };
    }
    return (struct spot_replica_law){ time_batch, r->law[i], (size_t)r->now.shape.B };
}

/* Requests per second to keep up with: the given rate, or that of the last minutes. */
static double rate_at(const struct run *r, double time_s)
{
    const struct spot_serve_play *p = r->play;

    return p->rate_per_s > 0 ? p->rate_per_s
                             : spot_load_rate_seen(p->load, p->start_s, time_s, RATE_WINDOW_S);
}

/* True for a server that forms its batches pass by pass: it takes as many requests as fit, whatever
 * the rule says. */
static bool fills_batches(const struct run *r)
{
    return r->is_released || r->play->rule.batching == SPOT_BATCH_PASSES;
}

/* The rule's choice for n instances; D 0: these cannot hold the model. */
static struct spot_serve_choice choose(const struct run *r, size_t n, double time_s)
{
    const struct spot_job_serve *s = &r->play->job->serve;
    struct spot_serve_choice c;

    if (spot_serve_choose(s, (int64_t)n * s->gpus, rate_at(r, time_s), &c))
        return (struct spot_serve_choice){ 0 };
    if (fills_batches(r))
        c.shape.B = s->max_batch;
    return c;
}

static struct unit *add_unit(struct run *r, double up_s, size_t n_replica)
{
    r->unit = spot_xgrow(r->unit, &r->unit_cap, r->n_unit + 1, sizeof(*r->unit));
    r->unit[r->n_unit] = (struct unit){ .up_s = up_s,
                                        .n_replica = n_replica,
                                        .replica = spot_xcalloc(n_replica, sizeof(size_t)) };
    return &r->unit[r->n_unit++];
}

static void drop_unit(struct run *r, size_t k)
{
    struct unit *u = &r->unit[k];

    for (size_t i = 0; i < u->n_replica && u->is_up; i++)
        spot_serve_queue_lose(r->queue, u->replica[i]);
    free(u->replica);
    free(u->instance);
    memmove(u, u + 1, (--r->n_unit - k) * sizeof(*u));
}

/* Advance the clock; units whose weights are loaded by then begin. */
static void run_until(struct run *r, double until_s)
{
    for (;;) {
        struct unit *next = NULL;

        for (size_t i = 0; i < r->n_unit; i++)
            if (!r->unit[i].is_up && r->unit[i].up_s <= until_s &&
                (!next || r->unit[i].up_s < next->up_s))
                next = &r->unit[i];
        if (!next)
            break;
        spot_serve_queue_run(r->queue, next->up_s);
        next->is_up = true;
        for (size_t i = 0; i < next->n_replica; i++) {
            const struct spot_replica_law law = law_of(r);

            next->replica[i] = spot_serve_queue_add(r->queue, &law);
        }
    }
    spot_serve_queue_run(r->queue, until_s);
}

/* All events of one time. */
struct change {
    double time_s;
    const struct spot_serve_event *event; /* [n] */
    size_t n, n_lost, n_gained;
};

/* When weights are loaded from storage; those at the start are ready at once. */
static double ready_s(const struct run *r, double time_s)
{
    return r->is_started ? time_s + r->play->load_s : time_s;
}

/* --- rerouting --- */

static void add_spare(struct run *r, uint32_t instance)
{
    r->spare = spot_xgrow(r->spare, &r->spare_cap, r->n_spare + 1, sizeof(*r->spare));
    r->spare[r->n_spare++] = instance;
}

/* End the instance's unit; its other instances become spare. */
static void lose_instance(struct run *r, uint32_t instance)
{
    for (size_t i = 0; i < r->n_spare; i++)
        if (r->spare[i] == instance) {
            memmove(r->spare + i, r->spare + i + 1, (--r->n_spare - i) * sizeof(*r->spare));
            return;
        }
    for (size_t k = 0; k < r->n_unit; k++)
        for (size_t i = 0; i < r->unit[k].n_instance; i++) {
            const struct unit *u = &r->unit[k];

            if (u->instance[i] != instance)
                continue;
            for (size_t j = 0; j < u->n_instance; j++)
                if (j != i)
                    add_spare(r, u->instance[j]);
            drop_unit(r, k);
            r->changes++;
            return;
        }
}

/* Form as many units from spare instances as possible. */
static void form_units(struct run *r, double time_s)
{
    const int64_t gpus = r->play->job->serve.gpus, size = r->now.shape.P * r->now.shape.M;
    const size_t n = (size_t)((size + gpus - 1) / gpus);
    const size_t n_replica = (size_t)((int64_t)n * gpus / (size ? size : 1));

    while (r->now.D && r->n_spare >= n) {
        struct unit *u = add_unit(r, ready_s(r, time_s), n_replica);

        u->n_instance = n;
        u->instance = spot_xcalloc(n, sizeof(*u->instance));
        memcpy(u->instance, r->spare, n * sizeof(*u->instance));
        memmove(r->spare, r->spare + n, (r->n_spare -= n) * sizeof(*r->spare));
        r->changes++;
    }
}

static void reroute(struct run *r, const struct change *c)
{
    run_until(r, c->time_s);
    for (size_t i = 0; i < c->n; i++)
        if (c->event[i].comes)
            add_spare(r, c->event[i].instance);
        else
            lose_instance(r, c->event[i].instance);
    if (!r->now.D) /* the first instances that hold the model determine the shape for good */
        r->now = choose(r, r->play->capacity ? r->play->capacity : r->n_there, c->time_s);
    form_units(r, c->time_s);
}

/* --- reparallelization --- */

static void reparallelize(struct run *r, const struct change *c)
{
    run_until(r, c->time_s);
    while (r->n_unit)
        drop_unit(r, r->n_unit - 1);
    r->now = choose(r, r->n_there, c->time_s);
    for (int64_t d = 0; d < r->now.D; d++)
        add_unit(r, ready_s(r, c->time_s), 1);
    r->changes++;
}

/* --- spotserve --- */

static int64_t progress(const struct run *r, const struct unit *u)
{
    return u->is_up ? spot_serve_queue_progress(r->queue, u->replica[0]) : -1;
}

/* Replicas with more tokens come first; equal ones keep their order. */
static void sort_units(struct run *r)
{
    for (size_t i = 1; i < r->n_unit; i++)
        for (size_t k = i; k && progress(r, &r->unit[k]) > progress(r, &r->unit[k - 1]); k--) {
            const struct unit u = r->unit[k];

            r->unit[k] = r->unit[k - 1];
            r->unit[k - 1] = u;
        }
}

static void pause_units(struct run *r)
{
    for (size_t k = 0; k < r->n_unit; k++)
        if (r->unit[k].is_up)
            spot_serve_queue_pause(r->queue, r->unit[k].replica[0]);
    sort_units(r);
}

static void resume_units(struct run *r, double time_s)
{
    const struct spot_replica_law law = law_of(r);

    while (r->n_unit > (size_t)r->now.D)
        drop_unit(r, r->n_unit - 1);
    for (size_t k = 0; k < r->n_unit; k++)
        if (r->unit[k].is_up)
            spot_serve_queue_resume(r->queue, r->unit[k].replica[0], &law);
    while (r->n_unit < (size_t)r->now.D)
        add_unit(r, time_s, 1);
    run_until(r, time_s);
}

/* A loss is prepared for during the grace period and takes effect when it happens; new instances
 * are used as soon as their weights are loaded. If the shape stays and no replica ends, the other
 * replicas continue. */
static void switch_over(struct run *r, const struct change *c)
{
    const struct spot_serve_choice old = r->now, new = choose(r, r->n_there, c->time_s);
    const bool same_shape = old.D && !memcmp(&old.shape, &new.shape, sizeof(old.shape));
    const struct spot_serve_change change = {
        .from = { old.D, old.shape.P, old.shape.M },
        .to = { new.D, new.shape.P, new.shape.M },
        .instances = (int64_t)(r->n_there + c->n_lost - c->n_gained),
        .lost = (int64_t)c->n_lost,
        .gained = (int64_t)c->n_gained,
    };
    const double move_s = old.D && new.D ? spot_serve_play_move_s(r->play, &change) : 0;

    if (same_shape && !c->n_lost) {
        run_until(r, c->time_s);
        r->changes += new.D != old.D;
        r->now = new;
        while (r->n_unit < (size_t) new.D)
            add_unit(r, c->time_s + move_s, 1);
        return;
    }
    if (!new.D || !old.D || (c->n_lost && move_s > r->play->grace_s)) {
        reparallelize(r, c);
        return;
    }
    run_until(r, c->n_lost ? c->time_s - move_s : c->time_s);
    pause_units(r);
    spot_serve_queue_run(r->queue, c->n_lost ? c->time_s : c->time_s + move_s);
    r->now = new;
    r->changes += new.D != old.D || !same_shape;
    resume_units(r, c->n_lost ? c->time_s : c->time_s + move_s);
}

/* Add a step to the result. With rerouting a unit may have several pipelines; with other policies
 * it has one. */
static void note_step(const struct run *r, double time_s, struct spot_serve_result *result)
{
    struct spot_serve_step step = { .time_s = time_s,
                                    .there = (int64_t)r->n_there,
                                    .held = (int64_t)r->n_there,
                                    .P = r->now.shape.P,
                                    .M = r->now.shape.M };

    for (size_t k = 0; k < r->n_unit; k++)
        step.D += (int64_t)r->unit[k].n_replica;
    spot_serve_result_note(result, &step);
}

/* If no rate is given, the rule is applied every 30 s as in the paper, if arrivals exceed the
 * grid's capacity. */
static void follow_rate(struct run *r, enum spot_serve_policy policy, double until_s,
                        struct spot_serve_result *result)
{
    const struct spot_serve_play *p = r->play;

    if (policy != SPOT_SERVE_SPOTSERVE || p->rate_per_s > 0)
        return;
    for (; r->asked_s + ASK_S < until_s; r->asked_s += ASK_S) {
        const struct change none = { .time_s = r->asked_s + ASK_S };

        if (r->now.D && r->now.request_per_s < rate_at(r, none.time_s)) {
            switch_over(r, &none);
            note_step(r, none.time_s, result);
        }
    }
}

/* --- all of it --- */

static void start(struct run *r, const struct spot_serve_play *play, enum spot_serve_policy policy)
{
    struct spot_serve_queue_rule rule = play->rule;

    rule.sharing = play->job->serve.sharing;
    rule.n_sharing = play->job->serve.n_sharing;
    *r = (struct run){ .play = play,
                       .queue = spot_serve_queue_new(play->load, &rule),
                       .is_released = policy == SPOT_SERVE_SPOTSERVE_RELEASED };
    r->batches = spot_serve_play_batches(play, r->queue);
}

static void finish(struct run *r, struct spot_serve_result *result)
{
    const size_t n = r->play->load->n;
    const struct spot_served *served;

    run_until(r, r->play->end_s);
    for (size_t k = 0; k < r->n_unit; k++) /* tasks in progress still finish */
        if (!r->unit[k].is_up)
            run_until(r, r->unit[k].up_s);
    spot_serve_queue_run(r->queue, INFINITY);
    served = spot_serve_queue_finish(r->queue, &result->totals);
    result->served = spot_xcalloc(n, sizeof(*result->served));
    memcpy(result->served, served, n * sizeof(*served));
    result->changes = r->changes;
    while (r->n_unit)
        drop_unit(r, r->n_unit - 1);
    for (size_t i = 0; i < r->n_law; i++)
        free(r->law[i]);
    free(r->law);
    free(r->unit);
    free(r->spare);
    spot_serve_queue_free(r->queue);
}

static int run_on_demand(struct run *r, int64_t n, struct spot_err *err)
{
    const struct spot_serve_play *whole = r->play;
    const struct spot_load *load = r->play->load;
    struct spot_serve_play play = *r->play;

    /* a baseline that is configured once, so it may know the mean arrival rate */
    play.rate_per_s = play.rate_per_s > 0 ? play.rate_per_s
                                          : (double)load->n / fmax(load->time_s[load->n - 1], 1);
    r->play = &play;
    r->n_there = (size_t)n;
    r->now = choose(r, r->n_there, play.start_s);
    r->play = whole;
    if (!r->now.D)
        return spot_err_set(err, SPOT_EINFEASIBLE,
                            "on-demand-%lld: %lld of %lld GPUs do not hold "
                            "the model",
                            (long long)n, (long long)n, (long long)r->play->job->serve.gpus);
    for (int64_t d = 0; d < r->now.D; d++)
        add_unit(r, r->play->start_s, 1);
    return 0;
}

static void play_trace(struct run *r, enum spot_serve_policy policy,
                       struct spot_serve_result *result)
{
    const struct spot_serve_play *p = r->play;

    for (size_t i = 0; i < p->n_event;) {
        struct change c = { .time_s = p->event[i].time_s, .event = &p->event[i] };
        double next_s;

        for (; i < p->n_event && p->event[i].time_s <= c.time_s; i++, c.n++) {
            c.n_gained += p->event[i].comes;
            c.n_lost += !p->event[i].comes;
        }
        r->n_there += c.n_gained - c.n_lost;
        if (policy == SPOT_SERVE_REROUTING)
            reroute(r, &c);
        else if (policy == SPOT_SERVE_REPARALLELIZATION)
            reparallelize(r, &c);
        else
            switch_over(r, &c);
        r->is_started = true;
        next_s = i < p->n_event ? p->event[i].time_s : p->end_s;
        r->asked_s = c.time_s;
        note_step(r, c.time_s, result);
        follow_rate(r, policy, next_s - p->grace_s, result);
        result->instance_s += (double)r->n_there * fmax(next_s - c.time_s, 0);
    }
}

int spot_serve_play_run(const struct spot_serve_play *play, enum spot_serve_policy policy,
                        int64_t n, struct spot_serve_result *result, struct spot_err *err)
{
    struct run r;
    int rc = 0;

    *result = (struct spot_serve_result){ 0 };
    if (policy == SPOT_SERVE_SPOT || policy == SPOT_SERVE_CLAIRVOYANT) {
        spot_serve_spot_run(play, policy == SPOT_SERVE_CLAIRVOYANT, result);
        return 0;
    }
    start(&r, play, policy);
    if (policy == SPOT_SERVE_ON_DEMAND) {
        rc = run_on_demand(&r, n, err);
        result->instance_s = (double)n * (play->end_s - play->start_s);
        note_step(&r, play->start_s, result);
    } else {
        play_trace(&r, policy, result);
    }
    finish(&r, result);
    if (rc)
        spot_serve_result_release(result);
    return rc;
}
