/* SPDX-License-Identifier: MIT */
/* beside.h - documents beside a tokenizer that name tokens by their roles.
 *
 * tokenizer_config.json, or else special_tokens_map.json, has "bos_token", "eos_token" and so on.
 */
#ifndef SPOT_TEXT_BESIDE_H
#define SPOT_TEXT_BESIDE_H

#include "common/err.h"
#include "common/json.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_BESIDE_TOKEN = 64, SPOT_BESIDE_PATH = 4096 };

/* Read DIR/name; path, which the document borrows, gets its name. Returns 1, 0 if there is none, -1
 * with *err (SPOT_EDATA, SPOT_ESYS); the document is to be released in any case. */
int spot_beside_open(struct spot_json_doc *doc, char path[SPOT_BESIDE_PATH], const char *dir,
                     const char *name, struct spot_err *err);

/* The text of a token as these documents write it: "<s>", or {"content": "<s>", ...}; NULL if it is
 * neither. */
const char *spot_beside_text(const struct spot_json_value *value);

/* The token of a role, such as "eos_token", in a document; "" if it is absent or null. Returns 1 if
 * it is there, 0, or -1 with *err (SPOT_EDATA). */
int spot_beside_token(const struct spot_json_doc *doc, const char *role,
                      char text[SPOT_BESIDE_TOKEN], struct spot_err *err);

/* The same in a directory: what tokenizer_config.json names, or else special_tokens_map.json. */
int spot_beside_named(const char *dir, const char *role, char text[SPOT_BESIDE_TOKEN],
                      struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TEXT_BESIDE_H */
