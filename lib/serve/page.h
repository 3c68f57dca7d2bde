/* SPDX-License-Identifier: MIT */
/* page.h - the page at `/`: a prompt, its stream marked by worker, and the workers. */
#ifndef SPOT_SERVE_PAGE_H
#define SPOT_SERVE_PAGE_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* page.html, embedded by the Makefile. */
extern const unsigned char spot_page_html[];
extern const size_t spot_page_html_byte;

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SERVE_PAGE_H */
