/* SPDX-License-Identifier: MIT */
/* detok.h - decodes tokens that arrive one at a time, as from a model that generates.
 *
 * After the last token, the output equals that of decoding all tokens at once, even if characters
 * are split over tokens: bytes that could still become part of another character are held back.
 */
#ifndef SPOT_TEXT_DETOK_H
#define SPOT_TEXT_DETOK_H

#include <stdbool.h>
#include <stdint.h>

#include "common/buf.h"
#include "text/bpe.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_detokenizer {
    const struct spot_bpe *bpe; /* borrowed */
    bool keeps_special;         /* names of special tokens are written as text */
    bool keeps_bytes;           /* invalid UTF-8 is written unchanged, not as U+FFFD */
    bool drops_space;           /* at the start of the text */
    bool has_begun;
    struct spot_buf held;
};

void spot_detok_init(struct spot_detokenizer *d, const struct spot_bpe *bpe, bool keeps_special,
                     bool keeps_bytes);
void spot_detok_release(struct spot_detokenizer *d);

/* Append what a token adds. Returns 0, or -1 if there is no such id. */
int spot_detok_push(struct spot_detokenizer *d, uint32_t id, struct spot_buf *out);

/* Append the bytes of a token inside a text; false: no such token, or a special one. */
bool spot_detok_bytes(const struct spot_bpe *bpe, uint32_t id, struct spot_buf *out);

/* End of the tokens: append the bytes held back; a new text may begin. */
void spot_detok_end(struct spot_detokenizer *d, struct spot_buf *out);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TEXT_DETOK_H */
