/* SPDX-License-Identifier: MIT */
/* prefix.h - the tokens that a tokenizer puts before a text, such as "<s>". */
#ifndef SPOT_TEXT_PREFIX_H
#define SPOT_TEXT_PREFIX_H

#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "text/bpe.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What tokenizer.json of a directory says as a TemplateProcessing, alone or in a Sequence, and
 * behind that "add_bos_token" of tokenizer_config.json where it is a Llama tokenizer's: those obey
 * it. What the template puts behind a text is left out, for a text is gone on with. id[cap] gets
 * *n tokens. Returns 0, or -1 with *err: SPOT_EDATA for a token that is none or more than cap. */
int spot_text_prefix_load(const char *dir, const struct spot_bpe *bpe, uint32_t *id, size_t cap,
                          size_t *n, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TEXT_PREFIX_H */
