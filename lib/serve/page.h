/* SPDX-License-Identifier: MIT */
/* page.h - the page at `/`: a prompt, its stream by worker, the workers beside. */
#ifndef SPOT_SERVE_PAGE_H
#define SPOT_SERVE_PAGE_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* page.html, by the Makefile. */
extern const unsigned char spot_page_html[];
extern const size_t spot_page_html_byte;

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SERVE_PAGE_H */
