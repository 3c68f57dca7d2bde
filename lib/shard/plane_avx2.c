/* SPDX-License-Identifier: MIT */
/* The loops of plane.h in AVX2, 32 elements at a time; tails use the portable loops. */
#include "shard/plane.h"

#ifdef SPOT_PLANE_X86

#include <immintrin.h>

#define AVX2 __attribute__((target("avx2")))

enum { STEP = 32 };

static inline AVX2 __m256i load(const uint8_t *p)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)p);
}

static inline AVX2 void store(uint8_t *p, __m256i x)
{
    _mm256_storeu_si256((__m256i *)(void *)p, x);
}

static inline AVX2 __m256i rotl16(__m256i x)
{
    return _mm256_or_si256(_mm256_slli_epi16(x, 1), _mm256_srli_epi16(x, 15));
}

static inline AVX2 __m256i rotr16(__m256i x)
{
    return _mm256_or_si256(_mm256_srli_epi16(x, 1), _mm256_slli_epi16(x, 15));
}

/* Converts 16-bit lanes below 256 of a, then of b, to bytes, in order. */
static inline AVX2 __m256i narrow(__m256i a, __m256i b)
{
    return _mm256_permute4x64_epi64(_mm256_packus_epi16(a, b), 0xd8);
}

/* Low and high bytes of 32 elements of 16 bits. */
static inline AVX2 void halves(const uint8_t *raw, bool rotate, __m256i *low, __m256i *high)
{
    const __m256i byte = _mm256_set1_epi16(0xff);
    __m256i a = load(raw), b = load(raw + STEP);

    if (rotate) {
        a = rotl16(a);
        b = rotl16(b);
    }
    *low = narrow(_mm256_and_si256(a, byte), _mm256_and_si256(b, byte));
    *high = narrow(_mm256_srli_epi16(a, 8), _mm256_srli_epi16(b, 8));
}

static inline AVX2 void unhalves(__m256i low, __m256i high, bool rotate, uint8_t *raw)
{
    const __m256i l = _mm256_permute4x64_epi64(low, 0xd8), h = _mm256_permute4x64_epi64(high, 0xd8);
    __m256i a = _mm256_unpacklo_epi8(l, h), b = _mm256_unpackhi_epi8(l, h);

    if (rotate) {
        a = rotr16(a);
        b = rotr16(b);
    }
    store(raw, a);
    store(raw + STEP, b);
}

static AVX2 void split2(const uint8_t *raw, size_t n, bool rotate, uint8_t *const plane[2])
{
    size_t i = 0;

    for (; i + STEP <= n; i += STEP) {
        __m256i low, high;

        halves(raw + 2 * i, rotate, &low, &high);
        store(plane[0] + i, low);
        store(plane[1] + i, high);
    }
    spot_plane_portable.split2(raw + 2 * i, n - i, rotate,
                               (uint8_t *const[2]){ plane[0] + i, plane[1] + i });
}

static AVX2 void join2(const uint8_t *const plane[2], size_t n, bool rotate, uint8_t *raw)
{
    size_t i = 0;

    for (; i + STEP <= n; i += STEP)
        unhalves(load(plane[0] + i), load(plane[1] + i), rotate, raw + 2 * i);
    spot_plane_portable.join2((const uint8_t *const[2]){ plane[0] + i, plane[1] + i }, n - i,
                              rotate, raw + 2 * i);
}

/* In each half register: groups the bytes of four elements by significance; its own inverse. */
static inline AVX2 __m256i transpose4x4(__m256i x)
{
    return _mm256_shuffle_epi8(x, _mm256_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11,
                                                   15, 0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7,
                                                   11, 15));
}

static inline AVX2 __m256i load4(const uint8_t *raw, bool rotate)
{
    __m256i x = load(raw);

    if (rotate)
        x = _mm256_or_si256(_mm256_slli_epi32(x, 1), _mm256_srli_epi32(x, 31));
    return transpose4x4(x);
}

static inline AVX2 void store4(uint8_t *raw, __m256i x, bool rotate)
{
    x = transpose4x4(x);
    if (rotate)
        x = _mm256_or_si256(_mm256_srli_epi32(x, 1), _mm256_slli_epi32(x, 31));
    store(raw, x);
}

static AVX2 void split4(const uint8_t *raw, size_t n, bool rotate, uint8_t *const plane[4])
{
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    size_t i = 0;

    for (; i + STEP <= n; i += STEP) {
        const __m256i a = load4(raw + 4 * i, rotate), b = load4(raw + 4 * i + 32, rotate),
                      c = load4(raw + 4 * i + 64, rotate), d = load4(raw + 4 * i + 96, rotate);
        const __m256i ab = _mm256_unpacklo_epi32(a, b), cd = _mm256_unpacklo_epi32(c, d),
                      ef = _mm256_unpackhi_epi32(a, b), gh = _mm256_unpackhi_epi32(c, d);

        store(plane[0] + i, _mm256_permutevar8x32_epi32(_mm256_unpacklo_epi64(ab, cd), order));
        store(plane[1] + i, _mm256_permutevar8x32_epi32(_mm256_unpackhi_epi64(ab, cd), order));
        store(plane[2] + i, _mm256_permutevar8x32_epi32(_mm256_unpacklo_epi64(ef, gh), order));
        store(plane[3] + i, _mm256_permutevar8x32_epi32(_mm256_unpackhi_epi64(ef, gh), order));
    }
    spot_plane_portable.split4(
        raw + 4 * i, n - i, rotate,
        (uint8_t *const[4]){ plane[0] + i, plane[1] + i, plane[2] + i, plane[3] + i });
}

static AVX2 void join4(const uint8_t *const plane[4], size_t n, bool rotate, uint8_t *raw)
{
    const __m256i order = _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7);
    size_t i = 0;

    for (; i + STEP <= n; i += STEP) {
        const __m256i p = _mm256_permutevar8x32_epi32(load(plane[0] + i), order),
                      q = _mm256_permutevar8x32_epi32(load(plane[1] + i), order),
                      r = _mm256_permutevar8x32_epi32(load(plane[2] + i), order),
                      s = _mm256_permutevar8x32_epi32(load(plane[3] + i), order);
        const __m256i pq = _mm256_unpacklo_epi32(p, q), rs = _mm256_unpacklo_epi32(r, s),
                      tu = _mm256_unpackhi_epi32(p, q), vw = _mm256_unpackhi_epi32(r, s);

        store4(raw + 4 * i, _mm256_unpacklo_epi64(pq, rs), rotate);
        store4(raw + 4 * i + 32, _mm256_unpackhi_epi64(pq, rs), rotate);
        store4(raw + 4 * i + 64, _mm256_unpacklo_epi64(tu, vw), rotate);
        store4(raw + 4 * i + 96, _mm256_unpackhi_epi64(tu, vw), rotate);
    }
    spot_plane_portable.join4(
        (const uint8_t *const[4]){ plane[0] + i, plane[1] + i, plane[2] + i, plane[3] + i }, n - i,
        rotate, raw + 4 * i);
}

const struct spot_plane_ops spot_plane_avx2 = { "avx2", split2, join2, split4, join4 };

#endif
