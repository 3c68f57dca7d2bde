/* SPDX-License-Identifier: MIT */
/* half.h - converts IEEE 754 binary16 to a float of the same value. */
#ifndef SPOT_WEIGHTS_HALF_H
#define SPOT_WEIGHTS_HALF_H

#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

static inline float spot_half(uint16_t half)
{
    const uint32_t sign = (uint32_t)(half & 0x8000) << 16, e = half >> 10 & 0x1F, m = half & 0x3FF;
    uint32_t bits;
    float x;

    if (e == 0) /* zero or subnormal: m * 2^-24, exact */
        return (float)m * 0x1p-24F * (sign ? -1.0F : 1.0F);
    bits = sign | (e == 0x1F ? 0x7F800000 : (e + 112) << 23) | m << 13;
    memcpy(&x, &bits, sizeof(x));
    return x;
}

#ifdef __cplusplus
}
#endif

#endif /* SPOT_WEIGHTS_HALF_H */
