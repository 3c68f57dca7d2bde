/* SPDX-License-Identifier: MIT */
/* le.h - little-endian integers in byte arrays, on any machine. */
#ifndef SPOT_COMMON_LE_H
#define SPOT_COMMON_LE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

static inline void spot_le_put(void *at, uint64_t value, int n_byte)
{
    unsigned char *p = (unsigned char *)at;

    for (int i = 0; i < n_byte; i++)
        p[i] = (unsigned char)(value >> 8 * i);
}

static inline uint64_t spot_le_get(const void *at, int n_byte)
{
    const unsigned char *p = (const unsigned char *)at;
    uint64_t value = 0;

    for (int i = 0; i < n_byte; i++)
        value |= (uint64_t)p[i] << 8 * i;
    return value;
}

#ifdef __cplusplus
}
#endif

#endif /* SPOT_COMMON_LE_H */
