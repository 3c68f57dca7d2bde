/* SPDX-License-Identifier: MIT */
/* random.h - unpredictable bytes for keys and names; computations use rng.h. */
#ifndef SPOT_COMMON_RANDOM_H
#define SPOT_COMMON_RANDOM_H

#include <stddef.h>

#include "common/err.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Fill data [n_byte] from the system's generator. Returns 0, or -1 with *err (SPOT_ESYS); there is
 * no fallback source. */
int spot_random_bytes(void *data, size_t n_byte, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_COMMON_RANDOM_H */
