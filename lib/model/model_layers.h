/* SPDX-License-Identifier: MIT */
/* model_layers.h - the layers of a decoder that a job gives by its shape: parameters, and the bytes
 * of activations that a micro batch in flight keeps.
 *
 * Bytes are those of Korthikanti et al., "Reducing Activation Recomputation in Large Transformer
 * Models" (2022, arXiv:2205.05198), for 16-bit activations: with s tokens, b samples, width h and a
 * heads, a GPT-2 layer keeps s b h (34 + 5 a s / h) where nothing is computed again (their eq. 1),
 * 34 s b h without the scores of attention (their selective recomputation, and what fused attention
 * keeps), 2 s b h where only its input stays; the embedding's dropout mask s b h, the head
 * 4 s b h (1 + v / h) (their 4.3). Llama's layer is counted in their way: norms 4 s b h; attention
 * 6 s b h and keys and values 4 s b k of width k, scores 2 a s^2 b; MLP 2 s b h + 8 s b f; no
 * dropout, so nothing in the embedding.
 */
#ifndef SPOT_MODEL_MODEL_LAYERS_H
#define SPOT_MODEL_MODEL_LAYERS_H

#include <stdint.h>

#include "model/job_doc.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What the paper's three cases are called; -1 when there is none of that name. NULL: "attention".
 */
enum spot_model_recompute {
    SPOT_MODEL_RECOMPUTE_NONE,
    SPOT_MODEL_RECOMPUTE_ATTENTION,
    SPOT_MODEL_RECOMPUTE_LAYER,
};
int spot_model_recompute_find(const char *name);

/* Fill layer[0 .. model->layers + 2): embedding, layers, head. Times stay 0, not known.
 * model->recompute is a name of the above; heads are at least 1 where it is "none". */
void spot_model_layers(const struct spot_job_model *model, int64_t seq, int64_t micro_batch,
                       struct spot_job_layer *layer);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_MODEL_MODEL_LAYERS_H */
