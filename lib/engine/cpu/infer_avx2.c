/* SPDX-License-Identifier: MIT */
#include "engine/cpu/infer_kernel.h"

#if defined(__x86_64__)

#include <immintrin.h>
#include <string.h>

#include "common/simd.h"
#include "engine/cpu/target.h"

static bool runs_here(void)
{
    return spot_simd_has(SPOT_SIMD_AVX2);
}

SPOT_TARGET("avx2,fma")

#define VEC           __m256
#define LANES         8
#define VECS          2
#define LOAD(p)       _mm256_loadu_ps(p)
#define STORE(p, x)   _mm256_storeu_ps(p, x)
#define SPLAT(x)      _mm256_set1_ps(x)
#define MADD(a, b, c) _mm256_fmadd_ps(a, b, c)
#define WIDEN(p)                           \
    _mm256_castsi256_ps(_mm256_slli_epi32( \
        _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(const void *)(p))), 16))
#define STREAM_VECS(T) ((T) == 1 ? 8 : (T) <= 4 ? 4 : 2)
#define HAS_DOT

#include "engine/cpu/infer_body.inc"

INLINE __m256i read_32(const uint8_t *p)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)p);
}

INLINE __m256i splat_four(const int8_t *p)
{
    int32_t four;

    memcpy(&four, p, sizeof(four));
    return _mm256_set1_epi32(four);
}

/* --- 8 bits: products of bytes of which only one is signed, whose pairs must fit in 16 bits --- */

struct sized { /* 32 weights after subtracting 128, as size and sign */
    __m256i w, size;
};

INLINE struct sized read_sized(const uint8_t *p)
{
    const __m256i w = _mm256_xor_si256(read_32(p), _mm256_set1_epi8(-128));

    return (struct sized){ w, _mm256_abs_epi8(w) };
}

/* A pair is at most 128 * 127 * 2, so sums in 16 bits are exact. */
INLINE __m256i dot_sized(__m256i sum, struct sized a, __m256i x)
{
    const __m256i pair = _mm256_maddubs_epi16(a.size, _mm256_sign_epi8(x, a.w));

    return _mm256_add_epi32(sum, _mm256_madd_epi16(pair, _mm256_set1_epi16(1)));
}

#define Q8_STEP              1
#define Q8_SUM               __m256i
#define Q8_FLOATS(sum, i)    _mm256_cvtepi32_ps(sum)
#define Q8_FOUR(p, p_2)      splat_four(p)
#define Q8_RUN               run_q8
#define Q8_ZERO(x, at, at_2) _mm256_setzero_si256()
#define Q8_WEIGHT            struct sized
#define Q8_READ(p)           read_sized(p)
#define Q8_DOT(sum, w, x)    dot_sized(sum, w, x)
#include "engine/cpu/infer_q8.inc"

/* Reads min(n, 8) numbers, followed by zeros. */
INLINE __m256 read_some(const float *x, int64_t n)
{
    float some[8] = { 0 };

    if (n >= 8)
        return _mm256_loadu_ps(x);
    if (n > 0)
        memcpy(some, x, (size_t)n * sizeof(*x));
    return _mm256_loadu_ps(some);
}

static void run_quantise(const struct spot_q8 *q, int64_t at, const float *x, int64_t n)
{
    const __m256 magic = _mm256_set1_ps(12582912.0F); /* 1.5 * 2^23: rounds to nearest even */
    const __m256 sign = _mm256_set1_ps(-0.0F);
    __m256 v[4], most = _mm256_setzero_ps();
    __m256i i[4];
    float size[8], max = 0;
    int32_t sum[8], total = 0;

    for (int k = 0; k < 4; k++) {
        v[k] = read_some(x + 8 * k, n - 8 * k);
        most = _mm256_max_ps(most, _mm256_andnot_ps(sign, v[k]));
    }
    _mm256_storeu_ps(size, most);
    for (int k = 0; k < 8; k++)
        max = size[k] > max ? size[k] : max;
    for (int k = 0; k < 4; k++) {
        const __m256 by = _mm256_set1_ps(max > 0x1p-100F ? 127 / max : 0);

        i[k] = _mm256_sub_epi32(_mm256_castps_si256(_mm256_add_ps(_mm256_mul_ps(v[k], by), magic)),
                                _mm256_set1_epi32(0x4B400000));
    }
    q->scale[at] = max > 0x1p-100F ? max / 127 : 0;
    /* `packs` works within each half of a vector, so groups of four are reordered at the end */
    _mm256_storeu_si256(
        (__m256i *)(void *)(q->x + at * SPOT_Q8_BLOCK),
        _mm256_permutevar8x32_epi32(
            _mm256_packs_epi16(_mm256_packs_epi32(i[0], i[1]), _mm256_packs_epi32(i[2], i[3])),
            _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7)));
    _mm256_storeu_si256((__m256i *)(void *)sum, _mm256_add_epi32(_mm256_add_epi32(i[0], i[1]),
                                                                 _mm256_add_epi32(i[2], i[3])));
    for (int k = 0; k < 8; k++)
        total += sum[k];
    q->minus[at] = -128 * total;
}

SPOT_TARGET_END

const struct spot_infer_kernel spot_infer_avx2 = { .name = "avx2",
                                                   .runs_here = runs_here,
                                                   BODY_MEMBERS,
                                                   BODY_BF16_MEMBERS,
                                                   .q8 = run_q8,
                                                   .quantise = run_quantise };

/* --- AVX-VNNI: products of four bytes, of weights as they are --- */

static bool vnni_runs_here(void)
{
    return runs_here() && spot_simd_has(SPOT_SIMD_AVXVNNI);
}

SPOT_TARGET("avx2,fma,avxvnni")

#undef Q8_RUN
#undef Q8_ZERO
#undef Q8_WEIGHT
#undef Q8_READ
#undef Q8_DOT
#define Q8_RUN               run_q8_vnni
#define Q8_ZERO(x, at, at_2) _mm256_set1_epi32((x)->minus[at])
#define Q8_WEIGHT            __m256i
#define Q8_READ(p)           read_32(p)
#define Q8_DOT(sum, w, x)    _mm256_dpbusd_avx_epi32(sum, w, x)
#include "engine/cpu/infer_q8.inc"

SPOT_TARGET_END

const struct spot_infer_kernel spot_infer_avxvnni = { .name = "avxvnni",
                                                      .runs_here = vnni_runs_here,
                                                      BODY_MEMBERS,
                                                      BODY_BF16_MEMBERS,
                                                      .q8 = run_q8_vnni,
                                                      .quantise = run_quantise };

#endif
