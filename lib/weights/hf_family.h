/* SPDX-License-Identifier: MIT */
/* hf_family.h - a table of the families of decoders in transformers. A row describes a `model_type`
 * of config.json: the fixed features of its layers, the keys that its class reads, and the defaults
 * of absent keys. Names of tensors follow from the features and the row's naming (hf_names.c). A
 * new family costs a row.
 */
#ifndef SPOT_WEIGHTS_HF_FAMILY_H
#define SPOT_WEIGHTS_HF_FAMILY_H

#include "model/shape.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Keys that only some families' classes read; other families' files may have them without effect.
 */
enum {
    SPOT_HF_READS_ATTENTION_BIAS = 1 << 0, /* attention_bias */
    SPOT_HF_READS_MLP_BIAS = 1 << 1,       /* mlp_bias */
    SPOT_HF_READS_HEAD_DIM = 1 << 2,       /* head_dim */
    SPOT_HF_READS_ROTARY_PART = 1 << 3,    /* partial_rotary_factor */
    SPOT_HF_READS_WINDOW = 1 << 4,         /* sliding_window, of all layers or of layer_types */
    SPOT_HF_ASKS_WINDOW = 1 << 5,          /* sliding_window applies only with use_sliding_window */
    SPOT_HF_READS_UNTURNED = 1 << 6,       /* no_rope_layers */
    SPOT_HF_READS_CAPS = 1 << 7,           /* query_pre_attn_scalar and *_logit_softcapping */
    SPOT_HF_READS_MULTIPLIERS = 1 << 8,    /* embedding_multiplier and the like */
    SPOT_HF_READS_EXPERTS = 1 << 9,        /* num_experts_per_tok and the like */
    SPOT_HF_SCALES_EMBEDDING = 1 << 10,    /* by sqrt(hidden_size) */
    SPOT_HF_READS_TEXT_CONFIG = 1 << 11,   /* all of it lies in text_config */
    SPOT_HF_READS_QKV_BIAS = 1 << 12,      /* qkv_bias */
    SPOT_HF_READS_SPARSE = 1 << 13,        /* decoder_sparse_step, mlp_only_layers */
    SPOT_HF_READS_SHARED = 1 << 14,        /* shared_expert_intermediate_size */
    SPOT_HF_READS_CLIP = 1 << 15,          /* clip_qkv, which is not computed */
};

/* How files differ from the common names and layouts. */
enum {
    SPOT_HF_IS_CONV = 1 << 0,      /* GPT-2's names, matrices input by output */
    SPOT_HF_IS_FUSED = 1 << 1,     /* qkv_proj, gate_up_proj */
    SPOT_HF_IS_MIXTRAL = 1 << 2,   /* block_sparse_moe, w1, w3, w2 */
    SPOT_HF_NORM_IS_REST = 1 << 3, /* weights of norms are stored less 1 */
};

struct spot_hf_family {
    const char *type, *architecture; /* value of model_type; class of the models */
    unsigned reads, files;
    struct spot_decoder kind;
    /* defaults of absent keys; 0: as many as heads, no window, ... */
    const char *activation;
    int64_t seq, n_kv_head, head_dim, window;
    int64_t local_period; /* in each group of this many layers all but the last have the window; 0:
                             all */
    double eps, theta;
    bool is_tied;
    int64_t n_expert, n_chosen, expert_ffn, shared_ffn;
};

/* Row i; NULL past the end. */
const struct spot_hf_family *spot_hf_family(int64_t i);
const struct spot_hf_family *spot_hf_family_of(const struct spot_shape *shape);
int spot_hf_family_find(const char *type); /* the index of a type; -1: unknown */

/* The fixed features of layers of the type. Returns 0, or -1: unknown type. */
int spot_hf_family_kind(const char *type, struct spot_decoder *kind);

/* All types, with commas. */
const char *spot_hf_family_list(void);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_WEIGHTS_HF_FAMILY_H */
