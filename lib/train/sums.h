/* SPDX-License-Identifier: MIT */
/* sums.h - a step's gradient sums on their way to the replicas of a stage and those who mirror it:
 * its buddy, and the receivers of its bundles.
 *
 * A sum leaves as soon as it is complete: the last backward pass goes from the last bundle to the
 * first, and what it leaves behind travels while the rest is computed. Sums on a device are added
 * up after the pass.
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
    bool is_fast;              /* sums as floats, on a device only */
    int64_t step;

    uint32_t n_gone; /* the last bundles of the stage, already on their way */
    int rc;          /* of what the watched call met */
    struct spot_err err;
};

/* Around the last backward call of a step. */
void spot_sums_watch(struct spot_sums *sums);
void spot_sums_unwatch(struct spot_sums *sums);

/* After the last backward call: when it returns, spot_stage_sum is the sum over all replicas, of a
 * tied shape those of wte and head.w are both the sum of the two, and where memory is the host's,
 * the first replica's has been sent to the stage's buddy and receivers. Returns 0, or -1 with *err
 * of comm/comm.h. */
int spot_sums_finish(struct spot_sums *sums, struct spot_err *err);

struct spot_mirror {
    struct spot_comm *comm;
    const struct spot_form *form;
    int64_t position;           /* in the grid, -1 for none */
    struct spot_stage *stage;   /* of this position */
    struct spot_stage **mirror; /* [bundles], stage objects that mirror them here, or NULL */
    const size_t *bundle_elem;
};

/* The mirrors' part of a step: whoever has the sums of a step can make its update. Takes those of
 * the stages mirrored here, and sends its own where memory is a device's. Returns as above. */
int spot_sums_mirror(const struct spot_mirror *mirror, int64_t step, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TRAIN_SUMS_H */
