/* SPDX-License-Identifier: MIT */
/* region.h - extracts the region from the name of a zone. */
#ifndef SPOT_TRACE_REGION_H
#define SPOT_TRACE_REGION_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The region of a zone: us-east-1c is in us-east-1, europe-west4-a in europe-west4, r1z2 of
 * spot-replay generate in r1. Returns the length of that prefix; the whole length for names of
 * another form. */
size_t spot_region_length(const char *zone);

bool spot_region_is_same(const char *zone, const char *other);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TRACE_REGION_H */
