/* SPDX-License-Identifier: MIT */
/* http_page.h - serves a self-contained page with a Content-Security-Policy that forbids everything
 * else.
 *
 * Its style and script elements have nonce="@NONCE@".
 */
#ifndef SPOT_COMM_HTTP_PAGE_H
#define SPOT_COMM_HTTP_PAGE_H

#include <stddef.h>

#include "comm/http.h"
#include "common/err.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Answer with the page, its policy allowing only elements with a fresh nonce; it loads nothing from
 * elsewhere. Returns 0, or -1 with *err and no answer if there are no random numbers. */
int spot_http_answer_page(struct spot_http_call *call, const unsigned char *html, size_t n_byte,
                          struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_COMM_HTTP_PAGE_H */
