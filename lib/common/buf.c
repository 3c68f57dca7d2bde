/* SPDX-License-Identifier: MIT */
#include "common/buf.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"

unsigned char *spot_buf_more(struct spot_buf *buf, size_t n_byte)
{
    if (!buf->data || buf->cap - buf->n < n_byte) {
        const size_t twice = buf->cap <= SIZE_MAX / 2 ? 2 * buf->cap : SIZE_MAX;
        const size_t need = n_byte <= SIZE_MAX - buf->n ? buf->n + n_byte : SIZE_MAX;

        buf->cap = twice > need ? twice : need;
        buf->cap += !buf->cap;
        buf->data = spot_xrealloc(buf->data, buf->cap, 1);
    }
    return buf->data + buf->n;
}

void spot_buf_add(struct spot_buf *buf, const void *data, size_t n_byte)
{
    if (!n_byte)
        return;
    memcpy(spot_buf_more(buf, n_byte), data, n_byte);
    buf->n += n_byte;
}

void spot_buf_release(struct spot_buf *buf)
{
    free(buf->data);
    memset(buf, 0, sizeof(*buf));
}
