/* SPDX-License-Identifier: MIT */
/* detok.h - text from tokens that come one at a time, as from a model that is asked.
 *
 * What has come out after the last token is what decoding them all at once gives, wherever a
 * character or a run of bytes is split among tokens: what could still become another character is
 * held back.
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
    bool keeps_special;         /* the names of special tokens are text */
    bool keeps_bytes;           /* invalid UTF-8 is written as it is, not as U+FFFD */
    bool has_begun;
    struct spot_buf held;
};

void spot_detok_init(struct spot_detokenizer *d, const struct spot_bpe *bpe, bool keeps_special,
                     bool keeps_bytes);
void spot_detok_release(struct spot_detokenizer *d);

/* Append what a token adds. Returns 0, or -1 when no token has this id. */
int spot_detok_push(struct spot_detokenizer *d, uint32_t id, struct spot_buf *out);

/* Append the bytes that a token stands for inside a text; false: it is none, or special. */
bool spot_detok_bytes(const struct spot_bpe *bpe, uint32_t id, struct spot_buf *out);

/* No more tokens come: what was held back, and the next text may begin. */
void spot_detok_end(struct spot_detokenizer *d, struct spot_buf *out);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TEXT_DETOK_H */
