/* SPDX-License-Identifier: MIT */
/* gguf_docs.h - makes the documents of a model's directory from the values of a GGUF file, and the
 * directory. */
#ifndef SPOT_WEIGHTS_GGUF_DOCS_H
#define SPOT_WEIGHTS_GGUF_DOCS_H

#include "common/json_writer.h"
#include "weights/gguf.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Each writes an object. Returns 0, or -1 with *err: SPOT_EDATA, naming the file and the key whose
 * value is missing or not supported. */
int spot_gguf_config(const struct spot_gguf *g, struct spot_jw *jw, struct spot_err *err);
int spot_gguf_generation_config(const struct spot_gguf *g, struct spot_jw *jw,
                                struct spot_err *err);
int spot_gguf_tokenizer(const struct spot_gguf *g, struct spot_jw *jw, struct spot_err *err);
int spot_gguf_tokenizer_config(const struct spot_gguf *g, struct spot_jw *jw, struct spot_err *err);

/* Make the directory `dir`, which must not exist or be empty, from the file: config.json,
 * generation_config.json, tokenizer.json, tokenizer_config.json, chat_template.jinja if it has one,
 * and model.gguf, which is the file itself (a hard link) or a copy. Returns 0, or -1 with *err. */
int spot_gguf_import(const char *path, const char *dir, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_WEIGHTS_GGUF_DOCS_H */
