/* SPDX-License-Identifier: MIT */
/* exact.h - what every backend must compute identically: exponents of the fixed-point sums, AdamW's
 * constants.
 *
 * Why: docs/design/02-exact-sums.md.
 */
#ifndef SPOT_ENGINE_EXACT_H
#define SPOT_ENGINE_EXACT_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/stage.h"
#include "shard/bundle.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Chunk size of norm and update, in elements: an interval of one tensor of one shard. */
enum { SPOT_EXACT_CHUNK = 16384 };

/* |gradient * 2^exponent| of one of n_microbatch microbatches is below 2^this; for a tied shape
 * twice as many are added. */
int spot_exact_limit_bits(int n_microbatch, bool is_tied);

/* The exponent of the next step, from the largest |sum| of this one; 0: unchanged. */
int32_t spot_exact_next(int32_t exponent, int limit_bits, double top);

/* Implements spot_stage_back_off. */
void spot_exact_back_off(struct spot_bundle *bundle, uint32_t overflow);

/* The gradient of a tensor is its sum times this. */
double spot_exact_unit(const struct spot_bundle *bundle, int tensor, int n_microbatch,
                       double scale);

struct spot_adamw_step {
    double unit; /* gradient = sum * unit */
    float lr, beta1, beta2, eps;
    float rest1, rest2;               /* 1 - beta */
    float m_correction, v_correction; /* 1 / (1 - beta^t) */
    float weight_decay;               /* 0 if the tensor is not decayed */
};

/* Constants of the update to the bundle's step + 1. */
struct spot_adamw_step spot_exact_adamw(const struct spot_bundle *bundle, int tensor,
                                        int n_microbatch, const struct spot_adamw *adamw,
                                        double scale);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_ENGINE_EXACT_H */
