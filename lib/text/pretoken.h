/* SPDX-License-Identifier: MIT */
/* pretoken.h - how GPT-2 cuts text into the pieces that its tokenizer never merges across:
 *
 *   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
 *
 * (https://github.com/openai/gpt-2, src/encoder.py), scanned by hand: the first alternative that
 * matches, each greedy. Invalid UTF-8 counts as neither letter, number nor space.
 */
#ifndef SPOT_TEXT_PRETOKEN_H
#define SPOT_TEXT_PRETOKEN_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Look-ahead: bytes behind a piece that can change where it ends. */
enum { SPOT_PRETOKEN_LOOK = 8 };

/* Bytes of the first piece of text[n], n >= 1: 1..n. */
size_t spot_pretoken(const char *text, size_t n);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TEXT_PRETOKEN_H */
