/* SPDX-License-Identifier: MIT */
/* job_page.h - the page at `/` of a job that trains: members, grid, steps, loss and pauses. */
#pragma once

#include <stddef.h>

/* job_page.html, embedded by the Makefile. */
extern const unsigned char spot_job_page_html[];
extern const size_t spot_job_page_html_byte;
