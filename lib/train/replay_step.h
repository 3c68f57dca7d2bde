/* SPDX-License-Identifier: MIT */
/* replay_step.h - computes steps of a job alone: a whole model in one stage, without a group. The
 * bits are those of every grid. */
#ifndef SPOT_TRAIN_REPLAY_STEP_H
#define SPOT_TRAIN_REPLAY_STEP_H

#include <stdint.h>

#include "common/err.h"
#include "train/config.h"
#include "train/evidence.h"
#include "train/sampler.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_replay;

/* bundle[n_bundle], all at one step, the configuration and the sampler are borrowed. Returns NULL
 * with *err on failure. */
struct spot_replay *spot_replay_new(const struct spot_job_config *config,
                                    const struct spot_sampler *sampler,
                                    struct spot_bundle *const *bundle, int n_thread,
                                    struct spot_err *err);
void spot_replay_free(struct spot_replay *replay);

/* The values that a commit of the step reports. */
struct spot_replayed {
    struct spot_evidence *evidence; /* [n_bundle], owned by the caller; the state before the step */
    uint64_t samples;
    struct spot_step_parameters parameters;
    float loss;
};

/* Compute and apply step + 1 of the bundles. Returns 0, or -1 with *err: SPOT_EDATA if a gradient
 * is not finite, SPOT_ESYS. */
int spot_replay_step(struct spot_replay *replay, struct spot_replayed *out, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TRAIN_REPLAY_STEP_H */
