/* SPDX-License-Identifier: MIT */
/* gpt2_names.h - what the tensors of a bundle are called, and how they lie, in GPT-2's own files.
 */
#ifndef SPOT_JOB_GPT2_NAMES_H
#define SPOT_JOB_GPT2_NAMES_H

#include "shard/arena.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How the whole lies against its shards, whose sharded dimension is first. */
enum spot_gpt2_how {
    SPOT_GPT2_STACK,     /* rows of shard after shard */
    SPOT_GPT2_TRANSPOSE, /* the same, then input by output */
    SPOT_GPT2_QKV,       /* shards hold their heads of q, k and v: gather, then transpose */
};

struct spot_gpt2_name {
    const char *ours, *theirs; /* for a layer, behind "transformer.h.N." */
    enum spot_gpt2_how how;
};

/* The tensors of a kind of bundle, in the order of the file: [*n]. */
const struct spot_gpt2_name *spot_gpt2_names(enum spot_bundle_kind kind, size_t *n);

/* The row of the whole matrix that row r of a shard is. */
int64_t spot_gpt2_row(enum spot_gpt2_how how, const struct spot_tensor *tensor, int n_shard,
                      int shard, int64_t r);

/* Rows of a tensor over all shards, without the padding of the vocabulary. */
int64_t spot_gpt2_rows(const struct spot_shape *shape, const struct spot_arena *arena, int tensor);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_JOB_GPT2_NAMES_H */
