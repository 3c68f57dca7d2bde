/* SPDX-License-Identifier: MIT */
/* fleet_page.h - the page of a fleet. */
#ifndef SPOT_FLEET_FLEET_PAGE_H
#define SPOT_FLEET_FLEET_PAGE_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* fleet_page.html, embedded by the Makefile. */
extern const unsigned char spot_fleet_page_html[];
extern const size_t spot_fleet_page_html_byte;

#ifdef __cplusplus
}
#endif

#endif /* SPOT_FLEET_FLEET_PAGE_H */
