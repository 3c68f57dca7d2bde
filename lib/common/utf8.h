/* SPDX-License-Identifier: MIT */
/* utf8.h - characters of UTF-8 text. */
#ifndef SPOT_COMMON_UTF8_H
#define SPOT_COMMON_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Length in bytes of a character with this first byte; 0: no character begins with it. */
size_t spot_utf8_length(unsigned char first);

/* The character at the start of text[n], n >= 1, and its length in bytes. Invalid UTF-8 (RFC 3629)
 * counts as one byte with code UINT32_MAX. */
size_t spot_utf8_char(const char *text, size_t n, uint32_t *code);

enum { SPOT_UTF8_MAX = 4 }; /* bytes of a character */

/* Encode a character below 0x110000 into text[], without a NUL. Returns how many bytes. */
size_t spot_utf8_put(uint32_t code, char text[SPOT_UTF8_MAX]);

/* True for well-formed UTF-8 without line ends or control characters, which is safe in a log and on
 * a terminal. */
bool spot_utf8_is_plain(const char *text);

/* Make a text plain in this sense: each offending byte becomes '?'. */
void spot_utf8_make_plain(char *text);

/* A safe copy, to be freed: offending characters are written as \x1b or \u2028. Not reversible:
 * backslashes are not escaped. */
char *spot_utf8_shown(const char *text);

/* Length of the longest prefix of `text` with at most n_max bytes that does not split a
 * character. */
size_t spot_utf8_cut(const char *text, size_t n_max);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_COMMON_UTF8_H */
