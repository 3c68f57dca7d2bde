/* SPDX-License-Identifier: MIT */
/* arena.h - the position of every number of a model, as a pure function of its shape.
 *
 * A model is cut into bundles: 0 the embedding, 1..L the layers, L+1 the head. A bundle is one
 * arena per plane (master weights, first and second moment), all planes with equal element offsets:
 *
 *   [replicated tensors][shard 0 tensors][shard 1 tensors]...[shard S-1 tensors]
 *
 * Sharded tensors keep their sharded dimension first. Every tensor is padded to SPOT_TENSOR_ALIGN
 * elements, the replicated part and each shard to SPOT_SHARD_ALIGN; padding is zero and stays zero.
 * So a pipeline stage is an interval of bundles, a tensor-parallel rank an interval of shards, and
 * every change of grid a list of contiguous ranges: so no index is ever sent.
 *
 * Symbols as in model/shape.h.
 */
#ifndef SPOT_SHARD_ARENA_H
#define SPOT_SHARD_ARENA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/shape.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    SPOT_TENSORS_MAX = 16,   /* in one bundle */
    SPOT_TENSOR_ALIGN = 64,  /* elements */
    SPOT_SHARD_ALIGN = 1024, /* elements: 4096 bytes of fp32 */
    SPOT_TENSOR_NAME_MAX = 32,
};

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

/* True for head.w of a tied shape. It has the bits of wte, and its parameters are counted once. */
bool spot_arena_is_copy(const struct spot_shape *shape, const struct spot_arena *arena, int tensor);

/* "embed.wpe", "l007.ln1.w", "l007.s03.up.w", "head.s00.head.w". */
void spot_arena_tensor_name(const struct spot_arena *arena, int bundle, int tensor, int shard,
                            char name[SPOT_TENSOR_NAME_MAX]);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SHARD_ARENA_H */
