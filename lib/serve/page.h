/* SPDX-License-Identifier: MIT */
/* page.h - the page at `/`: a prompt, its stream by worker, the workers beside. */
#ifndef SPOT_SERVE_PAGE_H
#define SPOT_SERVE_PAGE_H

#include <stddef.h>

#include "common/buf.h"
#include "common/err.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_PAGE_POLICY_MAX = 320 };

/* page.html, by the Makefile. */
extern const unsigned char spot_page_html[];
extern const size_t spot_page_html_byte;

/* The page with a number of its own that its policy (Content-Security-Policy) names: nothing else
 * in it runs, and it loads nothing from elsewhere. Returns 0, or -1 with *err: no random numbers.
 */
int spot_page_put(struct spot_buf *out, char policy[SPOT_PAGE_POLICY_MAX], struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SERVE_PAGE_H */
