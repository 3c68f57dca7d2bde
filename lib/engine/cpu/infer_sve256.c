/* SPDX-License-Identifier: MIT */
/* infer_sve256.c - the kernels for SVE with vectors of 256 bits (Graviton 3). Vectors of 128 bits
 * (Graviton 4, Grace) are NEON's; others are wider than any server's today. */
#include "engine/cpu/infer_kernel.h"

#if defined(__aarch64__)

#include <arm_sve.h>
#include <string.h>

#include "common/simd.h"
#include "engine/cpu/target.h"

static bool runs_here(void)
{
    return spot_simd_has(SPOT_SIMD_SVE256);
}

SPOT_TARGET_ARM("arch=armv8.2-a+sve+i8mm")

#define FIXED __attribute__((arm_sve_vector_bits(256)))

typedef svfloat32_t floats FIXED;
typedef svint32_t sums FIXED;
typedef svuint8_t weights FIXED;

#define ALL            svptrue_b32()
#define VEC            floats
#define LANES          8
#define VECS           4
#define LOAD(p)        ((VEC)svld1_f32(ALL, p))
#define STORE(p, x)    svst1_f32(ALL, p, x)
#define SPLAT(x)       ((VEC)svdup_f32(x))
#define MADD(a, b, c)  svmla_x(ALL, c, a, b)
#define WIDEN(p)       svreinterpret_f32(svlsl_x(ALL, svld1uh_u32(ALL, (const void *)(p)), 16))
#define STREAM_VECS(T) ((T) <= 2 ? 8 : 4)
#define HAS_DOT

#include "engine/cpu/infer_body.inc"

INLINE svint8_t splat_four(const int8_t *p)
{
    int32_t four;

    memcpy(&four, p, sizeof(four));
    return svreinterpret_s8(svdup_s32(four));
}

INLINE svint64_t splat_eight(const int8_t *p)
{
    int64_t eight;

    memcpy(&eight, p, sizeof(eight));
    return svdup_s64(eight);
}

/* --- 8 bits: weights are stored as unsigned numbers plus 128; `minus` corrects for that --- */

#define Q8_STEP              1
#define Q8_RUN               run_q8_one
#define Q8_SUM               sums
#define Q8_FLOATS(sum, i)    svcvt_f32_x(ALL, sum)
#define Q8_ZERO(x, at, at_2) svdup_s32((x)->minus[at])
#define Q8_FOUR(p, p_2)      splat_four(p)
#define Q8_WEIGHT            weights
#define Q8_READ(p)           svld1_u8(svptrue_b8(), p)
#define Q8_DOT(sum, w, x)    svusdot(sum, w, x)
#include "engine/cpu/infer_q8.inc"

/* As in infer_neon.c, in each half of a vector. */
struct weight_pair {
    weights even, odd;
};

struct sum_pair {
    sums even, odd;
};

INLINE struct weight_pair read_pair(const uint8_t *p)
{
    const svuint32_t a = svreinterpret_u32(svld1_u8(svptrue_b8(), p));
    const svuint32_t b = svreinterpret_u32(svld1_u8(svptrue_b8(), p + 4 * SPOT_PANEL));

    return (struct weight_pair){ svreinterpret_u8(svtrn1(a, b)), svreinterpret_u8(svtrn2(a, b)) };
}

INLINE struct sum_pair zero_pair(int32_t first, int32_t second)
{
    const sums sum = svtrn1(svdup_s32(first), svdup_s32(second));

    return (struct sum_pair){ sum, sum };
}

INLINE struct sum_pair dot_pair(struct sum_pair sum, struct weight_pair w, svint8_t x)
{
    return (struct sum_pair){ svusmmla(sum.even, w.even, x), svusmmla(sum.odd, w.odd, x) };
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
    svcvt_f32_x(ALL, (i) ? svtrn2((sum).even, (sum).odd) : svtrn1((sum).even, (sum).odd))
#define Q8_ZERO(x, at, at_2) zero_pair((x)->minus[at], (x)->minus[at_2])
#define Q8_FOUR(p, p_2)      svreinterpret_s8(svtrn1(splat_eight(p), splat_eight(p_2)))
#define Q8_WEIGHT            struct weight_pair
#define Q8_READ(p)           read_pair(p)
#define Q8_DOT(sum, w, x)    dot_pair(sum, w, x)
#include "engine/cpu/infer_q8.inc"

static void run_q8(float *c, int64_t c_row, const uint8_t *w, const struct spot_q8 *x,
                   int64_t b_row, int n_token, int64_t n_block, bool is_more, const void *next,
                   int n_ahead)
{
    (n_token > 1 ? run_q8_pairs : run_q8_one)(c, c_row, w, x, b_row, n_token, n_block, is_more,
                                              next, n_ahead);
}

SPOT_TARGET_END

const struct spot_infer_kernel spot_infer_sve256 = { .name = "sve256",
                                                     .runs_here = runs_here,
                                                     BODY_MEMBERS,
                                                     BODY_BF16_MEMBERS,
                                                     .q8 = run_q8,
                                                     .quantise = spot_infer_neon_quantise };

#endif
