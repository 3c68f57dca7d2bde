/* SPDX-License-Identifier: MIT */
/* unicode_class.h - the character classes by which tokenizers cut text. */
#ifndef SPOT_TEXT_UNICODE_CLASS_H
#define SPOT_TEXT_UNICODE_CLASS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* General categories L* and N*, the property White_Space, and everything else (Unicode 15.0),
 * including UINT32_MAX. */
enum spot_char_class { SPOT_CHAR_OTHER, SPOT_CHAR_LETTER, SPOT_CHAR_NUMBER, SPOT_CHAR_SPACE };

enum spot_char_class spot_char_class(uint32_t code);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TEXT_UNICODE_CLASS_H */
