/* SPDX-License-Identifier: MIT */
/* prefix.h - the tokens that a tokenizer adds before and after a text, such as "<s>" and "</s>". */
#ifndef SPOT_TEXT_PREFIX_H
#define SPOT_TEXT_PREFIX_H

#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "text/bpe.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_TEXT_AROUND_MAX = 4 };

struct spot_text_around {
    uint32_t before[SPOT_TEXT_AROUND_MAX], after[SPOT_TEXT_AROUND_MAX];
    size_t n_before, n_after;
};

/* Load the tokens that a tokenizer adds. They come from the TemplateProcessing of tokenizer.json,
 * alone or in a Sequence, and from "add_bos_token" of tokenizer_config.json for tokenizers that use
 * it: Llama's, and those without tokenizer.json. Tokens after a text are only for texts that will
 * not be continued. Returns 0, or -1 with *err: SPOT_EDATA for an unknown token, or more than
 * SPOT_TEXT_AROUND_MAX. */
int spot_text_around_load(const char *dir, const struct spot_bpe *bpe,
                          struct spot_text_around *around, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TEXT_PREFIX_H */
