/* SPDX-License-Identifier: MIT */
/* lora_load.h - adapters as peft saves them: adapter_config.json and adapter_model.safetensors.
 *
 * There may be a pair lora_A, lora_B for any product of attention and of a dense MLP; parts of a
 * fused product have their own pairs if the family's files have separate tensors. The scale is
 * lora_alpha over the rank of the pair, or over its root with use_rslora. Unsupported settings, and
 * tensors of other products, are refused by name.
 */
#ifndef SPOT_WEIGHTS_LORA_LOAD_H
#define SPOT_WEIGHTS_LORA_LOAD_H

#include "common/err.h"
#include "model/shape.h"
#include "shard/lora.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_LORA_RANK_MAX = 4096 };

/* NULL with *err: SPOT_ESYS, or SPOT_EDATA naming the file and the key or tensor. */
struct spot_lora *spot_lora_load(const char *dir, const struct spot_shape *shape,
                                 struct spot_err *err);
/* Find the spans of n_panel panels of b. */
void spot_lora_span(struct spot_lora_part *part, int64_t n_panel);
void spot_lora_free(struct spot_lora *lora); /* may be NULL */

#ifdef __cplusplus
}
#endif

#endif /* SPOT_WEIGHTS_LORA_LOAD_H */
