/* SPDX-License-Identifier: MIT */
/* attention.h - causal attention for the heads that share keys and values, in blocks of query rows.
 *
 * A block of queries reads only the keys up to its own end; probabilities are not stored but
 * recomputed from the row's maximum and sum. Sums over keys run in ascending order; the gradients
 * of keys and values are chains over ascending heads, and blocks of their queries.
 */
#ifndef SPOT_ENGINE_CPU_ATTENTION_H
#define SPOT_ENGINE_CPU_ATTENTION_H

#include "engine/cpu/gemm.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_attention {
    const struct spot_cpu_kernel *kernel;
    int64_t seq, head_dim, n_head, n_kv_head, n_shard;
    /* [rows * (H + 2Hk) d], columns [shard][q|k|v][their heads of the shard][d]. The forward pass
     * rotates queries and keys in place. */
    float *qkv;
    float *out;        /* [rows * H d] */
    float *stat;       /* [b * H * T * 2] maximum and 1 / sum of each row, for the backward pass */
    const float *turn; /* spot_rope_table [T * n_turned], or NULL: no rotary positions */
    int64_t n_turned;  /* numbers of a head that are rotated */
    int64_t window;    /* positions that a query sees, its own included; 0: all before it */
    float scale, cap;  /* of scores; a cap of 0: none */
    const float *dout;
    float *dqkv; /* gradients of out and of qkv, in the same layouts; backward pass only */
};

/* Scratch space of one thread, in elements. */
size_t spot_attention_work_elem(int64_t seq, int64_t head_dim, bool is_capped);

/* Unit = sequence * Hk + (index of the head of keys and values). Writes the unit's part of out and
 * stat. */
void spot_attention_forward(const struct spot_attention *at, int64_t unit,
                            const struct spot_gemm_work *work, float *memory);
/* Writes the unit's part of dqkv. */
void spot_attention_backward(const struct spot_attention *at, int64_t unit,
                             const struct spot_gemm_work *work, float *memory);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_ENGINE_CPU_ATTENTION_H */
