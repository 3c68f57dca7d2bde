/* SPDX-License-Identifier: MIT */
/* Batches that form pass by pass. Between two changes of a batch all passes take the same time, so
 * they are one event. */
#include <math.h>

#include "common/xalloc.h"
#include "sim/serve_queue_state.h"

static bool has_room(const struct spot_queue_replica *r)
{
    return r->state == SPOT_REPLICA_RUNS && !r->drains && r->n_batch + r->n_pool < r->law.max_batch;
}

static struct spot_queue_replica *least_filled(struct spot_serve_queue *q)
{
    struct spot_queue_replica *best = NULL;
    double least = 0;

    for (size_t i = 0; i < q->n_live; i++) {
        struct spot_queue_replica *r = &q->replica[q->live[i]];
        double load;

        if (!has_room(r))
            continue;
        load = spot_serve_queue_load_with(q, r, r->n_batch + r->n_pool);
        if (!best || load < least)
            best = r, least = load;
    }
    return best;
}

/* --- a pass --- */

/* Time of one token for each request whose prompt is done. */
static double decode_s(const struct spot_queue_replica *r)
{
    const size_t n = r->n_batch - r->n_join;

    return n ? r->law.time(r->law.user, r->batch, n).each_s : 0;
}

/* Time of the prompt of the i-th request in the batch; those before it share the pass. */
static double prompt_s(const struct spot_queue_replica *r, size_t i)
{
    const struct spot_batch_time t = r->law.time(r->law.user, &r->batch[i], 1);

    return (t.first_s + t.last_s) * (i ? r->law.time(r->law.user, r->batch, i).join : 1);
}

static size_t count_busy(const struct spot_serve_queue *q)
{
    size_t n = 0;

    for (size_t i = 0; i < q->n_live; i++) {
        const struct spot_queue_replica *r = &q->replica[q->live[i]];

        n += r->state == SPOT_REPLICA_RUNS && r->n_batch;
    }
    return n;
}

static double pace(const struct spot_serve_queue *q)
{
    const size_t n = q->rule.n_sharing ? count_busy(q) : 0;

    return n ? q->rule.sharing[n < q->rule.n_sharing ? n - 1 : q->rule.n_sharing - 1] : 1;
}

static uint32_t left_of(const struct spot_serve_queue *q, size_t request)
{
    return (uint32_t)q->load->output_token[request] - q->served[request].token;
}

/* The number of passes until the first of the requests ends. */
static uint32_t passes_to_end(const struct spot_serve_queue *q, const struct spot_queue_replica *r)
{
    uint32_t least = UINT32_MAX;

    for (size_t i = 0; i < r->n_batch; i++)
        if (left_of(q, r->batch[i]) < least)
            least = left_of(q, r->batch[i]);
    return least;
}

void spot_serve_passes_begin(struct spot_serve_queue *q, struct spot_queue_replica *r)
{
    double pass_s = decode_s(r);

    for (size_t i = r->n_batch - r->n_join; i < r->n_batch; i++)
        pass_s += prompt_s(r, i);
    pass_s *= pace(q);
    r->time = (struct spot_batch_time){ .each_s = pass_s };
    r->n_pass = r->n_join ? 1 : passes_to_end(q, r);
    r->begin_s = q->now_s;
    r->end_s = q->now_s + r->n_pass * pass_s;
}

/* Requests waiting at the replica join the batch, and the next pass begins. */
static void let_in(struct spot_serve_queue *q, struct spot_queue_replica *r)
{
    r->batch = spot_xgrow(r->batch, &r->batch_cap, r->n_batch + r->n_pool, sizeof(*r->batch));
    r->n_join = r->n_pool;
    for (size_t i = 0; i < r->n_join; i++)
        r->batch[r->n_batch++] = r->pool[i];
    r->n_pool = 0;
    spot_serve_queue_find(q, r, r->n_batch - r->n_join, true);
    if (r->n_batch)
        spot_serve_passes_begin(q, r);
    else
        r->end_s = INFINITY;
}

/* Cut the current passes short: they end with the pass that runs now. */
static void end_soon(struct spot_serve_queue *q, struct spot_queue_replica *r)
{
    const double run_s = q->now_s - r->begin_s;
    const double n = r->time.each_s > 0 ? fmax(ceil(run_s / r->time.each_s * (1 - 1e-12)), 1) : 1;

    if (n >= r->n_pass)
        return;
    r->n_pass = (uint32_t)n;
    r->end_s = fmax(r->begin_s + n * r->time.each_s, q->now_s);
}

/* The number of busy replicas changed: passes after the current ones take a different time. */
static void note_busy(struct spot_serve_queue *q)
{
    const size_t n = count_busy(q);

    for (size_t i = 0; i < q->n_live && n != q->n_busy; i++) {
        struct spot_queue_replica *r = &q->replica[q->live[i]];

        if (r->state == SPOT_REPLICA_RUNS && r->n_batch)
            end_soon(q, r);
    }
    q->n_busy = n;
}

void spot_serve_passes_dispatch(struct spot_serve_queue *q)
{
    struct spot_queue_replica *r;

    while (spot_serve_queue_unassigned(q) && (r = least_filled(q))) {
        r->pool = spot_xgrow(r->pool, &r->pool_cap, r->n_pool + 1, sizeof(*r->pool));
        r->pool[r->n_pool++] = spot_serve_queue_take(q);
        if (r->n_batch)
            end_soon(q, r);
    }
    for (size_t i = 0; i < q->n_live; i++) { /* requests that came at the same time join together */
        r = &q->replica[q->live[i]];
        if (r->state == SPOT_REPLICA_RUNS && !r->n_batch && r->n_pool)
            let_in(q, r);
    }
    if (q->rule.n_sharing)
        note_busy(q);
}

/* `n` passes have produced a token for each request. Finished requests leave; the others keep their
 * order. */
static void count_tokens(struct spot_serve_queue *q, struct spot_queue_replica *r, uint32_t n)
{
    size_t kept = 0;

    for (size_t i = 0; i < r->n_batch && n; i++) {
        struct spot_served *s = &q->served[r->batch[i]];

        s->token += n;
        if (isnan(s->first_token_s))
            s->first_token_s = r->begin_s + r->time.each_s;
    }
    for (size_t i = 0; i < r->n_batch; i++) {
        struct spot_served *s = &q->served[r->batch[i]];

        if (left_of(q, r->batch[i])) {
            r->batch[kept++] = r->batch[i];
            continue;
        }
        s->end_s = q->now_s;
        q->n_finished++;
        q->n_in--;
    }
    r->n_batch = kept;
    r->n_join = 0;
}

void spot_serve_passes_end(struct spot_serve_queue *q, struct spot_queue_replica *r)
{
    q->busy_s += q->now_s - r->begin_s;
    count_tokens(q, r, r->n_pass);
    r->end_s = INFINITY;
    while (spot_serve_queue_unassigned(q) && has_room(r) && least_filled(q) == r) {
        r->pool = spot_xgrow(r->pool, &r->pool_cap, r->n_pool + 1, sizeof(*r->pool));
        r->pool[r->n_pool++] = spot_serve_queue_take(q);
    }
    let_in(q, r);
}

void spot_serve_passes_stop(struct spot_serve_queue *q, struct spot_queue_replica *r)
{
    const double run_s = q->now_s - r->begin_s;
    const size_t n_join = r->n_join;
    uint32_t n;

    if (r->state != SPOT_REPLICA_RUNS || !r->n_batch)
        return;
    n = r->time.each_s > 0 ? (uint32_t)fmin(floor(run_s / r->time.each_s), r->n_pass) : 0;
    q->busy_s += run_s;
    if (n)
        count_tokens(q, r, n);
    else /* a pass that was cut short has no prompts */
        for (size_t i = 0; i < n_join; i++)
            spot_serve_queue_give_back(q, r->batch[--r->n_batch]);
    r->n_join = 0;
    r->step = 0;
    for (size_t i = 0; i < r->n_batch; i++)
        if (q->served[r->batch[i]].token > r->step)
            r->step = q->served[r->batch[i]].token;
}
