/* SPDX-License-Identifier: MIT */
/* serve_queue_state.h - what the files behind serve_queue.h share. */
#ifndef SPOT_SIM_SERVE_QUEUE_STATE_H
#define SPOT_SIM_SERVE_QUEUE_STATE_H

#include "sim/serve_queue.h"

#ifdef __cplusplus
extern "C" {
#endif

enum spot_replica_state { SPOT_REPLICA_RUNS, SPOT_REPLICA_PAUSED, SPOT_REPLICA_GONE };

struct spot_queue_replica {
    enum spot_replica_state state;
    bool drains; /* takes no new batch */
    struct spot_replica_law law;
    size_t *batch; /* [n_batch] being answered, or where it was paused */
    size_t n_batch, batch_cap;
    size_t *pool; /* [n_pool] waiting here */
    size_t n_pool, pool_cap;
    struct spot_batch_time time;
    uint32_t step;         /* tokens that the batch had when it began or went on */
    double begin_s, end_s; /* of the batch; end_s INFINITY: idle */
    /* Pass by pass: what runs up to end_s is n_pass passes; the batch's last n_join have prompts.
     */
    uint32_t n_pass;
    size_t n_join;
};

struct spot_again {
    size_t request;
    double time_s;
};

struct spot_serve_queue {
    const struct spot_load *load;
    struct spot_serve_queue_rule rule;
    struct spot_served *served;         /* [load->n] */
    struct spot_queue_replica *replica; /* [n_replica] */
    size_t n_replica, replica_cap;
    size_t *live; /* [n_live] replicas that are not gone, ascending */
    size_t n_live, live_cap;
    size_t next;  /* of the load, to come */
    size_t first; /* of the load, come and never taken; up to `next` */
    size_t *back; /* [n_back] given back, latest arrival first: the last is taken next */
    size_t n_back, back_cap;
    struct spot_again *again; /* [n_again] from first_again on: who asks again, in that order */
    size_t first_again, n_again, again_cap;
    size_t n_busy;                /* replicas at work, where they share a machine */
    double pace_s, began_s;       /* the least time between batches, the last of them */
    double now_s, area_s, busy_s; /* area: of the number of requests in the system */
    size_t n_in, n_finished, n_repeated;
};

/* The request that is next in turn; there has to be one. */
size_t spot_serve_queue_take(struct spot_serve_queue *queue);

/* Who was in a batch or a pool waits again, by arrival. */
void spot_serve_queue_give_back(struct spot_serve_queue *queue, size_t request);

/* Requests that have come and are with no replica. */
size_t spot_serve_queue_unassigned(const struct spot_serve_queue *queue);

/* --- SPOT_BATCH_PASSES: serve_passes.c --- */

/* Give what waits to the replicas with fewest, which let it in at their next pass. */
void spot_serve_passes_dispatch(struct spot_serve_queue *queue);

/* Passes have ended: count their tokens, let in who waits, begin the next. */
void spot_serve_passes_end(struct spot_serve_queue *queue, struct spot_queue_replica *replica);

/* Begin passes with the batch as it is. */
void spot_serve_passes_begin(struct spot_serve_queue *queue, struct spot_queue_replica *replica);

/* It stands still now: tokens of whole passes are kept, each with its request. Who has none yet
 * is given back. */
void spot_serve_passes_stop(struct spot_serve_queue *queue, struct spot_queue_replica *replica);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SIM_SERVE_QUEUE_STATE_H */
