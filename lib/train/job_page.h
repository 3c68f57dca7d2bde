/* SPDX-License-Identifier: MIT */
/* job_page.h - the page at `/` of a job that trains: members, grid, steps, loss and pauses. */
#ifndef SPOT_TRAIN_JOB_PAGE_H
#define SPOT_TRAIN_JOB_PAGE_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* job_page.html, embedded by the Makefile. */
extern const unsigned char spot_job_page_html[];
extern const size_t spot_job_page_html_byte;

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TRAIN_JOB_PAGE_H */
