/* SPDX-License-Identifier: MIT */
/* sums.h - sends a step's gradient sums to the replicas of a stage and to those that mirror it: its
 * buddy, and the receivers of its bundles.
 *
 * A sum is sent as soon as it is complete: the last backward pass goes from the last bundle to the
 * first, and finished sums travel while the rest is computed. Sums on a device are combined after
 * the pass.
 */
#ifndef SPOT_TRAIN_SUMS_H
#define SPOT_TRAIN_SUMS_H

#include <stdbool.h>
#include <stdint.h>

#include "comm/comm.h"
#include "common/err.h"
#include "engine/stage.h"
#include "train/form.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_sums {
    struct spot_comm *comm;
    const struct spot_form *form;
    struct spot_stage *stage;
    const struct spot_shape *shape;
    const size_t *bundle_elem; /* [n_bundle], elements of a plane */
    struct spot_form_place at; /* this member's */
    bool is_fast;              /* sums as floats, only on a device */
    int64_t step;

    uint32_t n_gone; /* bundles already sent, counted from the end of the stage */
    int rc;          /* result of the watched calls */
    struct spot_err err;
};

/* Call before the last backward call of a step. */
void spot_sums_watch(struct spot_sums *sums);
void spot_sums_unwatch(struct spot_sums *sums);

/* Call after the last backward call. On return spot_stage_sum is the sum over all replicas, in host
 * memory; for a tied shape the sums of wte and head.w are both the sum of the two. The first
 * replica has sent it to the stage's buddy and receivers. Returns 0, or -1 with *err of
 * comm/comm.h. */
int spot_sums_finish(struct spot_sums *sums, struct spot_err *err);

/* A tied head has the exponent of wte: where a mask of the first or last bundle has the bit of one
 * of them, set the bit of both. */
void spot_sums_tie_overflow(const struct spot_shape *shape, uint32_t *first, uint32_t *last);

struct spot_mirror {
    struct spot_comm *comm;
    const struct spot_form *form;
    int64_t position;           /* position in the grid, -1: none */
    struct spot_stage *stage;   /* the stage of this position */
    struct spot_stage **mirror; /* [bundles] stage objects that mirror bundles here, or NULL */
    const size_t *bundle_elem;
};

/* The mirrors' part of a step: receive the sums of the stages mirrored here, with which a mirror
 * can apply the step's update; send this stage's own if its memory is a device's. Returns as
 * above. */
int spot_sums_mirror(const struct spot_mirror *mirror, int64_t step, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TRAIN_SUMS_H */
