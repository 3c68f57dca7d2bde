/* SPDX-License-Identifier: MIT */
/* sampler.h - which sequences of the corpus a microbatch reads.
 *
 * The corpus is cut into sequences of T tokens (with the token after each as its last target); the
 * remainder is left out. Sample q of the job is sequence perm(q mod n) of data epoch q / n, perm a
 * permutation drawn by (seed, epoch): every sequence is read once per data epoch, and which one is
 * a pure function of (seed, step, microbatch).
 */
#ifndef SPOT_TRAIN_SAMPLER_H
#define SPOT_TRAIN_SAMPLER_H

#include <stdint.h>

#include "common/err.h"
#include "text/corpus.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_sampler {
    const struct spot_corpus *corpus;
    const float *weight; /* [n_token of the corpus] borrowed: the factor of the loss of each as a
                            target; NULL: there are none */
    uint64_t seed;
    int64_t seq, n_sequence;
};

/* The corpus is borrowed. Returns 0, or -1 with *err (SPOT_EDATA): shorter than one sequence. */
int spot_sampler_init(struct spot_sampler *sampler, const struct spot_corpus *corpus, int64_t seq,
                      uint64_t seed, struct spot_err *err);

/* The sequence, 0..n_sequence-1, that sample q reads; q >= 0. */
int64_t spot_sampler_sequence(const struct spot_sampler *sampler, int64_t q);

/* Read the T + 1 tokens of a sequence into token[T + 1]. If tokens have weights, those of the T
 * targets follow in token[T + 1 + T]. Returns 0, or -1 with *err of spot_corpus_read. */
int spot_sampler_read(const struct spot_sampler *sampler, int64_t sequence, uint32_t *token,
                      struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TRAIN_SAMPLER_H */
