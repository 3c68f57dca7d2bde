/* SPDX-License-Identifier: MIT */
/* serve_queue_state.h - shared by the files behind serve_queue.h. */
#ifndef SPOT_SIM_SERVE_QUEUE_STATE_H
#define SPOT_SIM_SERVE_QUEUE_STATE_H

#include "sim/serve_queue.h"
#include "trace/load_cache.h"

#ifdef __cplusplus
extern "C" {
#endif

enum spot_replica_state { SPOT_REPLICA_RUNS, SPOT_REPLICA_PAUSED, SPOT_REPLICA_GONE };

struct spot_queue_replica {
    enum spot_replica_state state;
    bool drains; /* takes no new batch */
    struct spot_replica_law law;
    size_t *batch; /* [n_batch] being served, or paused */
    size_t n_batch, batch_cap;
    size_t *pool; /* [n_pool] waiting here */
    size_t n_pool, pool_cap;
    struct spot_batch_time time;
    uint32_t step;                 /* tokens of the batch when it began or resumed */
    double begin_s, end_s;         /* times of the batch; end_s INFINITY: idle */
    struct spot_load_cache *cache; /* NULL: none */
    /* Pass by pass: n_pass passes until end_s; the last n_join requests of the batch have prompts
     * to compute. */
    uint32_t n_pass;
    size_t n_join;
};

struct spot_serve_queue {
    const struct spot_load *load;
    struct spot_serve_queue_rule rule;
    struct spot_served *served;         /* [load->n] */
    struct spot_queue_replica *replica; /* [n_replica] */
    size_t n_replica, replica_cap;
    size_t *live; /* [n_live] replicas that are not lost, ascending */
    size_t n_live, live_cap;
    size_t next;  /* next arrival in the load */
    size_t first; /* first request that has arrived and was never taken; up to `next` */
    /* [n_back] given back, latest arrival first, so that the last one is taken next */
    size_t *back;
    size_t n_back, back_cap;
    size_t n_busy;                /* busy replicas, if they share a machine */
    double pace_s, began_s;       /* minimum time between batches; start of the last one */
    double now_s, area_s, busy_s; /* area: integral of the number of requests in the system */
    size_t n_in, n_finished, n_repeated;
};

/* Takes the next request; there must be one. */
size_t spot_serve_queue_take(struct spot_serve_queue *queue);

/* Requests of a batch or a pool wait again, by arrival. */
void spot_serve_queue_give_back(struct spot_serve_queue *queue, size_t request);

/* The requests of its batch from `first` on are computed now: record the cached tokens of each, and
 * cache all of them. in_turn: one after another, so that each finds those before it. */
void spot_serve_queue_find(struct spot_serve_queue *queue, struct spot_queue_replica *replica,
                           size_t first, bool in_turn);

/* The load of a replica with n requests after adding the next one, considering the cached part of
 * its prompt. */
double spot_serve_queue_load_with(const struct spot_serve_queue *queue,
                                  const struct spot_queue_replica *replica, size_t n);

/* Requests that have arrived and are at no replica. */
size_t spot_serve_queue_unassigned(const struct spot_serve_queue *queue);

/* --- SPOT_BATCH_PASSES: serve_passes.c --- */

/* Assign waiting requests to the least loaded replicas, which admit them at their next pass. */
void spot_serve_passes_dispatch(struct spot_serve_queue *queue);

/* Passes have ended: count their tokens, admit waiting requests, begin the next. */
void spot_serve_passes_end(struct spot_serve_queue *queue, struct spot_queue_replica *replica);

/* Begin passes with the current batch. */
void spot_serve_passes_begin(struct spot_serve_queue *queue, struct spot_queue_replica *replica);

/* Stop at a pause: tokens of whole passes are kept with their requests. Requests without tokens are
 * given back. */
void spot_serve_passes_stop(struct spot_serve_queue *queue, struct spot_queue_replica *replica);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SIM_SERVE_QUEUE_STATE_H */
