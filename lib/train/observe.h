/* SPDX-License-Identifier: MIT */
/* observe.h - measures a running job: what an observer receives of each step, and what it can
 * request. Coordinator and workers are those of training, but without durable state.
 */
#ifndef SPOT_TRAIN_OBSERVE_H
#define SPOT_TRAIN_OBSERVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/grid.h"

#include "engine/stage.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_PROBE_BYTE_MAX = 1 << 28, SPOT_PROBE_ROUNDS_MAX = 1000 };

/* A member's part of a step, in seconds of its clock. */
struct spot_member_seen {
    double step_s;                /* from order to vote */
    double forward_s, backward_s; /* within its stage, all its microbatches */
    double reduce_s;              /* the sum over replicas, including waiting */
    uint64_t resident_byte;       /* maximum memory of its process so far */
};

/* A step that has committed. Pointers are valid during the call. */
struct spot_step_seen {
    int64_t step;
    struct spot_grid grid;
    uint32_t n_commit; /* commits of its epoch, including this one */
    double step_s; /* since the previous commit; for the first of an epoch: including the change */
    double read_s; /* part of step_s in which the coordinator read tokens */
    const struct spot_member_seen *member; /* [D * P * M], position (d * P + p) * M + m */
    const struct spot_stage_times *layer;  /* [n_bundle], of one microbatch, slowest replica */
    int n_bundle;
};

/* Rounds of a probe between members, in seconds: one message of n_byte from the first member to the
 * second (half the round trip), and the sum of n_byte over the D replicas of stage 0. */
struct spot_probe_seen {
    size_t n_byte;
    uint32_t D;
    const double *p2p_s, *sum_s;
    size_t n_p2p, n_sum; /* 0 if the grid has no such pair */
};

/* Requests of the observer; zeros: none. */
struct spot_wish {
    struct spot_grid grid; /* the grid from the next step on */
    uint64_t local_leaves; /* give this local worker, counted from 1, a notice */
    size_t probe_byte;     /* probe with messages of this size before the next step */
    uint32_t probe_rounds;
    bool is_enough; /* end the job here */
};

struct spot_observer {
    bool is_synthetic; /* every step reads the tokens of step 0, kept in memory */
    void (*committed)(void *user, const struct spot_step_seen *seen, struct spot_wish *wish);
    void (*probed)(void *user, const struct spot_probe_seen *seen);
    void *user;
};

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TRAIN_OBSERVE_H */
