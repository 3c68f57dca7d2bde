/* SPDX-License-Identifier: MIT */
/* prefix.h - the tokens that a tokenizer adds before a text, such as "<s>". */
#ifndef SPOT_TEXT_PREFIX_H
#define SPOT_TEXT_PREFIX_H

#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "text/bpe.h"

#ifdef __cplusplus
extern "C" {
#endif

/* They are given by the TemplateProcessing of tokenizer.json, alone or in a Sequence, and by
 * "add_bos_token" of tokenizer_config.json for tokenizers that obey it: Llama's, and those without
 * tokenizer.json. Tokens that the
 * template adds after a text are left out, since the text will be continued. id[cap] gets *n
 * tokens. Returns 0, or -1 with *err: SPOT_EDATA for an unknown token, or more than cap. */
int spot_text_prefix_load(const char *dir, const struct spot_bpe *bpe, uint32_t *id, size_t cap,
                          size_t *n, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TEXT_PREFIX_H */
