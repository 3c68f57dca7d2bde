/* SPDX-License-Identifier: MIT */
/* pipeline.h - one member's part of a step: 1F1B over its microbatches, then the sum over replicas.
 */
#ifndef SPOT_JOB_PIPELINE_H
#define SPOT_JOB_PIPELINE_H

#include <stdint.h>

#include "comm/mesh.h"
#include "common/err.h"
#include "engine/stage.h"
#include "job/form.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_pipeline {
    struct spot_mesh *mesh;
    struct spot_stage *stage;
    const struct spot_form *form;
    uint32_t d, p;             /* this member's place */
    int64_t n_microbatch;      /* G */
    size_t n_token;            /* of one microbatch, b * (T + 1) */
    const size_t *bundle_elem; /* [n_bundle], elements of a plane */
};

/* Microbatches that are in flight at once on stage p of P: min(m, P - p). */
int spot_pipeline_slots(const struct spot_form *form, uint32_t p, int64_t n_microbatch);

/* The buddy's part of a step: take the complete sums of stage p from its first replica into
 * `mirror`, a stage object over the same bundles. Returns 0, or -1 with *err of spot_mesh_recv. */
int spot_pipeline_mirror(struct spot_mesh *mesh, const struct spot_form *form, uint32_t p,
                         struct spot_stage *mirror, const size_t *bundle_elem, int64_t step,
                         struct spot_err *err);

/* Compute the microbatches of this pipeline and add the gradient sums of all replicas, so that
 * spot_stage_sum is complete; the first replica sends them to the stage's buddy, if it has one.
 *   token  [m * n_token] of this pipeline's m microbatches, for first and last stage
 *   loss   [m], written on the last stage
 * Returns 0, or -1 with *err of spot_mesh_send. */
int spot_pipeline_step(const struct spot_pipeline *pl, int64_t step, const uint32_t *token,
                       double *loss, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_JOB_PIPELINE_H */
