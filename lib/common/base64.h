/* SPDX-License-Identifier: MIT */
/* base64.h - bytes as text of 64 letters (RFC 4648, with padding, no line breaks). */
#ifndef SPOT_COMMON_BASE64_H
#define SPOT_COMMON_BASE64_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Letters of n bytes, with the NUL. */
#define SPOT_BASE64_SIZE(n) (((n) + 2) / 3 * 4 + 1)

/* Encode data[n] into text[SPOT_BASE64_SIZE(n)]. */
void spot_base64_encode(const void *data, size_t n, char *text);

/* Decode text[n_text] into data[cap], with its length in *n. False if it is longer than cap, or is
 * not exactly what spot_base64_encode would write. */
bool spot_base64_decode(const char *text, size_t n_text, void *data, size_t cap, size_t *n);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_COMMON_BASE64_H */
