/* SPDX-License-Identifier: MIT */
/* sample.h - chooses a token from logits, as a pure function of its arguments.
 *
 * In this order: penalties for earlier tokens; temperature; top_k; top_p of the remainder; min_p;
 * one draw. Noise is a function of (seed, choice, position) only, so a request that continues
 * elsewhere continues with the same tokens. Of equal logits the lower token comes first. Without
 * libm: the same tokens on every machine.
 */
#ifndef SPOT_ENGINE_SAMPLE_H
#define SPOT_ENGINE_SAMPLE_H

#include <stdint.h>

#include "model/shape.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_sample {
    double temperature; /* 0: the largest logit */
    int64_t top_k;      /* keep the k largest; 0: all */
    double top_p;       /* keep the fewest with this much probability; 1: all */
    double min_p;       /* keep those with this share of the largest probability; 0: all */
    double repetition;  /* logits of earlier tokens: positive ones divided, others multiplied by
                           this; 1: off */
    double presence;    /* subtracted for a token that was generated */
    double frequency;   /* subtracted for each time that it was generated */
    uint64_t seed;
};

/* No filters and no penalties, temperature 1. */
extern const struct spot_sample spot_sample_plain;

/* Token counts that penalties depend on; either may be NULL: none. */
struct spot_sample_past {
    const uint32_t *n_prompt, *n_generated; /* [V] number of occurrences */
};

/* [0, 1), 53 bits */
double spot_sample_noise(uint64_t seed, uint64_t choice, uint64_t position);

/* Choose the token for a position of one of a request's choices. work has n elements, n >= 1. NaN
 * logits are never chosen, unless all are NaN: then 0. */
struct spot_sample_work {
    double logit, weight;
    uint32_t token;
};
uint32_t spot_sample_choose(const struct spot_sample *sample, const float *logit, int64_t n,
                            const struct spot_sample_past *past, uint64_t choice, uint64_t position,
                            struct spot_sample_work *work);

/* The log-sum-exp of a row of logits: the log probability of token t is logit[t] minus this. It
 * equals the negative loss of a CPU's forward pass in training, bit for bit, so the sum is taken
 * over the shards of the vocabulary as there. NaN if a logit is NaN. */
double spot_sample_norm(const struct spot_shape *shape, const float *logit);

/* Log probability of a token from the unmodified logits. */
double spot_sample_logprob(const struct spot_shape *shape, const float *logit, uint32_t token);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_ENGINE_SAMPLE_H */
