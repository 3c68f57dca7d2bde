/* SPDX-License-Identifier: MIT */
/* unicode_class.h - the character classes by which tokenizers cut text. */
#ifndef SPOT_TEXT_UNICODE_CLASS_H
#define SPOT_TEXT_UNICODE_CLASS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* General categories; M: all marks, P: punctuation except PC, S: symbols, Z: separators, C:
 * controls and unassigned (Unicode 16.0). */
enum spot_char_category {
    SPOT_CHAR_LU,
    SPOT_CHAR_LL,
    SPOT_CHAR_LT,
    SPOT_CHAR_LM,
    SPOT_CHAR_LO,
    SPOT_CHAR_M,
    SPOT_CHAR_ND,
    SPOT_CHAR_NL,
    SPOT_CHAR_NO,
    SPOT_CHAR_PC,
    SPOT_CHAR_P,
    SPOT_CHAR_S,
    SPOT_CHAR_Z,
    SPOT_CHAR_C,
    SPOT_CHARS
};

/* Sets of them, a bit each. */
enum {
    SPOT_CHARS_L = 0x1F,
    SPOT_CHARS_N = 7 << SPOT_CHAR_ND,
    SPOT_CHARS_P = 3 << SPOT_CHAR_PC,
};

/* *last: all characters up to this one have the same category. */
enum spot_char_category spot_char_category(uint32_t code, uint32_t *last);

bool spot_char_is_space(uint32_t code); /* the property White_Space */

/* General categories L* and N*, the property White_Space, and everything else (Unicode 16.0),
 * including UINT32_MAX. */
enum spot_char_class { SPOT_CHAR_OTHER, SPOT_CHAR_LETTER, SPOT_CHAR_NUMBER, SPOT_CHAR_SPACE };

enum spot_char_class spot_char_class(uint32_t code);

enum { SPOT_CHAR_CASED_MAX = 4 };

/* Write a character below 0x110000 as a capital or small letter, in UTF-8, into `text`. Returns its
 * length in bytes. */
size_t spot_char_cased(uint32_t code, bool raises, char text[SPOT_CHAR_CASED_MAX]);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TEXT_UNICODE_CLASS_H */
