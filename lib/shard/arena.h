/* SPDX-License-Identifier: MIT */
/* arena.h - where every number of a model lies, as a pure function of its shape.
 *
 * A model is cut into bundles: 0 the embedding, 1..L the layers, L+1 the head.
 * A bundle is one arena per plane (master weights, first and second moment),
 * all planes with equal element offsets:
 *
 *   [replicated tensors][shard 0 tensors][shard 1 tensors]...[shard S-1 tensors]
 *
 * Sharded tensors keep their sharded dimension first. Every tensor is padded
 * to SPOT_TENSOR_ALIGN elements, the replicated part and each shard to
 * SPOT_SHARD_ALIGN; padding is zero and stays zero. So a pipeline stage is an
 * interval of bundles, a tensor-parallel rank an interval of shards, and every
 * change of grid a list of contiguous ranges: no index ever travels.
 *
 * Symbols: L layers, C width, H heads, Hk heads of keys and values, d = C / H, T sequence,
 * V vocabulary, F width inside the MLP, S shards.
 */
#ifndef SPOT_SHARD_ARENA_H
#define SPOT_SHARD_ARENA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    SPOT_TENSORS_MAX = 16,   /* in one bundle */
    SPOT_TENSOR_ALIGN = 64,  /* elements */
    SPOT_SHARD_ALIGN = 1024, /* elements: 4096 bytes of fp32 */
    SPOT_TENSOR_NAME_MAX = 32,
    SPOT_LAYERS_MAX = 4096,
};

/* What a layer is: GPT-2's (layer norm, learnt positions, GELU, biases), or Llama's (RMS norm,
 * rotary positions, SwiGLU, grouped-query attention, no biases). */
enum spot_arch { SPOT_ARCH_GPT2, SPOT_ARCH_LLAMA, SPOT_ARCHES };

struct spot_shape {
    int64_t n_layer, width, n_head, seq, vocab, n_shard;
    /* for Llama's only, else 0: GPT-2's have Hk = H and F = 4C */
    int64_t arch, n_kv_head, ffn;
    double rope_theta; /* pair i of d / 2 turns by rope_theta^(-2i / d) from position to position */
    int64_t is_tied;   /* 0 or 1: head.w is a copy of wte, and their gradients are one */
    double norm_eps;   /* in every norm, beside the variance or mean square; 0: 1e-5 */
};

/* "gpt2", "llama"; -1 when there is none of that name. */
const char *spot_arch_name(int64_t arch);
int spot_arch_find(const char *name);

/* Refuse what cannot be computed or would not fit: S divides H and C, H divides C; Llama's: S
 * divides Hk and F, Hk divides H, d is even; every factor and the parameter count are bounded.
 * Returns 0, or -1 with *err (SPOT_EDATA). */
int spot_shape_check(const struct spot_shape *shape, struct spot_err *err);

int64_t spot_shape_kv_heads(const struct spot_shape *shape); /* Hk */
int64_t spot_shape_ffn(const struct spot_shape *shape);      /* F */
double spot_shape_norm_eps(const struct spot_shape *shape);

/* Outputs of a layer's first two products: queries, keys and values, (H + 2Hk) d; and what enters
 * the MLP's activation, F of GPT-2's and 2F of Llama's (gate and up). */
int64_t spot_shape_qkv(const struct spot_shape *shape);
int64_t spot_shape_pre(const struct spot_shape *shape);

/* Bundles: L + 2. */
int spot_shape_bundles(const struct spot_shape *shape);

/* Rows of wte and head.w: V, rounded up to a multiple of S, and of 128 from V = 1024 on. Rows V and
 * beyond are zero and stay zero: no token is theirs, and their logits are left out of the softmax.
 */
int64_t spot_shape_vocab_rows(const struct spot_shape *shape);

/* Parameters, padding not counted. */
int64_t spot_shape_params(const struct spot_shape *shape);

enum spot_bundle_kind { SPOT_BUNDLE_EMBED, SPOT_BUNDLE_LAYER, SPOT_BUNDLE_HEAD };

struct spot_tensor {
    const char *name;   /* "qkv.w" */
    bool is_sharded;    /* else replicated */
    bool is_decayed;    /* weight decay applies (2-D weights) */
    int64_t rows, cols; /* of one shard, or of the whole if replicated; cols 1 for vectors */
    size_t offset;      /* elements, from the start of the arena or of a shard */
};

struct spot_arena {
    enum spot_bundle_kind kind;
    int n_tensor, n_shard;
    struct spot_tensor tensor[SPOT_TENSORS_MAX];
    size_t replicated_elem; /* where shard 0 starts */
    size_t shard_elem;      /* from one shard to the next */
    size_t n_elem;          /* of a plane */
};

/* The layout of one bundle of a shape that passed spot_shape_check. */
void spot_arena_of(const struct spot_shape *shape, int bundle, struct spot_arena *arena);

/* Element offset of a tensor in a plane; shard is 0 for replicated tensors. */
size_t spot_arena_offset(const struct spot_arena *arena, int tensor, int shard);

/* Index of a tensor by name, -1 if there is none. */
int spot_arena_find(const struct spot_arena *arena, const char *name);

/* Is it head.w of a tied shape? It has the bits of wte, and counts as a parameter once. */
bool spot_arena_is_copy(const struct spot_shape *shape, const struct spot_arena *arena, int tensor);

/* "embed.wpe", "l007.ln1.w", "l007.s03.fc1.w", "head.s00.head.w". */
void spot_arena_tensor_name(const struct spot_arena *arena, int bundle, int tensor, int shard,
                            char name[SPOT_TENSOR_NAME_MAX]);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SHARD_ARENA_H */
