/* SPDX-License-Identifier: MIT */
/* buf.h - bytes that grow at the end. */
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

/* Room for `n_byte` more bytes behind data + n, never NULL, not initialised; `n` stays. Out of
 * memory aborts.
 */
unsigned char *spot_buf_more(struct spot_buf *buf, size_t n_byte);
void spot_buf_add(struct spot_buf *buf, const void *data, size_t n_byte);

void spot_buf_release(struct spot_buf *buf);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_COMMON_BUF_H */
