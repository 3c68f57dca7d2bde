/* SPDX-License-Identifier: MIT */
/* estimate.h - estimates a job before it starts: bytes of each process, the time of a step, bytes
 * to move and the time that takes. Pure except spot_estimate_step, which computes a layer.
 */
#ifndef SPOT_TRAIN_ESTIMATE_H
#define SPOT_TRAIN_ESTIMATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "model/grid.h"
#include "train/config.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_estimate_options {
    const struct spot_job_config *config; /* its kernel must be available here */
    struct spot_grid grid;
    int64_t n_member; /* >= those of the grid: the rest are spares */
    int n_thread, recompute;
    bool no_buddies;
    bool saves;        /* writes the weights to a file at the end */
    double byte_per_s; /* of a link */
};

/* Maximum memory of one worker, in bytes: what it holds, and messages in transit. */
struct spot_estimate_worker {
    int64_t n_param;
    double weights_byte, moments_byte; /* 4 and 8 per parameter */
    double sums_byte;                  /* 8 per parameter */
    double activation_byte;            /* of the microbatches in flight, and scratch */
    double mirror_byte;                /* what it mirrors as a buddy, including sums */
    double transit_byte;               /* messages in transit: sums, activations, snapshots */
    double process_byte;               /* the program itself */
    double total_byte;
};

enum { SPOT_ESTIMATE_MOVES_MAX = 8 };

struct spot_estimate_move {
    const char *kind;
    struct spot_grid to;
    int64_t byte; /* over links */
    double move_s;
};

struct spot_estimate {
    struct spot_grid grid;
    int64_t n_member, n_param;
    double state_byte;                   /* weights and moments of the whole state */
    struct spot_estimate_worker *worker; /* [grid.P], for each stage */
    struct spot_estimate_worker spare;   /* n_param 0: no mirroring spare */
    double coordinator_byte; /* of a coordinator whose members have access to its state directory */
    double relay_byte; /* additional memory if they do not, and send faster than its disk writes */
    double all_byte;   /* of every process */
    struct spot_estimate_move move[SPOT_ESTIMATE_MOVES_MAX];
    size_t n_move;
    double generation_byte, generation_s; /* sent to the coordinator */
};

/* Returns 0, or -1 with *err: SPOT_EINFEASIBLE if members, bundles, microbatches or shards are too
 * few for the grid. Release it in both cases. */
int spot_estimate_init(struct spot_estimate *estimate, const struct spot_estimate_options *options,
                       struct spot_err *err);
void spot_estimate_release(struct spot_estimate *estimate);

/* The time of a step without waits, extrapolated from one layer that is computed here; n_sharing
 * processes share its cores. 0: the kernel needs a device. Returns 0, or -1 with *err. */
int spot_estimate_step(const struct spot_estimate_options *options, int64_t n_sharing,
                       double *step_s, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TRAIN_ESTIMATE_H */
