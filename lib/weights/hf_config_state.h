/* SPDX-License-Identifier: MIT */
/* hf_config_state.h - the state of reading a config.json. */
#ifndef SPOT_WEIGHTS_HF_CONFIG_STATE_H
#define SPOT_WEIGHTS_HF_CONFIG_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/json.h"
#include "weights/hf_family.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Values of a file, with uniform names. */
struct spot_hf_values {
    const char *kind, *activation, *gelu;
    int64_t width, n_layer, n_head, n_kv_head, ffn, vocab, seq, head_dim;
    int64_t window, window_layers, window_period, unturned_period, original;
    int64_t n_expert, n_experts, n_chosen, expert_ffn, shared_ffn, sparse_step;
    double eps, theta, theta_local;
    double rotary_share; /* rotated share of a head */
    double query_scalar, attention_cap, logit_cap;
    double embed, attention, residual, logits; /* multipliers */
    bool is_tied, attention_bias, mlp_bias, scales_by_layer, scales, crosses, uses_window, renorms;
    bool qkv_bias;
    bool is_bidirectional;
};

/* The file being read: the object that describes the model, and its pointer. */
struct spot_hf_source {
    const struct spot_json_doc *doc;
    struct spot_json_value *root;
    const char *at; /* JSON pointer of root: "", "/text_config" */
    const struct spot_hf_family *family;
    struct spot_hf_values c;
};

/* Set *err (SPOT_EDATA) to a sentence about the key, which begins with '/'. Returns -1. */
__attribute__((format(printf, 4, 5))) int spot_hf_fail(const struct spot_hf_source *s,
                                                       const char *key, struct spot_err *err,
                                                       const char *format, ...);

/* Read the rotary settings in the object at `key`, if it is there, into *kind, theta and
 * theta_local. */
int spot_hf_read_rope(struct spot_hf_source *s, const char *key, struct spot_decoder *kind,
                      struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_WEIGHTS_HF_CONFIG_STATE_H */
