/* SPDX-License-Identifier: MIT */
/* pretoken.h - cuts text into pieces as GPT-2 does; its tokenizer never merges across them:
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

/* Look-ahead: bytes after a piece that can change where it ends. */
enum { SPOT_PRETOKEN_LOOK = 8 };

/* Bytes of the first piece of text[n], n >= 1: 1..n. */
size_t spot_pretoken(const char *text, size_t n);

/* The same for Llama 3:
 *
 *   (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|
 *   \s*[\r\n]+|\s+(?!\S)|\s+
 *
 * *reach: bytes that were examined; SPOT_PRETOKEN_LOOK more must be known. */
#define SPOT_PRETOKEN_LLAMA3                                                  \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}|" \
    " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
size_t spot_pretoken_llama3(const char *text, size_t n, size_t *reach);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TEXT_PRETOKEN_H */
