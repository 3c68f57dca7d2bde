/* SPDX-License-Identifier: MIT */
/* load.h - weights to start from, out of safetensors files with GPT-2's or Llama's names.
 *
 * A file, a directory with model.safetensors, or one in several files listed by
 * model.safetensors.index.json. Names may lack "transformer." or "model."; without lm_head.weight
 * the head starts as a copy of the embedding, as tied models have it; GPT-2's position table may be
 * longer than the sequence. F32, and F16 and BF16, which widen exactly. Causal masks (attn.bias,
 * attn.masked_bias) and the speeds of rotary positions (rotary_emb.inv_freq) are left out; any
 * other tensor that the model does not have is refused, and so is a missing one.
 */
#ifndef SPOT_WEIGHTS_LOAD_H
#define SPOT_WEIGHTS_LOAD_H

#include <stdint.h>

#include "common/err.h"
#include "shard/arena.h"
#include "shard/bundle.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_weights;

/* Check every name, shape and type against `shape`, and read all once. NULL with *err: SPOT_ESYS,
 * or SPOT_EDATA naming the file and the tensor. */
struct spot_weights *spot_weights_open(const char *path, const struct spot_shape *shape,
                                       struct spot_err *err);
void spot_weights_close(struct spot_weights *weights);

/* The same for who needs a few bundles of weights that another has read: numbers are read with the
 * bundle alone. bundle_xxh3[bundles of the shape] are what spot_weights_bundle_xxh3 gave there. */
struct spot_weights *spot_weights_open_part(const char *path, const struct spot_shape *shape,
                                            const uint64_t *bundle_xxh3, struct spot_err *err);

/* Hash of the numbers, never 0: equal weights have equal hashes whatever files hold them. Of a
 * part: not known, 0. */
uint64_t spot_weights_xxh3(const struct spot_weights *weights);
/* Those of each bundle alone; borrowed. */
const uint64_t *spot_weights_bundle_xxh3(const struct spot_weights *weights);

/* Fill a bundle of step 0. Returns 0, or -1 with *err: SPOT_ESYS, or SPOT_EDATA, also where the
 * file holds other numbers by now. */
int spot_weights_read(const struct spot_weights *weights, struct spot_bundle *bundle,
                      struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_WEIGHTS_LOAD_H */
