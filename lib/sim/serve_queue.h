/* SPDX-License-Identifier: MIT */
/* serve_queue.h - requests, replicas that serve them in batches, and a clock.
 *
 * An event simulator under the policies of serving: requests come from a load; replicas are added,
 * paused, resumed and lost by a caller that models the system under test. A batch is static, all of
 * its requests start and end together, except with SPOT_BATCH_PASSES. Requests that were lost or
 * given back are served before later ones. Time spent waiting and being served is summed over
 * requests and, separately, over the clock: by Little's law both are equal, and
 * spot_serve_queue_finish asserts it in every run.
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

/* The time of a batch of n requests: first_s to the first token of each, then each_s per further
 * token, last_s after the last. */
struct spot_batch_time {
    double first_s, each_s, last_s;
    double join; /* pass by pass: relative time of a prompt that joins others */
};

/* `request` [n] are indices of the load. Pass by pass a prompt is timed alone (n 1), and the others
 * by each_s of all of them. Must be deterministic if a batch is to be paused. */
typedef struct spot_batch_time spot_batch_time_fn(void *user, const size_t *request, size_t n);

struct spot_replica_law {
    spot_batch_time_fn *time;
    void *user;
    size_t max_batch; /* >= 1 */
};

enum spot_batching {
    SPOT_BATCH_SHARED, /* an idle replica takes requests from one common queue */
    SPOT_BATCH_POOLS,  /* each request goes to the least loaded replica at once, and stays */
    SPOT_BATCH_BURSTS, /* pools that take waiting requests by the batch, beyond their limit */
    /* As in our own server: batches form pass by pass. A request goes to the least loaded replica
     * with free capacity, which computes its prompt in its next pass, together with a token of each
     * other request; each leaves with its last token. Sent tokens are never lost: after a loss the
     * prompt and the tokens so far are recomputed elsewhere, and the answer continues after
     * them. */
    SPOT_BATCH_PASSES,
};

struct spot_serve_queue_rule {
    enum spot_batching batching;
    size_t pool_max;      /* pools: requests of a replica, running ones included; >= 1 */
    bool is_power_of_two; /* a batch is the largest power of two of the waiting requests */
    /* Pass by pass: with k busy replicas a pass takes sharing[k - 1] times as long; with more the
     * last value counts. A pass keeps the pace with which it began. NULL: replicas do not share a
     * machine. */
    const double *sharing; /* [n_sharing] */
    size_t n_sharing;
    /* Tokens of prompts that each replica caches (trace/load_cache.h); the cached part of a prompt
     * is not computed. A request goes to the replica with the least load including it, cached
     * tokens counting half; with one queue, to the idle replica with most of its prompt. A pause
     * empties the cache. 0: no cache. */
    int64_t cache_token;
};

/* The outcome of a request. Pass by pass `token` grows while it is served. */
struct spot_served {
    double first_token_s, end_s; /* on the clock; NaN: not yet */
    uint32_t token;              /* produced and kept */
    uint16_t repeats;            /* times that work on it was discarded */
    int32_t cached_token; /* tokens of its prompt found in the cache when it was last computed */
};

struct spot_serve_queue;

/* The load is borrowed until _free; the clock uses its times. */
struct spot_serve_queue *spot_serve_queue_new(const struct spot_load *load,
                                              const struct spot_serve_queue_rule *rule);
void spot_serve_queue_free(struct spot_serve_queue *queue);

/* [load->n], the current state. */
const struct spot_served *spot_serve_queue_served(const struct spot_serve_queue *queue);

/* Add a replica, serving from now on. Returns its number, 0, 1, ... */
size_t spot_serve_queue_add(struct spot_serve_queue *queue, const struct spot_replica_law *law);

/* Pause the replica: the whole tokens of its batch are kept, an unfinished prompt is not. Its
 * waiting requests return to the queue. No effect if it is already paused. */
void spot_serve_queue_pause(struct spot_serve_queue *queue, size_t replica);

/* Resume the replica, with other batch times if `law` is not NULL. It continues with the batch that
 * it had, from its current token; requests that do not fit are given back, as if lost. */
void spot_serve_queue_resume(struct spot_serve_queue *queue, size_t replica,
                             const struct spot_replica_law *law);

/* From now on the replica takes no new batch, or (`drains` false) does so again. A drained idle
 * replica can be removed without a loss. */
void spot_serve_queue_drain(struct spot_serve_queue *queue, size_t replica, bool drains);

/* With one queue: batches that are not full begin at least pace_s apart, so that replicas finish in
 * turn and an arriving request waits no longer than that for the next one; 0: at once. */
void spot_serve_queue_pace(struct spot_serve_queue *queue, double pace_s);

/* True if the replica has no batch. */
bool spot_serve_queue_is_idle(const struct spot_serve_queue *queue, size_t replica);

/* Requests that have arrived and are in no batch. */
size_t spot_serve_queue_waiting(const struct spot_serve_queue *queue);

/* The replica is lost. Its requests start again, elsewhere. */
void spot_serve_queue_lose(struct spot_serve_queue *queue, size_t replica);

/* Tokens that the batch of a paused replica has; -1 without a batch. */
int64_t spot_serve_queue_progress(const struct spot_serve_queue *queue, size_t replica);

/* Advance the clock to until_s, if it is not there yet; INFINITY: until no events are left. */
void spot_serve_queue_run(struct spot_serve_queue *queue, double until_s);

struct spot_serve_totals {
    size_t finished, lost; /* lost: never completed */
    size_t repeated;       /* discarded work, over all requests */
    double end_s;          /* the clock */
    double busy_s;         /* summed over replicas */
    double in_system_s;    /* summed over requests */
};

/* Sum up and check Little's law. Returns served [n] in the order of the load, owned by the
 * queue. */
const struct spot_served *spot_serve_queue_finish(struct spot_serve_queue *queue,
                                                  struct spot_serve_totals *totals);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SIM_SERVE_QUEUE_H */
