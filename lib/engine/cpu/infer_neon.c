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

#define Q8_STEP              1
#define Q8_SUM               int32x4_t
#define Q8_FLOATS(sum, i)    vcvtq_f32_s32(sum)
#define Q8_ZERO(x, at, at_2) vdupq_n_s32(0)
#define Q8_FOUR(p, p_2)      splat_four(p)
#define Q8_WEIGHT            int8x16_t
#define Q8_READ(p)           read_weights(p)
#define Q8_RUN               run_q8
#define Q8_DOT(sum, w, x)    dot_pairs(sum, w, x)
#include "engine/cpu/infer_q8.inc"

void spot_infer_neon_quantise(const struct spot_q8 *q, int64_t at, const float *x, int64_t n)
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
                                                   .quantise = spot_infer_neon_quantise };

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
                                                      .quantise = spot_infer_neon_quantise };

/* --- sums of pairs of tokens, by products of unsigned and signed bytes of two groups of inputs:
 * Graviton 3, Grace, Cobalt, Axion --- */

static bool i8mm_runs_here(void)
{
    return spot_simd_has(SPOT_SIMD_NEONI8MM);
}

SPOT_TARGET_ARM("arch=armv8.2-a+dotprod+i8mm")

/* One token: weights are stored as unsigned numbers plus 128; `minus` corrects for that. */
#undef Q8_RUN
#undef Q8_ZERO
#undef Q8_FOUR
#undef Q8_WEIGHT
#undef Q8_READ
#undef Q8_DOT
#define Q8_RUN               run_q8_one
#define Q8_ZERO(x, at, at_2) vdupq_n_s32((x)->minus[at])
#define Q8_FOUR(p, p_2)      splat_four(p)
#define Q8_WEIGHT            uint8x16_t
#define Q8_READ(p)           vld1q_u8(p)
#define Q8_DOT(sum, w, x)    vusdotq_s32(sum, w, x)
#include "engine/cpu/infer_q8.inc"

struct weight_pair { /* two outputs of eight inputs each: the even and the odd ones of four */
    uint8x16_t even, odd;
};

struct sum_pair { /* [outputs 0 and 2, or 1 and 3][tokens] */
    int32x4_t even, odd;
};

INLINE struct weight_pair read_pair(const uint8_t *p)
{
    const uint32x4_t a = vreinterpretq_u32_u8(vld1q_u8(p));
    const uint32x4_t b = vreinterpretq_u32_u8(vld1q_u8(p + 4 * SPOT_PANEL));

    return (struct weight_pair){ vreinterpretq_u8_u32(vtrn1q_u32(a, b)),
                                 vreinterpretq_u8_u32(vtrn2q_u32(a, b)) };
}

INLINE struct sum_pair zero_pair(int32_t first, int32_t second)
{
    const int32x4_t sum = vzip1q_s32(vdupq_n_s32(first), vdupq_n_s32(second));

    return (struct sum_pair){ sum, sum };
}

INLINE struct sum_pair dot_pair(struct sum_pair sum, struct weight_pair w, int8x16_t x)
{
    return (struct sum_pair){ vusmmlaq_s32(sum.even, w.even, x), vusmmlaq_s32(sum.odd, w.odd, x) };
}

#undef Q8_STEP
#undef Q8_RUN
#undef Q8_SUM
#undef Q8_FLOATS
#undef Q8_ZERO
#undef Q8_FOUR
#undef Q8_WEIGHT
#undef Q8_READ
#undef Q8_DOT
#define Q8_STEP 2
#define Q8_RUN  run_q8_pairs
#define Q8_SUM  struct sum_pair
#define Q8_FLOATS(sum, i) \
    vcvtq_f32_s32((i) ? vtrn2q_s32((sum).even, (sum).odd) : vtrn1q_s32((sum).even, (sum).odd))
#define Q8_ZERO(x, at, at_2) zero_pair((x)->minus[at], (x)->minus[at_2])
#define Q8_FOUR(p, p_2)      vcombine_s8(vld1_s8(p), vld1_s8(p_2))
#define Q8_WEIGHT            struct weight_pair
#define Q8_READ(p)           read_pair(p)
#define Q8_DOT(sum, w, x)    dot_pair(sum, w, x)
#include "engine/cpu/infer_q8.inc"

static void run_q8_mixed(float *c, int64_t c_row, const uint8_t *w, const struct spot_q8 *x,
                         int64_t b_row, int n_token, int64_t n_block, bool is_more,
                         const void *next, int n_ahead)
{
    (n_token > 1 ? run_q8_pairs : run_q8_one)(c, c_row, w, x, b_row, n_token, n_block, is_more,
                                              next, n_ahead);
}

SPOT_TARGET_END

const struct spot_infer_kernel spot_infer_neoni8mm = { .name = "neoni8mm",
                                                       .runs_here = i8mm_runs_here,
                                                       BODY_MEMBERS,
                                                       BODY_BF16_MEMBERS,
                                                       .q8 = run_q8_mixed,
                                                       .quantise = spot_infer_neon_quantise };

#endif
