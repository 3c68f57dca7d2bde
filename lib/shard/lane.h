/* SPDX-License-Identifier: MIT */
/* lane.h - runs independent jobs on several threads, and returns them in the order of submission.
 *
 * One thread owns the lane: it fills free slots, submits them and takes back the oldest. With one
 * worker there are no threads; a job runs when it is submitted.
 */
#ifndef SPOT_SHARD_LANE_H
#define SPOT_SHARD_LANE_H

#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The work on one slot, in some thread. Returns 0, or -1 with *err. */
typedef int (*spot_lane_fn)(void *slot, struct spot_err *err);

struct spot_lane;

enum {
    SPOT_LANE_BYTE = 48 << 20
}; /* limit for all slots together, unless a single one exceeds it */

/* Choose the number of workers, at most n_job, and of slots, for slots of slot_byte. */
void spot_lane_size(uint64_t n_job, uint64_t slot_byte, int *n_worker, size_t *n_slot);

/* slot [n_slot] of the caller. NULL with *err (SPOT_ESYS) when no thread can be created. */
struct spot_lane *spot_lane_new(int n_worker, void *const *slot, size_t n_slot, spot_lane_fn work,
                                struct spot_err *err);

/* Waits for running jobs; those not begun are dropped. */
void spot_lane_free(struct spot_lane *lane);

/* A slot to fill, or NULL when all are in use: reap first. The same slot is returned until it is
 * given. */
void *spot_lane_free_slot(struct spot_lane *lane);

/* Submit the slot that spot_lane_free_slot returned. */
void spot_lane_submit(struct spot_lane *lane);

/* Wait for the oldest job submitted. Returns its slot, NULL if there is none; *rc and *err are the
 * results of its work. The slot may be used until the next spot_lane_free_slot. */
void *spot_lane_reap(struct spot_lane *lane, int *rc, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SHARD_LANE_H */
