/* SPDX-License-Identifier: MIT */
/* memory.h - ask before taking: Linux grants memory it does not have and kills later. */
#ifndef SPOT_COMMON_MEMORY_H
#define SPOT_COMMON_MEMORY_H

#include <stddef.h>

#include "common/err.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes that this process could still take: MemAvailable of /proc/meminfo, and not more than
 * the limit of its control group (v2). SIZE_MAX when the machine does not say. */
size_t spot_memory_available(void);

/* Returns 0 if `need_byte` is within `limit_byte` (0: what is available), else -1 with *err
 * (SPOT_ESYS): "WHAT needs 1.2 GB, 0.8 GB are available". */
int spot_memory_check(const char *what, size_t need_byte, size_t limit_byte, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_COMMON_MEMORY_H */
