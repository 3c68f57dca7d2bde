/* SPDX-License-Identifier: MIT */
/* buf.h - a byte buffer that grows at its end. */
#ifndef SPOT_COMMON_BUF_H
#define SPOT_COMMON_BUF_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct spot_buf {
    unsigned char *data;
    size_t n, cap;
};

/* Make room for `n_byte` more bytes at data + n; never NULL, not initialised; `n` is unchanged.
 * Aborts when out of memory. */
unsigned char *spot_buf_more(struct spot_buf *buf, size_t n_byte);
void spot_buf_add(struct spot_buf *buf, const void *data, size_t n_byte);

void spot_buf_release(struct spot_buf *buf);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_COMMON_BUF_H */
