/* SPDX-License-Identifier: MIT */
/* evidence.h - hashes by which a commit can be checked: of state and gradient sums, by tensor, and
 * of the chain of commits. For what they prove see docs/design/33-evidence.md.
 */
#ifndef SPOT_TRAIN_EVIDENCE_H
#define SPOT_TRAIN_EVIDENCE_H

#include <stdbool.h>
#include <stdint.h>

#include "comm/wire.h"
#include "common/hash.h"
#include "engine/stage.h"
#include "shard/bundle.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Hashes of a bundle by tensor: of its planes and exponent, and of its gradient sums. */
struct spot_evidence {
    uint64_t state[SPOT_TENSORS_MAX], sum[SPOT_TENSORS_MAX];
};

/* True if members with this kernel kind provide evidence. Device memory is not hashed. */
bool spot_evidence_of_kernel(const char *kernel);

/* Hash of all shards of tensor t: of its planes and exponent; of its sums [arena.n_elem]. */
uint64_t spot_evidence_state(const struct spot_bundle *bundle, int t);
uint64_t spot_evidence_sum(const struct spot_arena *arena, const int64_t *sum, int t);
void spot_evidence_take(struct spot_evidence *evidence, const struct spot_bundle *bundle,
                        const int64_t *sum);

/* Returns the first tensor whose hashes differ, -1 if none. */
int spot_evidence_differs(const uint64_t *a, const uint64_t *b, int n_tensor);

/* Write hashes to a message, and read them: n_tensor of each kind. */
void spot_evidence_put(struct spot_buf *out, const struct spot_evidence *evidence, int n_tensor);
void spot_evidence_get(struct spot_wire_in *in, struct spot_evidence *evidence, int n_tensor);

/* 16 bits of each tensor's hash, as text. They only locate a tensor; that something differs is
 * proved by the chain. */
enum { SPOT_EVIDENCE_TAG = 4, SPOT_EVIDENCE_TAGS = SPOT_TENSORS_MAX * SPOT_EVIDENCE_TAG + 1 };
void spot_evidence_tags(const uint64_t *hash, int n_tensor, char tags[SPOT_EVIDENCE_TAGS]);

/* Numbers, besides state and samples, on which a step depends. */
struct spot_step_parameters {
    double lr, weight_decay, beta1, beta2, eps, scale; /* scale: of the clip */
    double loss;                                       /* follows from the rest */
};
struct spot_step_parameters spot_step_parameters(const struct spot_adamw *adamw, double scale,
                                                 float loss);
uint64_t spot_step_parameters_hash(const struct spot_step_parameters *parameters);

/* The chain before the first step of a job; the chain after a commit over bundle[n_bundle] of the
 * shape. */
struct spot_hash128 spot_chain_begin(uint64_t job);
struct spot_hash128 spot_chain_next(struct spot_hash128 before, const struct spot_shape *shape,
                                    const struct spot_evidence *bundle, uint64_t samples,
                                    uint64_t parameters);
/* Parse 32 hex digits; false for any other text. */
bool spot_chain_parse(const char *hex, struct spot_hash128 *hash);

/* The newest links of the chain, from which a job continues after a rollback. All zeros: none. */
enum { SPOT_CHAIN_KEPT = 256 };
struct spot_chain {
    struct {
        int64_t step; /* 0: none */
        struct spot_hash128 hash;
    } link[SPOT_CHAIN_KEPT];
};
void spot_chain_put(struct spot_chain *chain, int64_t step, struct spot_hash128 hash);
bool spot_chain_find(const struct spot_chain *chain, int64_t step, struct spot_hash128 *hash);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TRAIN_EVIDENCE_H */
