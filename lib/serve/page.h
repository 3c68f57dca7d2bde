/* SPDX-License-Identifier: MIT */
/* page.h - the page at `/`: a prompt, its stream marked by worker, and the workers. */
#pragma once

#include <stddef.h>

/* page.html, embedded by the Makefile. */
extern const unsigned char spot_page_html[];
extern const size_t spot_page_html_byte;
