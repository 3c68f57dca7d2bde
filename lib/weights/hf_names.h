/* SPDX-License-Identifier: MIT */
/* hf_names.h - names and layouts of a bundle's tensors in the files of Hugging Face.
 *
 * The tensors follow from the shape (shard/arena.h); the family determines how files name, fuse and
 * transpose them.
 */
#ifndef SPOT_WEIGHTS_HF_NAMES_H
#define SPOT_WEIGHTS_HF_NAMES_H

#include <stdbool.h>

#include "shard/arena.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_HF_NAME_MAX = 96, SPOT_HF_NAMES_MAX = 24 };

/* How the whole tensor is composed of its shards; the first dimension of a shard is the sharded
 * one. */
enum spot_hf_how {
    SPOT_HF_STACK,     /* rows of the shards, concatenated */
    SPOT_HF_TRANSPOSE, /* the same, then transposed */
};

/* Which rows of each shard a file's tensor has, since one of our tensors may correspond to several
 * in a file. */
enum spot_hf_part { SPOT_HF_ALL, SPOT_HF_Q, SPOT_HF_K, SPOT_HF_V, SPOT_HF_GATE, SPOT_HF_UP };

struct spot_hf_name {
    const char *ours, *theirs; /* for a layer, after "transformer.h.N." or "model.layers.N.";
                                  "%d" in it is the number of an expert */
    enum spot_hf_how how;
    enum spot_hf_part part;
};

/* The tensors of a bundle, in the order of the file; returns their number. */
size_t spot_hf_names(const struct spot_shape *shape, int bundle,
                     struct spot_hf_name list[SPOT_HF_NAMES_MAX]);

/* Number of tensors of this name, one for each expert; otherwise 1. */
int64_t spot_hf_copies(const struct spot_shape *shape, const struct spot_hf_name *name);

/* "transformer.h.0.ln_1.weight", "model.layers.0.mlp.experts.3.up_proj.weight" */
void spot_hf_name_of(const struct spot_shape *shape, int bundle, const struct spot_hf_name *name,
                     int64_t expert, char full[SPOT_HF_NAME_MAX]);

/* The name without "transformer.", "model." and the like, which files of a bare decoder lack. */
const char *spot_hf_bare(const char *full);

/* True if a model of this shape has a tensor of that name, or if files may contain it although it
 * is not used: a causal mask, rotary frequencies, vision parts. */
bool spot_hf_is_known(const struct spot_shape *shape, const char *full);

/* The number to add to a tensor of a file: 1 for weights of norms that are stored minus 1. */
float spot_hf_rest(const struct spot_shape *shape, const struct spot_hf_name *name);

/* The rows [first, first + n) of each shard of our tensor that correspond to a name; a matrix of q,
 * k and v, or of gate and up, has parts: [part[0] | part[1] | part[2]] over all shards. */
struct spot_hf_rows {
    int64_t first, n, part[3];
};
struct spot_hf_rows spot_hf_rows(const struct spot_shape *shape, const struct spot_tensor *tensor,
                                 const struct spot_hf_name *name, int64_t expert);

/* The row of the whole matrix that corresponds to row r of these in a shard. */
int64_t spot_hf_row(const struct spot_hf_rows *rows, int n_shard, int shard, int64_t r);

/* Rows over all shards, without the padding of the vocabulary. */
int64_t spot_hf_n_row(const struct spot_shape *shape, const struct spot_tensor *tensor,
                      const struct spot_hf_name *name);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_WEIGHTS_HF_NAMES_H */
