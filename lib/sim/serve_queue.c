/* SPDX-License-Identifier: MIT */
#include "sim/serve_queue.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "sim/serve_queue_state.h"

static bool has_pools(const struct spot_serve_queue_rule *rule)
{
    return rule->batching == SPOT_BATCH_POOLS || rule->batching == SPOT_BATCH_BURSTS;
}

struct spot_serve_queue *spot_serve_queue_new(const struct spot_load *load,
                                              const struct spot_serve_queue_rule *rule)
{
    struct spot_serve_queue *q = spot_xcalloc(1, sizeof(*q));

    assert(!has_pools(rule) || rule->pool_max);
    q->load = load;
    q->rule = *rule;
    q->began_s = -INFINITY;
    q->served = spot_xcalloc(load->n, sizeof(*q->served));
    for (size_t i = 0; i < load->n; i++)
        q->served[i].first_token_s = q->served[i].end_s = NAN;
    return q;
}

void spot_serve_queue_free(struct spot_serve_queue *q)
{
    if (!q)
        return;
    for (size_t i = 0; i < q->n_replica; i++) {
        free(q->replica[i].batch);
        free(q->replica[i].pool);
        spot_load_cache_free(q->replica[i].cache);
    }
    free(q->replica);
    free(q->live);
    free(q->served);
    free(q->back);
    free(q);
}

/* --- the queue --- */

size_t spot_serve_queue_unassigned(const struct spot_serve_queue *q)
{
    return q->n_back + q->next - q->first;
}

/* The request that is taken next. */
static size_t head(const struct spot_serve_queue *q)
{
    return q->n_back ? q->back[q->n_back - 1] : q->first;
}

size_t spot_serve_queue_take(struct spot_serve_queue *q)
{
    if (q->n_back)
        return q->back[--q->n_back];
    return q->first++;
}

/* --- cached prompts --- */

static double share_found(const struct spot_serve_queue *q, const struct spot_queue_replica *r)
{
    const size_t request = head(q);

    return (double)spot_load_cache_found(r->cache, request) /
           (double)q->load->prompt_token[request];
}

double spot_serve_queue_load_with(const struct spot_serve_queue *q,
                                  const struct spot_queue_replica *r, size_t n)
{
    return ((double)n + 1) * (r->cache ? 1 - 0.5 * share_found(q, r) : 1);
}

void spot_serve_queue_find(struct spot_serve_queue *q, struct spot_queue_replica *r, size_t first,
                           bool in_turn)
{
    for (size_t i = first; r->cache && i < r->n_batch; i++) {
        q->served[r->batch[i]].cached_token = spot_load_cache_found(r->cache, r->batch[i]);
        if (in_turn)
            spot_load_cache_use(r->cache, r->batch[i]);
    }
    for (size_t i = first; r->cache && !in_turn && i < r->n_batch; i++)
        spot_load_cache_use(r->cache, r->batch[i]);
}

/* Insert in order of arrival: few are given back at once, and near the end of the list. */
void spot_serve_queue_give_back(struct spot_serve_queue *q, size_t request)
{
    size_t i;

    q->back = spot_xgrow(q->back, &q->back_cap, q->n_back + 1, sizeof(*q->back));
    for (i = q->n_back++; i && q->back[i - 1] < request; i--)
        q->back[i] = q->back[i - 1];
    q->back[i] = request;
}

/* Discard the work on a request. */
static void start_anew(struct spot_serve_queue *q, size_t request)
{
    q->served[request].token = 0;
    q->served[request].repeats += q->served[request].repeats < UINT16_MAX;
    q->n_repeated++;
    spot_serve_queue_give_back(q, request);
}

/* The batch keeps its first n_kept requests. The others return to the queue in their order or, pass
 * by pass, continue with the tokens that they have. */
static void drop_from(struct spot_serve_queue *q, struct spot_queue_replica *r, size_t n_kept)
{
    for (size_t i = n_kept; i < r->n_batch; i++)
        if (q->rule.batching == SPOT_BATCH_PASSES)
            spot_serve_queue_give_back(q, r->batch[i]);
        else
            start_anew(q, r->batch[i]);
    r->n_batch = r->n_batch < n_kept ? r->n_batch : n_kept;
}

/* --- batches --- */

static uint32_t last_token(const struct spot_serve_queue *q, const struct spot_queue_replica *r)
{
    uint32_t most = 0;

    for (size_t i = 0; i < r->n_batch; i++)
        if ((uint32_t)q->load->output_token[r->batch[i]] > most)
            most = (uint32_t)q->load->output_token[r->batch[i]];
    return most;
}

/* Set the times of the batch from its current step on. The first token comes with the prompts. */
static void begin_batch(struct spot_serve_queue *q, struct spot_queue_replica *r)
{
    /* if a batch lost its longest request, all tokens may have been produced */
    const double tokens = fmax((double)last_token(q, r) - fmax((double)r->step, 1), 0);

    r->time = r->law.time(r->law.user, r->batch, r->n_batch);
    r->begin_s = q->now_s;
    r->end_s =
        q->now_s + (r->step ? 0 : r->time.first_s) + tokens * r->time.each_s + r->time.last_s;
}

static size_t batch_size(const struct spot_serve_queue *q, const struct spot_queue_replica *r,
                         size_t waiting)
{
    size_t n = waiting < r->law.max_batch ? waiting : r->law.max_batch, power = 1;

    while (q->rule.is_power_of_two && power * 2 <= n)
        power *= 2;
    return q->rule.is_power_of_two && n ? power : n;
}

/* True if a batch of n would begin too soon after the last. */
static bool has_to_wait(const struct spot_serve_queue *q, const struct spot_queue_replica *r,
                        size_t n)
{
    return q->pace_s > 0 && n < r->law.max_batch && q->now_s < q->began_s + q->pace_s;
}

/* An idle replica takes the requests that wait for it. */
static void fill(struct spot_serve_queue *q, struct spot_queue_replica *r)
{
    const bool is_shared = q->rule.batching == SPOT_BATCH_SHARED;
    const size_t n = batch_size(q, r, is_shared ? spot_serve_queue_unassigned(q) : r->n_pool);

    if (r->state != SPOT_REPLICA_RUNS || r->drains || r->n_batch || !n || has_to_wait(q, r, n))
        return;
    r->batch = spot_xgrow(r->batch, &r->batch_cap, n, sizeof(*r->batch));
    for (size_t i = 0; i < n; i++)
        r->batch[i] = is_shared ? spot_serve_queue_take(q) : r->pool[i];
    r->n_batch = n;
    if (!is_shared) {
        r->n_pool -= n;
        memmove(r->pool, r->pool + n, r->n_pool * sizeof(*r->pool));
    }
    r->step = 0;
    q->began_s = q->now_s;
    spot_serve_queue_find(q, r, 0, false);
    begin_batch(q, r);
}

/* The least loaded replica that has room; NULL: none has. */
static struct spot_queue_replica *least_filled(struct spot_serve_queue *q)
{
    struct spot_queue_replica *best = NULL;
    double least = 0;

    for (size_t i = 0; i < q->n_live; i++) {
        struct spot_queue_replica *r = &q->replica[q->live[i]];
        const size_t n = r->n_batch + r->n_pool;
        double load;

        if (r->state != SPOT_REPLICA_RUNS || r->drains || n >= q->rule.pool_max)
            continue;
        load = spot_serve_queue_load_with(q, r, n);
        if (!best || load < least)
            best = r, least = load;
    }
    return best;
}

/* Give the replica one waiting request or, in bursts, as many as a batch. */
static void hand_out(struct spot_serve_queue *q, struct spot_queue_replica *r)
{
    size_t n = q->rule.batching == SPOT_BATCH_BURSTS
                   ? batch_size(q, r, spot_serve_queue_unassigned(q))
                   : 1;

    r->pool = spot_xgrow(r->pool, &r->pool_cap, r->n_pool + n, sizeof(*r->pool));
    while (n--)
        r->pool[r->n_pool++] = spot_serve_queue_take(q);
}

/* With one queue: the idle replica whose cache holds most of the next prompt; NULL: none holds any
 * of it. */
static struct spot_queue_replica *best_idle(struct spot_serve_queue *q)
{
    const bool is_shared = q->rule.batching == SPOT_BATCH_SHARED && q->rule.cache_token;
    struct spot_queue_replica *best = NULL;
    double most = 0;

    for (size_t i = 0; is_shared && i < q->n_live && spot_serve_queue_unassigned(q); i++) {
        struct spot_queue_replica *r = &q->replica[q->live[i]];
        double share;

        if (r->state != SPOT_REPLICA_RUNS || r->drains || r->n_batch || !r->cache)
            continue;
        share = share_found(q, r);
        if (share > most)
            best = r, most = share;
    }
    return best;
}

static void dispatch(struct spot_serve_queue *q)
{
    struct spot_queue_replica *r;

    if (q->rule.batching == SPOT_BATCH_PASSES) {
        spot_serve_passes_dispatch(q);
        return;
    }
    while (has_pools(&q->rule) && spot_serve_queue_unassigned(q) && (r = least_filled(q)))
        hand_out(q, r);
    while ((r = best_idle(q))) /* one queue: the replica takes a batch, or has to wait */
        if (fill(q, r), !r->n_batch)
            break;
    for (size_t i = 0; i < q->n_live; i++) /* replicas with pools start their requests together */
        fill(q, &q->replica[q->live[i]]);
}

/* --- the clock --- */

static void advance(struct spot_serve_queue *q, double to_s)
{
    assert(to_s >= q->now_s);
    q->area_s += (double)q->n_in * (to_s - q->now_s);
    q->now_s = to_s;
}

static void note_first_tokens(struct spot_serve_queue *q, const struct spot_queue_replica *r)
{
    for (size_t i = 0; i < r->n_batch && !r->step; i++) {
        struct spot_served *s = &q->served[r->batch[i]];

        if (isnan(s->first_token_s)) /* keep the time of a first token from before a loss */
            s->first_token_s = r->begin_s + r->time.first_s;
    }
}

static void end_batch(struct spot_serve_queue *q, struct spot_queue_replica *r)
{
    note_first_tokens(q, r);
    for (size_t i = 0; i < r->n_batch; i++) {
        struct spot_served *s = &q->served[r->batch[i]];

        s->end_s = q->now_s;
        s->token = (uint32_t)q->load->output_token[r->batch[i]];
        q->n_finished++;
        q->n_in--;
    }
    q->busy_s += q->now_s - r->begin_s;
    r->n_batch = 0;
    r->end_s = INFINITY;
    fill(q, r);
}

static struct spot_queue_replica *next_to_end(struct spot_serve_queue *q)
{
    struct spot_queue_replica *first = NULL;

    for (size_t i = 0; i < q->n_live; i++) {
        struct spot_queue_replica *r = &q->replica[q->live[i]];

        if (r->end_s < (first ? first->end_s : INFINITY))
            first = r;
    }
    return first;
}

/* When a batch that is held back for pacing may begin; INFINITY: there is none. */
static double next_to_begin(const struct spot_serve_queue *q)
{
    if (!(q->pace_s > 0) || !spot_serve_queue_unassigned(q) || q->began_s + q->pace_s <= q->now_s)
        return INFINITY;
    for (size_t i = 0; i < q->n_live; i++) {
        const struct spot_queue_replica *r = &q->replica[q->live[i]];

        if (r->state == SPOT_REPLICA_RUNS && !r->drains && !r->n_batch)
            return q->began_s + q->pace_s;
    }
    return INFINITY;
}

void spot_serve_queue_run(struct spot_serve_queue *q, double until_s)
{
    if (until_s < q->now_s)
        return;
    for (;;) {
        struct spot_queue_replica *r = next_to_end(q);
        const double end_s = r ? r->end_s : INFINITY;
        const double come_s = q->next < q->load->n ? q->load->time_s[q->next] : INFINITY;

        const double begin_s = next_to_begin(q), first_s = fmin(fmin(end_s, come_s), begin_s);

        if (first_s > until_s || isinf(first_s))
            break;
        if (begin_s < fmin(end_s, come_s)) {
            advance(q, begin_s);
        } else if (end_s <= come_s) {
            advance(q, end_s);
            if (q->rule.batching == SPOT_BATCH_PASSES)
                spot_serve_passes_end(q, r);
            else
                end_batch(q, r);
        } else {
            advance(q, fmax(come_s, q->now_s));
            do {
                q->next++;
                q->n_in++;
            } while (q->rule.batching == SPOT_BATCH_PASSES && q->next < q->load->n &&
                     q->load->time_s[q->next] <= q->now_s); /* arrivals at one time join one pass */
        }
        dispatch(q);
    }
    if (!isinf(until_s))
        advance(q, until_s);
}

/* --- replicas --- */

const struct spot_served *spot_serve_queue_served(const struct spot_serve_queue *q)
{
    return q->served;
}

size_t spot_serve_queue_add(struct spot_serve_queue *q, const struct spot_replica_law *law)
{
    q->replica = spot_xgrow(q->replica, &q->replica_cap, q->n_replica + 1, sizeof(*q->replica));
    q->replica[q->n_replica] = (struct spot_queue_replica){
        .law = *law,
        .end_s = INFINITY,
        .cache = q->rule.cache_token ? spot_load_cache_new(q->load, q->rule.cache_token) : NULL
    };
    q->live = spot_xgrow(q->live, &q->live_cap, q->n_live + 1, sizeof(*q->live));
    q->live[q->n_live++] = q->n_replica++;
    dispatch(q);
    return q->n_replica - 1;
}

/* Whole tokens that the batch has produced so far; 0: its prompts are not done. */
static uint32_t steps_by_now(const struct spot_serve_queue *q, const struct spot_queue_replica *r)
{
    const double run_s = q->now_s - r->begin_s - (r->step ? 0 : r->time.first_s);
    const double before = r->step ? r->step : 1;
    const double most = last_token(q, r);

    if (run_s < 0)
        return r->step;
    return (uint32_t)fmin(r->time.each_s > 0 ? before + floor(run_s / r->time.each_s) : most, most);
}

static void stop(struct spot_serve_queue *q, struct spot_queue_replica *r)
{
    if (q->rule.batching == SPOT_BATCH_PASSES) {
        spot_serve_passes_stop(q, r);
    } else if (r->state == SPOT_REPLICA_RUNS && r->n_batch) {
        const uint32_t step = steps_by_now(q, r);

        if (step)
            note_first_tokens(q, r);
        r->step = step;
        q->busy_s += q->now_s - r->begin_s;
        for (size_t i = 0; i < r->n_batch; i++)
            q->served[r->batch[i]].token = step;
    }
    r->end_s = INFINITY;
    while (r->n_pool)
        spot_serve_queue_give_back(q, r->pool[--r->n_pool]);
    if (r->cache)
        spot_load_cache_clear(r->cache);
}

void spot_serve_queue_pause(struct spot_serve_queue *q, size_t replica)
{
    struct spot_queue_replica *r = &q->replica[replica];

    if (r->state != SPOT_REPLICA_RUNS)
        return;
    stop(q, r);
    r->state = SPOT_REPLICA_PAUSED;
    while (r->n_batch && !r->step) /* no prompt is done: nothing to keep */
        spot_serve_queue_give_back(q, r->batch[--r->n_batch]);
    dispatch(q);
}

void spot_serve_queue_resume(struct spot_serve_queue *q, size_t replica,
                             const struct spot_replica_law *law)
{
    struct spot_queue_replica *r = &q->replica[replica];

    assert(r->state == SPOT_REPLICA_PAUSED);
    if (law)
        r->law = *law;
    r->state = SPOT_REPLICA_RUNS;
    drop_from(q, r, r->law.max_batch);
    if (r->n_batch && q->rule.batching == SPOT_BATCH_PASSES)
        spot_serve_passes_begin(q, r);
    else if (r->n_batch)
        begin_batch(q, r);
    dispatch(q);
}

void spot_serve_queue_lose(struct spot_serve_queue *q, size_t replica)
{
    struct spot_queue_replica *r = &q->replica[replica];

    if (r->state == SPOT_REPLICA_GONE)
        return;
    stop(q, r);
    r->state = SPOT_REPLICA_GONE;
    spot_load_cache_free(r->cache);
    r->cache = NULL;
    for (size_t i = 0; i < q->n_live; i++)
        if (q->live[i] == replica)
            memmove(q->live + i, q->live + i + 1, (--q->n_live - i) * sizeof(*q->live));
    drop_from(q, r, 0);
    dispatch(q);
}

int64_t spot_serve_queue_progress(const struct spot_serve_queue *q, size_t replica)
{
    const struct spot_queue_replica *r = &q->replica[replica];

    return r->state == SPOT_REPLICA_PAUSED && r->n_batch ? (int64_t)r->step : -1;
}

void spot_serve_queue_drain(struct spot_serve_queue *q, size_t replica, bool drains)
{
    struct spot_queue_replica *r = &q->replica[replica];

    r->drains = drains;
    while (drains && r->n_pool)
        spot_serve_queue_give_back(q, r->pool[--r->n_pool]);
    dispatch(q);
}

void spot_serve_queue_pace(struct spot_serve_queue *q, double pace_s)
{
    q->pace_s = q->rule.batching == SPOT_BATCH_SHARED ? pace_s : 0;
    dispatch(q);
}

bool spot_serve_queue_is_idle(const struct spot_serve_queue *q, size_t replica)
{
    const struct spot_queue_replica *r = &q->replica[replica];

    return !r->n_batch && !(q->rule.batching == SPOT_BATCH_PASSES && r->n_pool);
}

size_t spot_serve_queue_waiting(const struct spot_serve_queue *q)
{
    size_t n = spot_serve_queue_unassigned(q);

    for (size_t i = 0; i < q->n_live; i++)
        n += q->replica[q->live[i]].n_pool;
    return n;
}

/* --- the end --- */

const struct spot_served *spot_serve_queue_finish(struct spot_serve_queue *q,
                                                  struct spot_serve_totals *t)
{
    *t = (struct spot_serve_totals){ .finished = q->n_finished,
                                     .lost = q->load->n - q->n_finished,
                                     .repeated = q->n_repeated,
                                     .end_s = q->now_s,
                                     .busy_s = q->busy_s };
    for (size_t i = 0; i < q->next; i++) {
        const double end_s = isnan(q->served[i].end_s) ? q->now_s : q->served[i].end_s;

        t->in_system_s += end_s - fmax(q->load->time_s[i], 0);
    }
    /* Little's law: the mean number in the system is the rate times the mean time in it */
    assert(fabs(t->in_system_s - q->area_s) <= 1e-6 * (1 + q->area_s));
    return q->served;
}
