/* SPDX-License-Identifier: MIT */
/* hf_config.h - reads and writes Hugging Face's config.json: the settings of a model that its
 * weights do not show, for the families of hf_family.h. Settings that this engine does not
 * implement are rejected with key, line and column.
 */
#ifndef SPOT_WEIGHTS_HF_CONFIG_H
#define SPOT_WEIGHTS_HF_CONFIG_H

#include "common/err.h"
#include "common/json.h"
#include "common/json_writer.h"
#include "shard/arena.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Fills *shape; n_shard is "spot_shards", which a training may have written, or 0; seq is the
 * maximum number of positions. Nulls in the document are dropped. Returns 0, or -1 with *err
 * (SPOT_EDATA, SPOT_ESYS). */
int spot_hf_config_read(const struct spot_json_doc *doc, struct spot_shape *shape,
                        struct spot_err *err);
int spot_hf_config_load(const char *path, struct spot_shape *shape, struct spot_err *err);

/* The default number of canonical shards: the most up to 4 that the shape allows, ignoring its
 * n_shard. */
int64_t spot_hf_config_shards(const struct spot_shape *shape);

/* Write keys into an open object from which the same shape is read again, except its shards; the
 * model has no experts. */
void spot_hf_config_put(struct spot_jw *jw, const struct spot_shape *shape);
/* The object as one line, freed by the caller; NULL when out of memory. */
char *spot_hf_config_text(const struct spot_shape *shape);
/* Read the shape from such a line; `source` is for messages. */
int spot_hf_config_parse(const char *text, const char *source, struct spot_shape *shape,
                         struct spot_err *err);

/* The same from the metadata of a safetensors file as written by save.c: there seq is the sequence
 * length of the training. Returns 1, 0 if the file has none or cannot be read, -1 with *err
 * (SPOT_EDATA). */
int spot_hf_config_noted(const char *path, struct spot_shape *shape, struct spot_err *err);

enum { SPOT_HF_CONFIG_PATH = 4096 };

/* The shape of files of weights: from the config.json in their directory, or beside their index, or
 * else from the metadata; `path` gets the name of the source. Returns as spot_hf_config_noted. */
int spot_hf_config_of(const char *weights, char path[SPOT_HF_CONFIG_PATH], struct spot_shape *shape,
                      struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_WEIGHTS_HF_CONFIG_H */
