/* SPDX-License-Identifier: MIT */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "comm/http_head.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Goal: no request crashes its reader, and a body in chunks is the same read at once and byte by
 * byte. */

/* Returns how it ends; *n_byte of its bytes are read, *sum is of the body. */
static int read_chunks(const char *data, size_t size, size_t step, size_t *n_byte, uint64_t *sum)
{
    struct spot_http_chunks c = { 0 };
    int rc = 0;

    *sum = 0;
    for (*n_byte = 0; !rc && *n_byte < size;) {
        size_t n = size - *n_byte < step ? size - *n_byte : step, n_part;
        const char *part;

        rc = spot_http_chunks_read(&c, data + *n_byte, &n, &part, &n_part);
        if (n_part > n)
            abort();
        for (size_t i = 0; i < n_part; i++)
            *sum = *sum * 31 + (unsigned char)part[i];
        *n_byte += n;
    }
    return rc;
}

static void check_chunks(const char *data, size_t size)
{
    size_t n[2];
    uint64_t sum[2];
    const int rc = read_chunks(data, size, size + 1, &n[0], &sum[0]);

    if (read_chunks(data, size, 1, &n[1], &sum[1]) != rc || sum[0] != sum[1] ||
        (rc > 0 && n[0] != n[1]))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *const text = (const char *)data, *why;
    struct spot_http_head head;
    size_t n_seen = 0;
    const size_t n = spot_http_head_size(text, size, &n_seen);

    check_chunks(text, size);
    if (!n || n == SIZE_MAX)
        return 0;
    if (!spot_http_head_read(&head, text, n, &why)) {
        if (strlen(head.method) > n || strlen(head.path) > n || head.n_body < SPOT_HTTP_CHUNKED ||
            (!head.host && !head.is_1_0))
            abort();
        check_chunks(text + n, size - n);
    }
    spot_http_head_release(&head);
    return 0;
}
