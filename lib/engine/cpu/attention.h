/* SPDX-License-Identifier: MIT */
/* attention.h - causal attention of one head of one sequence, in blocks of query rows.
 *
 * A block of queries meets the keys up to its own end only; probabilities are not kept but
 * computed again from the row's maximum and sum. Sums over keys run in ascending order, the
 * gradients of keys and values are chains over ascending blocks of queries.
 */
#ifndef SPOT_ENGINE_CPU_ATTENTION_H
#define SPOT_ENGINE_CPU_ATTENTION_H

#include "engine/cpu/gemm.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_attention {
    const struct spot_cpu_kernel *kernel;
    int64_t seq, width, n_head, n_shard;
    float *qkv;  /* [rows * 3C], columns [shard][q|k|v][head of the shard][d] */
    float *out;  /* [rows * C] */
    float *stat; /* [n_unit * T * 2] maximum and 1 / sum of each row, for the backward pass */
    const float *dout;
    float *dqkv; /* gradients, as out and qkv; backward only */
};

/* Scratch space of one thread, elements. */
size_t spot_attention_work_elem(int64_t seq, int64_t head_dim);

/* Sequence and head `unit` (sequence * n_head + head): fills its part of out and stat. */
void spot_attention_forward(const struct spot_attention *at, int64_t unit,
                            const struct spot_gemm_work *work, float *memory);
/* Fills its part of dqkv. */
void spot_attention_backward(const struct spot_attention *at, int64_t unit,
                             const struct spot_gemm_work *work, float *memory);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_ENGINE_CPU_ATTENTION_H */
