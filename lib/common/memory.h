/* SPDX-License-Identifier: MIT */
/* memory.h - how much memory is free. Linux overcommits: it grants memory that it does not have,
 * and kills processes later. */
#ifndef SPOT_COMMON_MEMORY_H
#define SPOT_COMMON_MEMORY_H

#include <stddef.h>

#include "common/err.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes that this process could still allocate: MemAvailable of /proc/meminfo, limited by its
 * control group (v2). SIZE_MAX if not known. */
size_t spot_memory_available(void);

/* Bytes until the machine is full, or the process's control group, given that used_byte of the
 * group are used.
 */
size_t spot_memory_left(size_t used_byte);

/* Returns 0 if `need_byte` is within `limit_byte` (0: what is available), else -1 with *err
 * (SPOT_ESYS): "WHAT needs 1.2 GB, 0.8 GB are available". */
int spot_memory_check(const char *what, size_t need_byte, size_t limit_byte, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_COMMON_MEMORY_H */
