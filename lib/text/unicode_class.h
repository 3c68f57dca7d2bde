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

/* General categories L* and N*, the property White_Space, and everything else (Unicode 15.0),
 * including UINT32_MAX. */
enum spot_char_class { SPOT_CHAR_OTHER, SPOT_CHAR_LETTER, SPOT_CHAR_NUMBER, SPOT_CHAR_SPACE };

enum spot_char_class spot_char_class(uint32_t code);

enum { SPOT_CHAR_CASED_MAX = 4 };

/* A character below 0x110000 as a capital or small letter, in UTF-8. Returns its bytes. */
size_t spot_char_cased(uint32_t code, bool raises, char text[SPOT_CHAR_CASED_MAX]);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TEXT_UNICODE_CLASS_H */
