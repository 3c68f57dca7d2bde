/* SPDX-License-Identifier: MIT */
/* initial_weights.h - the initial weights of a model when none are loaded. */
#ifndef SPOT_ENGINE_INITIAL_WEIGHTS_H
#define SPOT_ENGINE_INITIAL_WEIGHTS_H

#include <stdint.h>

#include "shard/bundle.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A pure function of (shape, seed, bundle). GPT-2's distribution, for Llama's shapes too: normal(0,
 * 0.02), residual projections times 1/sqrt(2L), norm weights 1, biases 0; a tied head is wte. */
void spot_bundle_start(struct spot_bundle *bundle, const struct spot_shape *shape, uint64_t seed);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_ENGINE_INITIAL_WEIGHTS_H */
