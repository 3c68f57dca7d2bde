/* SPDX-License-Identifier: MIT */
/* cuda_bf16.h - bfloat16 on the CPU, rounded to nearest even. */
#ifndef SPOT_TWIN_CUDA_BF16_H
#define SPOT_TWIN_CUDA_BF16_H

#include <cmath>
#include <cstdint>
#include <cstring>

struct __nv_bfloat16 {
    uint16_t bits;
};

static inline float __bfloat162float(__nv_bfloat16 x)
{
    const uint32_t bits = static_cast<uint32_t>(x.bits) << 16;
    float y;

    std::memcpy(&y, &bits, sizeof(y));
    return y;
}

static inline __nv_bfloat16 __float2bfloat16(float x)
{
    uint32_t bits;

    std::memcpy(&bits, &x, sizeof(bits));
    if (std::isnan(x))
        return { 0x7fff };
    return { static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16) };
}

#endif /* SPOT_TWIN_CUDA_BF16_H */
