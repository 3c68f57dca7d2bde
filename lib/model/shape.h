/* SPDX-License-Identifier: MIT */
/* shape.h - the sizes of a decoder, and quantities that depend on them only: parameters, work,
 * bytes of activations and of a cache. Used by the engine, documents, weight files and planners.
 *
 * Symbols: L layers, C width, H heads, Hk heads of keys and values, d = C / H of a head, T
 * sequence, V vocabulary, F width inside the MLP, S shards.
 */
#ifndef SPOT_MODEL_SHAPE_H
#define SPOT_MODEL_SHAPE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "model/decoder.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_LAYERS_MAX = 4096 };

struct spot_shape {
    int64_t n_layer, width, n_head, seq, vocab, n_shard;
    struct spot_decoder kind;
    int64_t n_kv_head, ffn; /* 0: as GPT-2's, Hk = H and F = 4C; of a mixture F of one expert */
    double rope_theta;      /* pair i of d / 2 is rotated by rope_theta^(-2i / d) per position */
    int64_t is_tied;        /* 0 or 1: head.w is a copy of wte, with a common gradient */
    double norm_eps;        /* added to the variance or mean square in every norm; 0: 1e-5 */
    int64_t head_dim;       /* 0: C / H */
    /* of a document: seq is the number of learnt positions, 0: none */
    int64_t vocab_pad; /* rows of the table are rounded up to a multiple of it */
    int64_t norm_elem; /* of a layer's norms, in units of C; 0: as kind says, -1: none */
};

/* Reject shapes that cannot be computed or would not fit: S divides H, Hk and F, Hk divides H, and
 * H divides C where d is C / H; every factor and the parameter count are bounded. Returns 0, or -1
 * with *err (SPOT_EDATA). */
int spot_shape_check(const struct spot_shape *shape, struct spot_err *err);

int64_t spot_shape_kv_heads(const struct spot_shape *shape); /* Hk */
int64_t spot_shape_head_dim(const struct spot_shape *shape); /* d */
int64_t spot_shape_ffn(const struct spot_shape *shape);      /* F */
double spot_shape_norm_eps(const struct spot_shape *shape);

/* Rotated numbers of a head, 0 if positions are learnt. */
int64_t spot_shape_rotary(const struct spot_shape *shape);

/* The features of decoder.h that a shape needs, as a set of SPOT_NEED. Check that `has` contains
 * them all: -1 with *err (SPOT_EDATA), "`who` does not compute ..." otherwise. */
uint64_t spot_shape_needs(const struct spot_shape *shape);
int spot_shape_refuse(const struct spot_shape *shape, uint64_t has, const char *who,
                      struct spot_err *err);

/* H d, the inputs of a layer's second product. */
int64_t spot_shape_attended(const struct spot_shape *shape);

/* Outputs of a layer's first two products: queries, keys and values, (H + 2Hk) d; and the inputs of
 * the MLP's activation, F, or 2F of gate and up; of one expert. */
int64_t spot_shape_qkv(const struct spot_shape *shape);
int64_t spot_shape_pre(const struct spot_shape *shape);

/* The MLPs of a layer: n_expert of one width, and one that is shared, or one alone. */
struct spot_mlps {
    int64_t n_expert; /* 0: one MLP */
    int64_t ffn, shared_ffn;
};
struct spot_mlps spot_shape_mlps(const struct spot_shape *shape, int64_t layer);

/* Bundles: 0 the embedding, 1..L the layers, L + 1 the head. */
int spot_shape_bundles(const struct spot_shape *shape);

/* Rows of wte and head.w: V, rounded up to a multiple of S, and of 128 from V = 1024 on. Rows V and
 * beyond are zero and stay zero: they belong to no token, and the softmax excludes their logits. */
int64_t spot_shape_vocab_rows(const struct spot_shape *shape);

/* --- sizes --- */

/* A bundle's elements by the axis that tensor parallelism cuts. */
enum {
    SPOT_GROUP_Q,
    SPOT_GROUP_KV,
    SPOT_GROUP_FFN,
    SPOT_GROUP_VOCAB,
    SPOT_GROUP_REPLICATED,
    SPOT_GROUPS
};

/* Elements of a group in a bundle, 0 if it has none; *n_atom atoms of equal size. */
int64_t spot_shape_elem(const struct spot_shape *shape, int64_t bundle, int group, int64_t *n_atom);

/* Parameters of a bundle and of all; rows are padded to a multiple of vocab_pad only. */
int64_t spot_shape_bundle_params(const struct spot_shape *shape, int64_t bundle);
int64_t spot_shape_params(const struct spot_shape *shape);

/* Multiply-adds of a bundle for one sequence, up to a common factor. */
int64_t spot_shape_cost(const struct spot_shape *shape, int64_t bundle);

/* Bytes per token in one layer's cache, for n_head of the Hk heads. */
int64_t spot_shape_kv_byte(const struct spot_shape *shape, int64_t n_head, int64_t elem_byte);

/* The part of a layer's forward pass that is recomputed in its backward pass, with the same bits,
 * and so is not stored for each microbatch in flight: nothing; the inputs of the MLP's activation;
 * everything except the inputs of the layer's two halves. Attention scores are always recomputed
 * here. */
enum spot_recompute {
    SPOT_RECOMPUTE_NONE,
    SPOT_RECOMPUTE_MLP,
    SPOT_RECOMPUTE_LAYER,
    SPOT_RECOMPUTES
};

/* "none", "mlp", "layer"; -1 if there is no such mode. */
const char *spot_recompute_name(int recompute);
int spot_recompute_find(const char *name);

/* Bytes of 16-bit activations per token that a bundle keeps until its backward pass, by Korthikanti
 * et al., "Reducing Activation Recomputation in Large Transformer Models" (2022, arXiv:2205.05198).
 * GPT-2's layer: 34 C, of which 16 C in and after the MLP's activation (their selective
 * recomputation, and what fused attention keeps), 5 H T more if attention is not fused and keeps
 * its scores (their eq. 1), 2 C if only its input is kept; the embedding's dropout mask C, the head
 * 4 (C + V) (their 4.3). Llama's layer is counted in the same way: norms 4 C; attention 6 C and
 * keys and values 4 Hk d, scores 2 H T; MLP 2 C + 8 F; no dropout, so nothing in the embedding. For
 * what this engine keeps, in its own precisions, see spot_stage_memory. */
double spot_shape_activation_byte(const struct spot_shape *shape, int64_t bundle, int recompute,
                                  bool keeps_scores);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_MODEL_SHAPE_H */
