/* SPDX-License-Identifier: MIT */
/* serve_queue.h - requests, replicas that answer them in batches, and a clock.
 *
 * An event simulator under the policies of serving: requests come from a load; replicas are added,
 * paused, resumed and lost from outside between two moments, by a caller that knows what the
 * system under test would. A batch is static, all of its requests start and end together, but for
 * SPOT_BATCH_PASSES. What was
 * lost or given back is answered before what came later. Time spent waiting and
 * being answered is summed over requests and, apart from that, over the clock: by Little's law both
 * are equal, and spot_serve_queue_finish asserts it in every run.
 */
#ifndef SPOT_SIM_SERVE_QUEUE_H
#define SPOT_SIM_SERVE_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace/load_trace.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a batch of n requests takes: first_s to the first token of each, then each_s per further
 * one, last_s behind the last. */
struct spot_batch_time {
    double first_s, each_s, last_s;
    double join; /* pass by pass: what a prompt that joins them takes over what it takes alone */
};

/* `request` [n] are indices of the load. Pass by pass a prompt is timed alone (n 1), and the others
 * by each_s of all of them. Has to give the same for the same arguments where a batch is to be
 * paused. */
typedef struct spot_batch_time spot_batch_time_fn(void *user, const size_t *request, size_t n);

struct spot_replica_law {
    spot_batch_time_fn *time;
    void *user;
    size_t max_batch; /* >= 1 */
};

enum spot_batching {
    SPOT_BATCH_SHARED, /* an idle replica takes what waits in one queue */
    SPOT_BATCH_POOLS,  /* whoever comes goes to the least filled replica at once, and stays */
    SPOT_BATCH_BURSTS, /* pools that take who waits by the batch, beyond their bound */
    /* As our own server does it: batches form pass by pass. Whoever comes goes to the least filled
     * replica that has room, which computes its prompt in its next pass, a token of each of the
     * others beside it; each leaves with its last token. What was told is never lost: after a loss
     * the prompt and the tokens so far are computed elsewhere, and it goes on behind them. */
    SPOT_BATCH_PASSES,
};

struct spot_serve_queue_rule {
    enum spot_batching batching;
    size_t pool_max;      /* pools: requests of a replica, running ones among them; >= 1 */
    bool is_power_of_two; /* a batch is the largest power of two of what waits */
    bool asks_again;      /* what was lost waits behind all who are there, not before them */
    /* Pass by pass: with k at work a pass takes sharing[k - 1] as long, with more the last of them.
     * It keeps the pace that it began with. NULL: they do not share a machine. */
    const double *sharing; /* [n_sharing] */
    size_t n_sharing;
};

/* What became of a request. Pass by pass `token` grows while it is answered. */
struct spot_served {
    double first_token_s, end_s; /* on the clock; NaN: not yet */
    uint32_t token;              /* produced and kept */
    uint16_t repeats;            /* times that work on it was thrown away */
};

struct spot_serve_queue;

/* The load is borrowed until _free; its times are what the clock shows. */
struct spot_serve_queue *spot_serve_queue_new(const struct spot_load *load,
                                              const struct spot_serve_queue_rule *rule);
void spot_serve_queue_free(struct spot_serve_queue *queue);

/* [load->n], as it is now. */
const struct spot_served *spot_serve_queue_served(const struct spot_serve_queue *queue);

/* A replica that answers from now on. Returns its number, 0, 1, ... */
size_t spot_serve_queue_add(struct spot_serve_queue *queue, const struct spot_replica_law *law);

/* It stands still: whole tokens of its batch are kept, a prompt that was not done is not. Its
 * waiting requests go back to the queue. Nothing if it stands still already. */
void spot_serve_queue_pause(struct spot_serve_queue *queue, size_t replica);

/* It goes on, by another law if `law` is not NULL: with the batch it was paused in, from the token
 * where it stood, if the law lets that many in at once; what is too much goes back, as lost. */
void spot_serve_queue_resume(struct spot_serve_queue *queue, size_t replica,
                             const struct spot_replica_law *law);

/* From now on it takes no new batch, or (`drains` false) does again. A drained one that is idle may
 * be lost without a loss. */
void spot_serve_queue_drain(struct spot_serve_queue *queue, size_t replica, bool drains);

/* With one queue: batches that are not full begin at least pace_s apart, so that replicas end in
 * turn and whoever comes waits for the next of them no longer than that; 0: at once. */
void spot_serve_queue_pace(struct spot_serve_queue *queue, double pace_s);

/* Is it without a batch? */
bool spot_serve_queue_is_idle(const struct spot_serve_queue *queue, size_t replica);

/* Requests that have come and are in no batch. */
size_t spot_serve_queue_waiting(const struct spot_serve_queue *queue);

/* It is gone. What it was answering starts anew, somewhere else. */
void spot_serve_queue_lose(struct spot_serve_queue *queue, size_t replica);

/* Tokens that the batch of a paused replica has; -1 without a batch. */
int64_t spot_serve_queue_progress(const struct spot_serve_queue *queue, size_t replica);

/* The clock goes on to until_s, if it is not there yet; INFINITY: until nothing is left to happen.
 */
void spot_serve_queue_run(struct spot_serve_queue *queue, double until_s);

struct spot_serve_totals {
    size_t finished, lost; /* lost: never answered to the end */
    size_t repeated;       /* work thrown away, over all requests */
    double end_s;          /* the clock */
    double busy_s;         /* summed over replicas */
    double in_system_s;    /* summed over requests */
};

/* Sum up and check Little's law. served [n] in the order of the load stays the queue's. */
const struct spot_served *spot_serve_queue_finish(struct spot_serve_queue *queue,
                                                  struct spot_serve_totals *totals);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SIM_SERVE_QUEUE_H */
