/* SPDX-License-Identifier: MIT */
/* save.h - the weights of a job as a safetensors file under the usual GPT-2 names. */
#ifndef SPOT_JOB_SAVE_H
#define SPOT_JOB_SAVE_H

#include "common/err.h"
#include "engine/bundle.h"
#include "job/config.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Write transformer.wte.weight [V, C], transformer.h.0.attn.c_attn.weight [C, 3C], ...,
 * lm_head.weight [V, C], all F32, matrices as input by output (Conv1D) like GPT-2's own files.
 * __metadata__ has the shape as text: n_layer, n_head, n_embd, n_positions, vocab_size, and
 * tie_word_embeddings false.
 *   bundle  [L + 2], all of them
 * The file is there complete or not at all. Returns 0, or -1 with *err (SPOT_ESYS). */
int spot_save_weights(const char *path, const struct spot_job_config *config,
                      struct spot_bundle *const *bundle, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_JOB_SAVE_H */
