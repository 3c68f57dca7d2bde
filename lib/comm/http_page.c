/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* memmem */
#include "comm/http_page.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "common/random.h"

enum { NONCE_BYTE = 16, POLICY_MAX = 320 };

static int draw(char nonce[2 * NONCE_BYTE + 1], struct spot_err *err)
{
    uint8_t random[NONCE_BYTE];

    if (spot_random_bytes(random, sizeof(random), err))
        return -1;
    for (size_t i = 0; i < NONCE_BYTE; i++)
        snprintf(nonce + 2 * i, 3, "%02x", random[i]);
    return 0;
}

static void put_page(const unsigned char *html, size_t n_byte, const char *nonce,
                     struct spot_buf *out)
{
    static const char mark[] = "@NONCE@";
    const unsigned char *at = html, *const end = html + n_byte, *next;

    while ((next = memmem(at, (size_t)(end - at), mark, sizeof(mark) - 1))) {
        spot_buf_add(out, at, (size_t)(next - at));
        spot_buf_add(out, nonce, 2 * NONCE_BYTE);
        at = next + sizeof(mark) - 1;
    }
    spot_buf_add(out, at, (size_t)(end - at));
}

int spot_http_answer_page(struct spot_http_call *call, const unsigned char *html, size_t n_byte,
                          struct spot_err *err)
{
    char nonce[2 * NONCE_BYTE + 1], policy[POLICY_MAX];
    struct spot_buf out = { 0 };

    if (draw(nonce, err))
        return -1;
    snprintf(policy, sizeof(policy),
             "default-src 'none'; script-src 'nonce-%s'; style-src 'nonce-%s'; connect-src 'self'; "
             "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
             nonce, nonce);
    put_page(html, n_byte, nonce, &out);
    spot_http_add_header(call, "Content-Security-Policy", policy);
    spot_http_add_header(call, "X-Content-Type-Options", "nosniff");
    spot_http_add_header(call, "Referrer-Policy", "no-referrer");
    spot_http_add_header(call, "Cache-Control", "no-store");
    spot_http_answer(call, 200, "text/html; charset=utf-8", out.data, out.n);
    spot_buf_release(&out);
    return 0;
}
