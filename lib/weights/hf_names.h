/* SPDX-License-Identifier: MIT */
/* hf_names.h - names and layouts of a bundle's tensors in the files of Hugging Face's GPT-2 and
 * Llama.
 */
#ifndef SPOT_WEIGHTS_HF_NAMES_H
#define SPOT_WEIGHTS_HF_NAMES_H

#include <stdbool.h>

#include "shard/arena.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_HF_NAME_MAX = 64 };

/* Layout of the whole tensor relative to its shards, whose first dimension is the sharded one. */
enum spot_hf_how {
    SPOT_HF_STACK,     /* rows of the shards, concatenated */
    SPOT_HF_TRANSPOSE, /* the same, then transposed */
    SPOT_HF_QKV,       /* shards hold their heads of q, k and v: gather, then transpose */
};

/* Which rows of each shard: one tensor of ours corresponds to several of Llama's. */
enum spot_hf_part { SPOT_HF_ALL, SPOT_HF_Q, SPOT_HF_K, SPOT_HF_V, SPOT_HF_GATE, SPOT_HF_UP };

struct spot_hf_name {
    const char *ours, *theirs; /* for a layer, after "transformer.h.N." or "model.layers.N." */
    enum spot_hf_how how;
    enum spot_hf_part part;
};

/* The tensors of a kind of bundle, in the order of the file: [*n]. */
const struct spot_hf_name *spot_hf_names(const struct spot_shape *shape, enum spot_bundle_kind kind,
                                         size_t *n);

/* "transformer.h.0.ln_1.weight", "model.layers.0.input_layernorm.weight" */
void spot_hf_name_of(const struct spot_shape *shape, int bundle, const struct spot_hf_name *name,
                     char full[SPOT_HF_NAME_MAX]);

/* The name without "transformer." or "model.", which files of a bare decoder lack. */
const char *spot_hf_bare(const char *full);

/* Does a model of this shape have a tensor with that bare name? Or may files contain it although no
 * model needs it: a causal mask, the frequencies of rotary positions? */
bool spot_hf_is_known(const struct spot_shape *shape, const char *bare);

/* Rows [first, first + n) of each shard of our tensor correspond to a name. */
struct spot_hf_rows {
    int64_t first, n;
};
struct spot_hf_rows spot_hf_rows(const struct spot_shape *shape, const struct spot_tensor *tensor,
                                 enum spot_hf_part part);

/* The row of the whole matrix that corresponds to row r of these in a shard. */
int64_t spot_hf_row(enum spot_hf_how how, const struct spot_hf_rows *rows, int n_shard, int shard,
                    int64_t r);

/* Rows over all shards, without the padding of the vocabulary. */
int64_t spot_hf_n_row(const struct spot_shape *shape, const struct spot_tensor *tensor,
                      enum spot_hf_part part);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_WEIGHTS_HF_NAMES_H */
