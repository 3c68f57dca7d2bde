/* SPDX-License-Identifier: MIT */
#include "engine/cpu/infer_kernel.h"

#if defined(__aarch64__)

#include <arm_neon.h>
#include <string.h>

#include "common/simd.h"
#include "engine/cpu/target.h"

SPOT_TARGET("neon")

static bool runs_here(void)
{
    return spot_simd_has(SPOT_SIMD_NEON);
}

#define VEC            float32x4_t
#define LANES          4
#define VECS           4
#define LOAD(p)        vld1q_f32(p)
#define STORE(p, x)    vst1q_f32(p, x)
#define SPLAT(x)       vdupq_n_f32(x)
#define MADD(a, b, c)  vfmaq_f32(c, a, b)
#define WIDEN(p)       vreinterpretq_f32_u32(vshll_n_u16(read_halves(p), 16))
#define STREAM_VECS(T) ((T) <= 2 ? 8 : 4)
#define HAS_DOT

static inline __attribute__((always_inline)) uint16x4_t read_halves(const void *p)
{
    return vreinterpret_u16_u8(vld1_u8(p));
}

#include "engine/cpu/infer_body.inc"

/* --- 8 bits: weights after subtracting 128 --- */

INLINE int8x16_t read_weights(const uint8_t *p)
{
    return vreinterpretq_s8_u8(veorq_u8(vld1q_u8(p), vdupq_n_u8(128)));
}

INLINE int8x16_t splat_four(const int8_t *p)
{
    int32_t four;

    memcpy(&four, p, sizeof(four));
    return vreinterpretq_s8_s32(vdupq_n_s32(four));
}

/* A product of 128 by 127 fits in 16 bits; the sum of two does not, so they are added in 32
 * bits. */
INLINE int32x4_t dot_pairs(int32x4_t sum, int8x16_t w, int8x16_t x)
{
    const int32x4_t low = vpaddlq_s16(vmull_s8(vget_low_s8(w), vget_low_s8(x)));
    const int32x4_t high = vpaddlq_s16(vmull_high_s8(w, x));

    return vaddq_s32(sum, vpaddq_s32(low, high));
}

#define Q8_SUM            int32x4_t
#define Q8_FLOATS(sum)    vcvtq_f32_s32(sum)
#define Q8_ZERO(x, at)    vdupq_n_s32(0)
#define Q8_FOUR(p)        splat_four(p)
#define Q8_WEIGHT         int8x16_t
#define Q8_READ(p)        read_weights(p)
#define Q8_RUN            run_q8
#define Q8_DOT(sum, w, x) dot_pairs(sum, w, x)
#include "engine/cpu/infer_q8.inc"

static void run_quantise(const struct spot_q8 *q, int64_t at, const float *x, int64_t n)
{
    const float32x4_t magic = vdupq_n_f32(12582912.0F); /* 1.5 * 2^23: rounds to nearest even */
    float some[SPOT_Q8_BLOCK] = { 0 }, max, by;
    float32x4_t most = vdupq_n_f32(0);
    int32x4_t total = vdupq_n_s32(0);
    int16x8_t half[SPOT_Q8_BLOCK / 8];

    memcpy(some, x, (size_t)n * sizeof(*x));
    for (int i = 0; i < SPOT_Q8_BLOCK; i += 4)
        most = vmaxnmq_f32(most, vabsq_f32(vld1q_f32(some + i)));
    max = vmaxvq_f32(most);
    by = max > 0x1p-100F ? 127 / max : 0;
    q->scale[at] = max > 0x1p-100F ? max / 127 : 0;
    for (int i = 0; i < SPOT_Q8_BLOCK; i += 8) {
        int32x4_t v[2];

        for (int k = 0; k < 2; k++) {
            const float32x4_t scaled = vmulq_f32(vld1q_f32(some + i + 4 * k), vdupq_n_f32(by));

            v[k] =
                vsubq_s32(vreinterpretq_s32_f32(vaddq_f32(scaled, magic)), vdupq_n_s32(0x4B400000));
            total = vaddq_s32(total, v[k]);
        }
        half[i / 8] = vcombine_s16(vmovn_s32(v[0]), vmovn_s32(v[1]));
    }
    for (int i = 0; i < SPOT_Q8_BLOCK / 16; i++)
        vst1q_s8(q->x + at * SPOT_Q8_BLOCK + 16 * i,
                 vcombine_s8(vmovn_s16(half[2 * i]), vmovn_s16(half[2 * i + 1])));
    q->minus[at] = -128 * vaddvq_s32(total);
}

const struct spot_infer_kernel spot_infer_neon = { .name = "neon",
                                                   .runs_here = runs_here,
                                                   BODY_MEMBERS,
                                                   BODY_BF16_MEMBERS,
                                                   .q8 = run_q8,
                                                   .quantise = run_quantise };

SPOT_TARGET_END

/* --- dot products of four bytes: Graviton 2, Grace, Apple's M1 and later --- */

static bool dot_runs_here(void)
{
    return spot_simd_has(SPOT_SIMD_NEONDOT);
}

SPOT_TARGET_ARM("arch=armv8.2-a+dotprod")

#undef Q8_RUN
#undef Q8_DOT
#define Q8_RUN            run_q8_dot
#define Q8_DOT(sum, w, x) vdotq_s32(sum, w, x)
#include "engine/cpu/infer_q8.inc"

SPOT_TARGET_END

const struct spot_infer_kernel spot_infer_neondot = { .name = "neondot",
                                                      .runs_here = dot_runs_here,
                                                      BODY_MEMBERS,
                                                      BODY_BF16_MEMBERS,
                                                      .q8 = run_q8_dot,
                                                      .quantise = run_quantise };

#endif
