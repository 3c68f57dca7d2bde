/* SPDX-License-Identifier: MIT */
/* The loops of plane.h in AVX-512 F and BW. Elements of four bytes are AVX2's: four byte planes
 * are bound by stores, not by width. */
#include "shard/plane.h"

#ifdef SPOT_PLANE_X86

#include <immintrin.h>

#define AVX512 __attribute__((target("avx512f,avx512bw,avx512vl")))

enum { STEP = 32 }; /* elements of two bytes in a register */

static inline AVX512 __m512i load(const uint8_t *raw, bool rotate)
{
    const __m512i x = _mm512_loadu_si512(raw);

    return rotate ? _mm512_or_si512(_mm512_slli_epi16(x, 1), _mm512_srli_epi16(x, 15)) : x;
}

static inline AVX512 void store(uint8_t *raw, __m512i x, bool rotate)
{
    if (rotate)
        x = _mm512_or_si512(_mm512_srli_epi16(x, 1), _mm512_slli_epi16(x, 15));
    _mm512_storeu_si512(raw, x);
}

static inline AVX512 void narrow(uint8_t *to, __m512i x)
{
    _mm256_storeu_si256((__m256i *)(void *)to, _mm512_cvtepi16_epi8(x));
}

static inline AVX512 __m512i widen(const uint8_t *from)
{
    return _mm512_cvtepu8_epi16(_mm256_loadu_si256((const __m256i *)(const void *)from));
}

static AVX512 void split2(const uint8_t *raw, size_t n, bool rotate, uint8_t *const plane[2])
{
    size_t i = 0;

    for (; i + STEP <= n; i += STEP) {
        const __m512i x = load(raw + 2 * i, rotate);

        narrow(plane[0] + i, x);
        narrow(plane[1] + i, _mm512_srli_epi16(x, 8));
    }
    spot_plane_portable.split2(raw + 2 * i, n - i, rotate,
                               (uint8_t *const[2]){ plane[0] + i, plane[1] + i });
}

static AVX512 void join2(const uint8_t *const plane[2], size_t n, bool rotate, uint8_t *raw)
{
    size_t i = 0;

    for (; i + STEP <= n; i += STEP)
        store(raw + 2 * i,
              _mm512_or_si512(widen(plane[0] + i), _mm512_slli_epi16(widen(plane[1] + i), 8)),
              rotate);
    spot_plane_portable.join2((const uint8_t *const[2]){ plane[0] + i, plane[1] + i }, n - i,
                              rotate, raw + 2 * i);
}

static void split4(const uint8_t *raw, size_t n, bool rotate, uint8_t *const plane[4])
{
    spot_plane_avx2.split4(raw, n, rotate, plane);
}

static void join4(const uint8_t *const plane[4], size_t n, bool rotate, uint8_t *raw)
{
    spot_plane_avx2.join4(plane, n, rotate, raw);
}

static AVX512 size_t nibble(const uint8_t *raw, size_t n, uint8_t base, uint8_t *low, uint8_t *code,
                            uint8_t *escape)
{
    const __m512i top = _mm512_set1_epi16(base), last = _mm512_set1_epi16(SPOT_NIBBLE_ESCAPE),
                  byte = _mm512_set1_epi16(0xff);
    size_t i = 0, n_escape = 0;

    for (; i + STEP <= n; i += STEP) {
        const __m512i x = load(raw + 2 * i, true);
        const __m512i distance =
            _mm512_and_si512(_mm512_sub_epi16(top, _mm512_srli_epi16(x, 8)), byte);
        const __m512i c = _mm512_min_epu16(distance, last);
        unsigned mask = (unsigned)_mm512_cmpeq_epi16_mask(c, last);

        narrow(low + i, x);
        _mm_storeu_si128((__m128i *)(void *)(code + i / 2),
                         _mm512_cvtepi32_epi8(_mm512_or_si512(c, _mm512_srli_epi32(c, 12))));
        for (; mask; mask &= mask - 1) {
            const uint8_t *e = raw + 2 * (i + (unsigned)__builtin_ctz(mask));

            escape[n_escape++] = (uint8_t)(e[1] << 1 | e[0] >> 7);
        }
    }
    return n_escape + spot_plane_portable.nibble(raw + 2 * i, n - i, base, low + i, code + i / 2,
                                                 escape + n_escape);
}

static AVX512 size_t unnibble(const uint8_t *low, const uint8_t *code, const uint8_t *escape,
                              size_t n_escape, size_t n, uint8_t base, uint8_t *raw)
{
    const __m512i top = _mm512_set1_epi16(base), last = _mm512_set1_epi16(SPOT_NIBBLE_ESCAPE);
    size_t i = 0, used = 0;

    for (; i + STEP <= n; i += STEP) {
        const __m512i pair =
            _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)(code + i / 2)));
        const __m512i c =
            _mm512_and_si512(_mm512_or_si512(pair, _mm512_slli_epi32(pair, 12)), last);
        const __m512i exponent = _mm512_slli_epi16(_mm512_sub_epi16(top, c), 8);
        unsigned mask = (unsigned)_mm512_cmpeq_epi16_mask(c, last);

        store(raw + 2 * i, _mm512_or_si512(widen(low + i), exponent), true);
        if ((size_t)__builtin_popcount(mask) > n_escape - used)
            return n_escape + 1;
        for (; mask; mask &= mask - 1) {
            const size_t at = i + (unsigned)__builtin_ctz(mask);
            const uint8_t e = escape[used++];

            raw[2 * at] = (uint8_t)(low[at] >> 1 | e << 7);
            raw[2 * at + 1] = (uint8_t)(e >> 1 | low[at] << 7);
        }
    }
    return used + spot_plane_portable.unnibble(low + i, code + i / 2, escape + used,
                                               n_escape - used, n - i, base, raw + 2 * i);
}

const struct spot_plane_ops spot_plane_avx512 = { "avx512", split2, join2,   split4,
                                                  join4,    nibble, unnibble };

#endif
