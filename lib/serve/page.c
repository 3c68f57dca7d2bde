/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* memmem */
#include "serve/page.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "common/random.h"

enum { NONCE_BYTE = 16 };

static int draw(char nonce[2 * NONCE_BYTE + 1], struct spot_err *err)
{
    uint8_t random[NONCE_BYTE];

    if (spot_random_bytes(random, sizeof(random), err))
        return -1;
    for (size_t i = 0; i < NONCE_BYTE; i++)
        snprintf(nonce + 2 * i, 3, "%02x", random[i]);
    return 0;
}

int spot_page_put(struct spot_buf *out, char policy[SPOT_PAGE_POLICY_MAX], struct spot_err *err)
{
    static const char mark[] = "@NONCE@";
    const unsigned char *at = spot_page_html, *const end = spot_page_html + spot_page_html_byte;
    const unsigned char *next;
    char nonce[2 * NONCE_BYTE + 1];

    if (draw(nonce, err))
        return -1;
    snprintf(policy, SPOT_PAGE_POLICY_MAX,
             "default-src 'none'; script-src 'nonce-%s'; style-src 'nonce-%s'; connect-src 'self'; "
             "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
             nonce, nonce);
    while ((next = memmem(at, (size_t)(end - at), mark, sizeof(mark) - 1))) {
        spot_buf_add(out, at, (size_t)(next - at));
        spot_buf_add(out, nonce, 2 * NONCE_BYTE);
        at = next + sizeof(mark) - 1;
    }
    spot_buf_add(out, at, (size_t)(end - at));
    return 0;
}
