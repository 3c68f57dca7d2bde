/* SPDX-License-Identifier: MIT */
/* sample.h - choose a token from logits, as a pure function of its arguments.
 *
 * In this order: penalties for tokens that were there before; temperature; top_k; top_p of what is
 * left; min_p; one draw. Noise is a function of (seed, choice, position) and of nothing else, so a
 * request that goes on elsewhere goes on with the same tokens. Of equal logits the lower token
 * comes first. Without libm: the same tokens on every machine.
 */
#ifndef SPOT_ENGINE_SAMPLE_H
#define SPOT_ENGINE_SAMPLE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct spot_sample {
    double temperature; /* 0: the largest logit */
    int64_t top_k;      /* the k largest; 0: all */
    double top_p;       /* the fewest that have this much of the probability; 1: all */
    double min_p;       /* at least this share of the most probable one's; 0: all */
    double repetition;  /* logits of known tokens: positive ones divided, others times this; 1 */
    double presence;    /* less, for a token that was generated */
    double frequency;   /* less, for each time that it was */
    uint64_t seed;
};

/* No cuts and no penalties at temperature 1. */
extern const struct spot_sample spot_sample_plain;

/* What a token's penalties hang on; either may be NULL: none. */
struct spot_sample_past {
    const uint32_t *n_prompt, *n_generated; /* [V] how often it was there */
};

/* [0, 1), 53 bits */
double spot_sample_noise(uint64_t seed, uint64_t choice, uint64_t position);

/* The token for a position of one of a request's choices; *logprob, unless NULL, is the logarithm
 * of its probability by the logits alone. work has n elements, n >= 1. Logits that are no numbers
 * are never chosen, unless all are: then 0. */
struct spot_sample_work {
    double logit, weight;
    uint32_t token;
};
uint32_t spot_sample_choose(const struct spot_sample *sample, const float *logit, int64_t n,
                            const struct spot_sample_past *past, uint64_t choice, uint64_t position,
                            struct spot_sample_work *work, double *logprob);

/* Logarithm of a token's probability by the logits alone. */
double spot_sample_logprob(const float *logit, int64_t n, uint32_t token);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_ENGINE_SAMPLE_H */
