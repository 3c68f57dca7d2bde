/* SPDX-License-Identifier: MIT */
/* model_dir.h - writes a trained model as a directory that Hugging Face's from_pretrained accepts.
 *
 * config.json, model.safetensors and, if the data are text for a tokenizer, tokenizer.json and
 * tokenizer_config.json. A byte-level model has no tokenizer: its config says "spot_tokens":
 * "bytes". Each file appears complete or not at all, the weights last.
 */
#ifndef SPOT_TRAIN_MODEL_DIR_H
#define SPOT_TRAIN_MODEL_DIR_H

#include <stdbool.h>

#include "common/err.h"
#include "shard/bundle.h"
#include "shard/safetensors.h"
#include "text/bpe.h"
#include "weights/save.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_model_dir;

/* True if --save names a directory: an existing one, or a path that does not exist and does not end
 * in .safetensors. */
bool spot_model_dir_is_meant(const char *path);

/* Before the training: create the directory, check that it is writable, and read the files of the
 * tokenizer (a path of spot_bpe_open, NULL for none), which may have been removed by the end of the
 * training. A directory with the index of a model in several files is rejected, since readers would
 * use those. NULL with *err: SPOT_ESYS, SPOT_EUSAGE, SPOT_EDATA. */
struct spot_model_dir *spot_model_dir_open(const char *path, const char *tokenizer,
                                           struct spot_err *err);
/* Removes the directory if it was created here and is empty. */
void spot_model_dir_close(struct spot_model_dir *dir);

/* Write everything except the weights, for which *weights is opened, unless that is NULL; these are
 * added, and finished, as in weights/save.h. Parameters and result as below. */
int spot_model_dir_begin(const struct spot_model_dir *dir, const struct spot_shape *shape,
                         const struct spot_bpe *bpe, bool is_of_bytes, enum spot_dtype dtype,
                         struct spot_weights_out *weights, struct spot_err *err);

/* bundle[L + 2]; bpe as given at opening, or NULL; is_of_bytes: the data were; dtype: of
 * the weights, as spot_weights_out_open takes it. Returns 0, or -1
 * with *err (SPOT_ESYS). */
int spot_model_dir_write(const struct spot_model_dir *dir, const struct spot_shape *shape,
                         const struct spot_bpe *bpe, bool is_of_bytes,
                         struct spot_bundle *const *bundle, enum spot_dtype dtype,
                         struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TRAIN_MODEL_DIR_H */
