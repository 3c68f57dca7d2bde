/* SPDX-License-Identifier: MIT */
/* save.h - writes the weights of a job as a safetensors file under the usual names of GPT-2 or
 * Llama. */
#ifndef SPOT_WEIGHTS_SAVE_H
#define SPOT_WEIGHTS_SAVE_H

#include "common/err.h"
#include "common/out.h"
#include "shard/bundle.h"
#include "shard/safetensors.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_SAVE_NOTES = 11, SPOT_SAVE_NOTE_TEXT = 32 };

/* What a reader needs to build the model, under the keys of its own config, each value as JSON
 * text; stored in text[] or constant. Returns how many. */
int spot_save_notes(const struct spot_shape *shape, struct spot_st_note note[SPOT_SAVE_NOTES],
                    char text[SPOT_SAVE_NOTES][SPOT_SAVE_NOTE_TEXT]);

/* For GPT-2 write transformer.wte.weight [V, C], transformer.h.0.attn.c_attn.weight [C, 3C], ...,
 * lm_head.weight [V, C], matrices as input by output (Conv1D) like GPT-2's own files; for Llama
 * model.embed_tokens.weight [V, C], model.layers.0.self_attn.q_proj.weight [H d, C], ...,
 * lm_head.weight [V, C], as output by input. All F32, or BF16, to which they are
 * rounded. __metadata__ has the shape as text, in the
 * words of the model's own config: n_layer, n_head, n_embd, n_positions, vocab_size, or
 * num_hidden_layers, ..., rope_theta, rms_norm_eps; and tie_word_embeddings.
 * One bundle at a time. */
struct spot_weights_out {
    const struct spot_shape *shape;
    enum spot_dtype dtype;
    int next; /* bundle */
    struct spot_out out;
};

/* The shape is borrowed; a symbolic link at the path is replaced. Returns 0, or -1 with *err
 * (SPOT_ESYS). */
int spot_weights_out_open(struct spot_weights_out *weights, const char *path,
                          const struct spot_shape *shape, enum spot_dtype dtype,
                          struct spot_err *err);
/* Of bundle `next` only index, arena and the master plane are used. */
void spot_weights_out_add(struct spot_weights_out *weights, const struct spot_bundle *bundle);
/* If rc is 0 and all bundles were added, the file is moved into place; else it is discarded.
 * Returns the resulting rc. */
int spot_weights_out_finish(struct spot_weights_out *weights, int rc, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_WEIGHTS_SAVE_H */
