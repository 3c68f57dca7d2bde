/* SPDX-License-Identifier: MIT */
/* pipeline.h - one member's part of a step: 1F1B over its microbatches, then the sum over the
 * replicas. */
#ifndef SPOT_TRAIN_PIPELINE_H
#define SPOT_TRAIN_PIPELINE_H

#include <stdint.h>

#include "comm/comm.h"
#include "comm/mesh.h"
#include "common/err.h"
#include "engine/stage.h"
#include "train/form.h"
#include "train/verify.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_pipeline {
    struct spot_comm *comm;
    struct spot_mesh *mesh; /* gets reports of progress */
    struct spot_stage *stage;
    const struct spot_form *form;
    const struct spot_shape *shape;
    struct spot_form_place at; /* this member's */
    bool is_fast;              /* sums as floats, only on a device */
    size_t n_token;            /* words of one microbatch, see spot_stage_words */
    const size_t *bundle_elem; /* [n_bundle], elements of a plane */
};

/* The part of a step that is checked, see verify.h. */
struct spot_pipeline_check {
    struct spot_verify_order order;
    const uint32_t *token;   /* of the microbatches `again`, for first and last stage */
    struct spot_buf *report; /* the reports of `again`, then of `first`, are appended, if any */
};

/* Time spent in a step, in seconds of the clock. */
struct spot_pipeline_times {
    double forward_s, backward_s; /* within the stage, all microbatches of this pipeline */
    double reduce_s;              /* sums over replicas after that, including waiting */
};

/* Number of microbatches in flight on stage p of P, for pipeline d with m microbatches: min(m, P -
 * p). */
int spot_pipeline_slots(const struct spot_form *form, uint32_t d, uint32_t p);

/* Compute the microbatches of this pipeline and finish the sums, as spot_sums_finish.
 *   token  [m * n_token] of this pipeline's m microbatches, for first and last stage
 *   loss   [m], written on the last stage
 *   check  NULL: nothing is checked
 *   times  written
 * Returns 0, or -1 with *err of comm/comm.h. */
int spot_pipeline_step(const struct spot_pipeline *pl, int64_t step, const uint32_t *token,
                       double *loss, const struct spot_pipeline_check *check,
                       struct spot_pipeline_times *times, struct spot_err *err);

/* Compute the microbatches `order.again` on one member that holds all stages and has no place.
 * stage[P] has an object with one slot for each stage; each is reset first. Appends the reports of
 * all stages to check->report. The fields comm, stage, at and bundle_elem of pl are not used.
 * Returns 0, or -1 with *err. */
int spot_pipeline_alone(const struct spot_pipeline *pl, struct spot_stage *const *stage,
                        const struct spot_pipeline_check *check, struct spot_err *err);

/* Forward only, for the same microbatches: compute the losses of the current weights. Does not
 * change the state of a step; parameters and result as of spot_pipeline_step. */
int spot_pipeline_validate(const struct spot_pipeline *pl, int64_t step, const uint32_t *token,
                           double *loss, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TRAIN_PIPELINE_H */
