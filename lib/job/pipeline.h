/* SPDX-License-Identifier: MIT */
/* pipeline.h - one member's part of a step: 1F1B over its microbatches, then the sum over replicas.
 */
#ifndef SPOT_JOB_PIPELINE_H
#define SPOT_JOB_PIPELINE_H

#include <stdint.h>

#include "comm/comm.h"
#include "comm/mesh.h"
#include "common/err.h"
#include "engine/stage.h"
#include "job/form.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_pipeline {
    struct spot_comm *comm;
    struct spot_mesh *mesh; /* is told of progress */
    struct spot_stage *stage;
    const struct spot_form *form;
    uint32_t d, p;             /* this member's place */
    bool is_fast;              /* sums as floats, on a device only */
    size_t n_token;            /* of one microbatch, b * (T + 1) */
    const size_t *bundle_elem; /* [n_bundle], elements of a plane */
};

/* Where the time of a step went, in seconds of the clock. */
struct spot_pipeline_times {
    double forward_s, backward_s; /* inside the stage, all microbatches of this pipeline */
    double reduce_s;              /* the sum over replicas, waiting for them included */
};

/* Microbatches m of pipeline d that are in flight at once on stage p of P: min(m, P - p). */
int spot_pipeline_slots(const struct spot_form *form, uint32_t d, uint32_t p);

/* Compute the microbatches of this pipeline and add the gradient sums of all replicas, so that
 * spot_stage_sum is complete.
 *   token  [m * n_token] of this pipeline's m microbatches, for first and last stage
 *   loss   [m], written on the last stage
 *   times  written
 * Returns 0, or -1 with *err of comm/comm.h. */
int spot_pipeline_step(const struct spot_pipeline *pl, int64_t step, const uint32_t *token,
                       double *loss, struct spot_pipeline_times *times, struct spot_err *err);

struct spot_mirror {
    struct spot_comm *comm;
    const struct spot_form *form;
    int64_t position;           /* in the grid, -1 for none */
    struct spot_stage *stage;   /* of this position */
    struct spot_stage **mirror; /* [P], stage objects over the same bundles, or NULL */
    const size_t *bundle_elem;
};

/* The buddies' part of a step: whoever has the sums of a step can make its update, so the first
 * replica of a stage sends them to its buddy. Returns as spot_pipeline_step. */
int spot_pipeline_mirror(const struct spot_mirror *mirror, int64_t step, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_JOB_PIPELINE_H */
