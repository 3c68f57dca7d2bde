/* SPDX-License-Identifier: MIT */
/* load.h - initial weights from safetensors files with the names of Hugging Face's families.
 *
 * A file, a directory with model.safetensors, or one with several files listed by
 * model.safetensors.index.json; a directory with both is refused, unless the index lists the single
 * file; so is an adapter beside them (lora_load.h). Names may lack "transformer." or "model.";
 * without lm_head.weight the head starts as a copy of the embedding, as in tied models, unless
 * config.json or the metadata say that it is not tied; GPT-2's position table may be longer than
 * the sequence. F32, and F16 and BF16, which widen exactly. Causal masks (attn.bias,
 * attn.masked_bias) and the frequencies of rotary positions (rotary_emb.inv_freq) are ignored; any
 * other tensor that the model does not have is rejected, and so is a missing one.
 *
 * In a directory with model.bundles (plain.h) that file is used; its head has the hash of the
 * model.
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

/* Check every name, shape and type against `shape`, and read all data once. NULL with *err:
 * SPOT_ESYS, or SPOT_EDATA naming the file and the tensor. */
struct spot_weights *spot_weights_open(const char *path, const struct spot_shape *shape,
                                       struct spot_err *err);
void spot_weights_close(struct spot_weights *weights);

/* The same for a process that needs a few bundles of weights that another process has read: only
 * these bundles are read. bundle_xxh3[bundles of the shape] are the values of
 * spot_weights_bundle_xxh3 there. */
struct spot_weights *spot_weights_open_part(const char *path, const struct spot_shape *shape,
                                            const uint64_t *bundle_xxh3, struct spot_err *err);

/* Hash of the numbers, never 0: equal weights have equal hashes, independent of the files. 0 for
 * weights opened in part: not known. */
uint64_t spot_weights_xxh3(const struct spot_weights *weights);
/* The hash of each bundle; borrowed. */
const uint64_t *spot_weights_bundle_xxh3(const struct spot_weights *weights);

/* Fill a bundle of step 0. Returns 0, or -1 with *err: SPOT_ESYS, or SPOT_EDATA, also if the
 * numbers in the file have changed. */
int spot_weights_read(const struct spot_weights *weights, struct spot_bundle *bundle,
                      struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_WEIGHTS_LOAD_H */
