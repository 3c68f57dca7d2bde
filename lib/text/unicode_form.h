/* SPDX-License-Identifier: MIT */
/* unicode_form.h - the normal forms NFD and NFC of Unicode 16.0 (UAX #15). */
#ifndef SPOT_TEXT_UNICODE_FORM_H
#define SPOT_TEXT_UNICODE_FORM_H

#include <stdbool.h>
#include <stddef.h>

#include "common/buf.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Append text[n] in canonical decomposition, or composed again. Invalid bytes are kept, and
 * separate the text around them. Takes n log n, for any number of combining characters. */
void spot_unicode_form(const char *text, size_t n, bool composes, struct spot_buf *out);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TEXT_UNICODE_FORM_H */
