/* SPDX-License-Identifier: MIT */
/* decoder.h - the features of a decoder's layers, without sizes. All code that computes, counts,
 * loads or saves a model reads these features, never a vendor's name. All zeros are GPT-2's layers.
 * Members are 64 bits wide, so a description may be compared, hashed and sent as an array of words.
 */
#ifndef SPOT_MODEL_DECODER_H
#define SPOT_MODEL_DECODER_H

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"

#ifdef __cplusplus
extern "C" {
#endif

enum spot_norm { SPOT_NORM_LAYER, SPOT_NORM_RMS };

/* Where a half of a layer, f, has norms: x + f(norm(x)), x + norm(f(x)), x + norm(f(norm(x))). */
enum spot_norm_place { SPOT_NORM_BEFORE, SPOT_NORM_AFTER, SPOT_NORM_AROUND };

/* RMS norms of queries and keys before the rotation: of each head, or of all heads together. */
enum spot_qk_norm { SPOT_QK_PLAIN, SPOT_QK_HEAD, SPOT_QK_WHOLE };

/* Products without a bias, as a set. */
enum { SPOT_BARE_QKV = 1, SPOT_BARE_PROJ = 2, SPOT_BARE_MLP = 4, SPOT_BARE_ALL = 7 };

enum spot_positions { SPOT_POSITIONS_LEARNT, SPOT_POSITIONS_ROTARY };

enum spot_rope_scaling {
    SPOT_ROPE_PLAIN,
    SPOT_ROPE_LINEAR, /* positions are divided by `factor` */
    SPOT_ROPE_LLAMA3, /* low frequencies are divided; those between two wavelengths in part */
    SPOT_ROPE_YARN,   /* the same by rotations, and all are scaled: Peng et al., arXiv:2309.00071 */
    SPOT_ROPE_LONG,   /* each pair has its own divisor: longrope (Ding et al., arXiv:2402.13753),
                         limited to the original positions */
    SPOT_ROPE_SCALINGS
};
enum { SPOT_ROPE_DIVISORS = 64 };

enum spot_activation { SPOT_GELU_TANH, SPOT_GELU_ERF, SPOT_SILU, SPOT_ACTIVATIONS };

/* Layers that share a property: layer i does if bit i % period of the mask is set. */
struct spot_layer_set {
    int64_t period; /* 0: no layer; at most 64 */
    uint64_t mask;
};

struct spot_decoder {
    int64_t family; /* row of weights/hf_family.c: the names in files; nothing computes with it */
    int64_t norm, norm_place, qk_norm, bare, positions;
    int64_t activation, is_gated;
    /* rotary positions; the base is rope_theta of the shape */
    int64_t rotary_dim; /* rotated numbers of a head; 0: all */
    int64_t rope_scaling;
    /* llama3: frequency factors; yarn: beta of slow and of fast pairs */
    double rope_factor, rope_low, rope_high;
    double rope_gain;                        /* factor on cosines and sines; 0: 1 */
    int64_t rope_original;                   /* positions before scaling */
    int64_t rope_is_whole;                   /* yarn: bounds are not rounded to pairs */
    double rope_divisor[SPOT_ROPE_DIVISORS]; /* long: divisor of each pair */
    /* the base in layers of `local`, which are not scaled; 0: the same as in others */
    double rope_theta_local;
    struct spot_layer_set unturned; /* layers without positions */
    /* attention */
    int64_t window; /* positions that a query of a `local` layer sees, its own included */
    struct spot_layer_set local; /* layers with a window */
    double attention_scale;      /* 0: 1 / sqrt(d) */
    double attention_cap;        /* scores become cap tanh(score / cap); 0: none */
    /* factors; 0: 1 */
    double embed_scale, residual_scale, logit_scale;
    double logit_cap; /* as attention_cap */
    /* Mixture of experts: a token goes through `n_chosen` MLPs of `n_expert`, those of the largest
     * softmax of the router; is_renormed: their weights are divided by their sum. 0: one MLP. */
    int64_t n_expert, n_chosen, is_renormed;
    /* width of an additional MLP for all tokens, weighted by the sigmoid of a product with a
     * vector; 0: none */
    int64_t shared_ffn;
    struct spot_layer_set dense; /* layers that have one MLP in place of experts */
    int64_t dense_ffn;           /* the width of that MLP */
};

/* The layers that `--arch` of training can name: GPT-2's and those of the first Llamas. */
#define SPOT_DECODER_GPT2 \
    {                     \
        0                 \
    }
#define SPOT_DECODER_LLAMA                                                         \
    {                                                                              \
        .family = 1, .norm = SPOT_NORM_RMS, .bare = SPOT_BARE_ALL,                 \
        .positions = SPOT_POSITIONS_ROTARY, .activation = SPOT_SILU, .is_gated = 1 \
    }

enum { SPOT_DECODER_WORDS = sizeof(struct spot_decoder) / 8 };

static inline bool spot_layer_in(const struct spot_layer_set *set, int64_t layer)
{
    return set->period && (set->mask >> (layer % set->period) & 1);
}

/* The set of the layers with is_in[i] out of n. Returns 0, or -1 if no period up to 64 gives it. */
int spot_layer_set_of(struct spot_layer_set *set, const bool *is_in, int64_t n);

/* Features that an engine may lack, as a set of bits in the order of spot_feature_name. */
enum spot_feature {
    SPOT_NEEDS_MIXED,  /* norms, positions, biases and activation neither GPT-2's nor Llama's */
    SPOT_NEEDS_BIASES, /* biases of a Llama's products */
    SPOT_NEEDS_NORM_AFTER,
    SPOT_NEEDS_QK_NORM,
    SPOT_NEEDS_ROPE_SCALING,
    SPOT_NEEDS_ROPE_PART,
    SPOT_NEEDS_ROPE_BY_LAYER,
    SPOT_NEEDS_WINDOW,
    SPOT_NEEDS_ATTENTION_CAP,
    SPOT_NEEDS_ATTENTION_SCALE,
    SPOT_NEEDS_EMBED_SCALE,
    SPOT_NEEDS_RESIDUAL_SCALE,
    SPOT_NEEDS_LOGIT_SCALE,
    SPOT_NEEDS_EXPERTS,
    SPOT_NEEDS_HEAD_DIM,
    SPOT_FEATURES
};
#define SPOT_NEED(feature) (UINT64_C(1) << (feature))

/* Reject descriptions that no engine computes: unknown values, factors that are not positive
 * numbers. Returns 0, or -1 with *err (SPOT_EDATA). */
int spot_decoder_check(const struct spot_decoder *d, int64_t head_dim, int64_t n_shard,
                       struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_MODEL_DECODER_H */
