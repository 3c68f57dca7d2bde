/* SPDX-License-Identifier: MIT */
#include "engine/cpu/infer_kernel.h"

#if defined(__x86_64__)

#include <immintrin.h>
#include <string.h>

#include "common/simd.h"
#include "engine/cpu/target.h"

static bool runs_here(void)
{
    return spot_simd_has(SPOT_SIMD_AVX512VNNI);
}

static bool adds_upper_first(void);

static bool pairs_run_here(void)
{
    return spot_simd_has(SPOT_SIMD_AVX512BF16) && adds_upper_first();
}

/* The bf16 instructions of Intel's processors (Sapphire Rapids) take four times as long as fp32
 * multiply-adds, which process half as many numbers each. */
static bool pairs_are_slow_here(void)
{
    return __builtin_cpu_is("intel");
}

SPOT_TARGET("avx512f,avx512bw,avx512vnni,avx2,fma")

#define VEC           __m512
#define LANES         16
#define VECS          4
#define LOAD(p)       _mm512_loadu_ps(p)
#define STORE(p, x)   _mm512_storeu_ps(p, x)
#define SPLAT(x)      _mm512_set1_ps(x)
#define MADD(a, b, c) _mm512_fmadd_ps(a, b, c)
#define WIDEN(p)                           \
    _mm512_castsi512_ps(_mm512_slli_epi32( \
        _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)(p))), 16))
#define HAS_DOT

#include "engine/cpu/infer_body.inc"

struct q8_panel {
    const uint8_t *w; /* its blocks */
    int at;           /* the first output of the tile */
    const char *next; /* address to prefetch from */
};

/* V vectors of 16 outputs, P lines read ahead. Weights are stored as unsigned numbers plus 128;
 * `minus` corrects for that. */
INLINE void tile_q8(int T, int V, int P, float *c, int64_t c_row, struct q8_panel panel,
                    const struct spot_q8 *x, int64_t b_row, int64_t n_block, bool is_more)
{
    const uint8_t *w = panel.w;
    const char *next = panel.next;
    const int at = panel.at;
    __m512 sum[SPOT_TILE][4];

    for (int t = 0; t < T; t++)
        for (int v = 0; v < V; v++)
            sum[t][v] =
                is_more ? _mm512_loadu_ps(c + t * c_row + at + 16 * v) : _mm512_setzero_ps();
    for (int64_t b = 0; b < n_block; b++, w += SPOT_Q8_BLOCK_BYTE) {
        __m512i dot[SPOT_TILE][4];

        for (int t = 0; t < T; t++)
            for (int v = 0; v < V; v++)
                dot[t][v] = _mm512_set1_epi32(x->minus[t * b_row + b]);
        for (int p = 0; p < (P + 1) / 2; p++, next += 64)
            __builtin_prefetch(next, 0, 2);
        for (int g = 0; g < SPOT_Q8_BLOCK / 4; g++) {
            const uint8_t *const row = w + SPOT_Q8_SCALE + (g * SPOT_PANEL + at) * 4;
            __m512i a[4];

            for (int p = 0; p < P; p++, next += 64)
                __builtin_prefetch(next, 0, 2);
            for (int v = 0; v < V; v++)
                a[v] = _mm512_loadu_si512(row + 64 * v);
            for (int t = 0; t < T; t++) {
                int32_t four;

                memcpy(&four, x->x + (t * b_row + b) * SPOT_Q8_BLOCK + 4 * g, sizeof(four));
                for (int v = 0; v < V; v++)
                    dot[t][v] = _mm512_dpbusd_epi32(dot[t][v], a[v], _mm512_set1_epi32(four));
            }
        }
        for (int v = 0; v < V; v++) {
            const __m512 s = WIDEN(w + 2 * at + 32 * v);

            for (int t = 0; t < T; t++)
                sum[t][v] = _mm512_fmadd_ps(
                    _mm512_cvtepi32_ps(dot[t][v]),
                    _mm512_mul_ps(s, _mm512_set1_ps(x->scale[t * b_row + b])), sum[t][v]);
        }
    }
    for (int t = 0; t < T; t++)
        for (int v = 0; v < V; v++)
            _mm512_storeu_ps(c + t * c_row + at + 16 * v, sum[t][v]);
}

/* With few tokens all outputs are in registers at once; with more, half of them. */
INLINE void panel_q8(int T, float *c, int64_t c_row, const uint8_t *w, const struct spot_q8 *x,
                     int64_t b_row, int64_t n_block, bool is_more, const char *next, int n_ahead)
{
    const char *const rest = next + n_block * 64 * (n_ahead > 1 ? 17 : 9);

    if (T <= 3) {
        tile_q8(T, 4, 4, c, c_row, (struct q8_panel){ w, 0, next }, x, b_row, n_block, is_more);
    } else if (n_ahead > 1) {
        tile_q8(T, 2, 2, c, c_row, (struct q8_panel){ w, 0, next }, x, b_row, n_block, is_more);
        tile_q8(T, 2, 2, c, c_row, (struct q8_panel){ w, 32, rest }, x, b_row, n_block, is_more);
    } else {
        tile_q8(T, 2, 1, c, c_row, (struct q8_panel){ w, 0, next }, x, b_row, n_block, is_more);
        tile_q8(T, 2, 1, c, c_row, (struct q8_panel){ w, 32, rest }, x, b_row, n_block, is_more);
    }
}

#define PANEL_Q8(T) panel_q8(T, c, c_row, w, x, b_row, n_block, is_more, next, n_ahead)
static void run_q8(float *c, int64_t c_row, const uint8_t *w, const struct spot_q8 *x,
                   int64_t b_row, int n_token, int64_t n_block, bool is_more, const void *next,
                   int n_ahead)
{
    EACH_TILE(n_token, PANEL_Q8)
}

static void run_quantise(const struct spot_q8 *q, int64_t at, const float *x, int64_t n)
{
    const __m512 magic = _mm512_set1_ps(12582912.0F); /* 1.5 * 2^23: rounds to nearest even */
    const __mmask16 low = (__mmask16)(n >= 16 ? 0xFFFF : (1 << n) - 1);
    const __mmask16 high = (__mmask16)(n >= 32 ? 0xFFFF : n <= 16 ? 0 : (1 << (n - 16)) - 1);
    const __m512 a = _mm512_maskz_loadu_ps(low, x), b = _mm512_maskz_loadu_ps(high, x + 16);
    const float max = _mm512_reduce_max_ps(_mm512_max_ps(_mm512_abs_ps(a), _mm512_abs_ps(b)));
    const __m512 by = _mm512_set1_ps(max > 0x1p-100F ? 127 / max : 0);
    const __m512i zero = _mm512_set1_epi32(0x4B400000);
    const __m512i i =
        _mm512_sub_epi32(_mm512_castps_si512(_mm512_add_ps(_mm512_mul_ps(a, by), magic)), zero);
    const __m512i j =
        _mm512_sub_epi32(_mm512_castps_si512(_mm512_add_ps(_mm512_mul_ps(b, by), magic)), zero);
    __m128i *const to = (__m128i *)(void *)(q->x + at * SPOT_Q8_BLOCK);

    q->scale[at] = max > 0x1p-100F ? max / 127 : 0;
    _mm_storeu_si128(to, _mm512_cvtepi32_epi8(i));
    _mm_storeu_si128(to + 1, _mm512_cvtepi32_epi8(j));
    q->minus[at] = -128 * _mm512_reduce_add_epi32(_mm512_add_epi32(i, j));
}

SPOT_TARGET_END

const struct spot_infer_kernel spot_infer_avx512 = { .name = "avx512",
                                                     .runs_here = runs_here,
                                                     BODY_MEMBERS,
                                                     BODY_BF16_MEMBERS,
                                                     .q8 = run_q8,
                                                     .quantise = run_quantise };

/* --- bf16: pairs of inputs --- */

SPOT_TARGET("avx512f,avx512bw,avx512vnni,avx512bf16,avx2,fma")

/* sum + the product of the upper halves, rounded, + that of the lower ones, rounded. */
INLINE __m512 madd_pair(__m512 sum, __m512i a, __m512i b)
{
    return _mm512_dpbf16_ps(sum, (__m512bh)a, (__m512bh)b);
}

/* True if this processor adds the upper half first; one that does not would give other bits. */
static bool adds_upper_first(void)
{
    const __m512i upper = _mm512_set1_epi32((int)0xffff0000);
    __m512i seed = _mm512_setr_epi32(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16);
    __m512 sum = _mm512_setzero_ps(), want = sum;

    for (int i = 0; i < 64; i++) { /* numbers of 2^-7 to 2 and both signs */
        __m512i pair[2];

        for (int j = 0; j < 2; j++) {
            seed = _mm512_add_epi32(_mm512_mullo_epi32(seed, _mm512_set1_epi32(1664525)),
                                    _mm512_set1_epi32(1013904223));
            pair[j] = _mm512_xor_epi32(seed, _mm512_srli_epi32(seed, 16));
            pair[j] = _mm512_and_epi32(pair[j], _mm512_set1_epi32((int)0x83ff83ff));
            pair[j] = _mm512_or_epi32(pair[j], _mm512_set1_epi32(0x3c003c00));
        }
        sum = madd_pair(sum, pair[0], pair[1]);
        want = _mm512_fmadd_ps(_mm512_castsi512_ps(_mm512_and_epi32(pair[0], upper)),
                               _mm512_castsi512_ps(_mm512_and_epi32(pair[1], upper)), want);
        want = _mm512_fmadd_ps(_mm512_castsi512_ps(_mm512_slli_epi32(pair[0], 16)),
                               _mm512_castsi512_ps(_mm512_slli_epi32(pair[1], 16)), want);
    }
    return _mm512_cmpneq_epi32_mask(_mm512_castps_si512(sum), _mm512_castps_si512(want)) == 0;
}

/* Two rows of a panel as pairs, the first in the upper halves. */
INLINE void pair_rows(__m512i to[4], const uint16_t *first, const uint16_t *second)
{
    const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const __m512i low = _mm512_add_epi32(_mm512_mullo_epi32(lane, _mm512_set1_epi32(0x10001)),
                                         _mm512_set1_epi32(0x200000));
    const __m512i high = _mm512_add_epi32(low, _mm512_set1_epi32(0x100010));

    for (int i = 0; i < 2; i++) {
        const __m512i a = _mm512_loadu_si512(first + 32 * i);
        const __m512i b = _mm512_loadu_si512(second + 32 * i);

        to[2 * i] = _mm512_permutex2var_epi16(b, low, a);
        to[2 * i + 1] = _mm512_permutex2var_epi16(b, high, a);
    }
}

static const uint16_t no_row[SPOT_PANEL]; /* the missing second row of the last pair, if k is odd */

INLINE __m512i splat_pair(const float *x)
{
    int32_t pair;

    memcpy(&pair, x, sizeof(pair));
    return _mm512_set1_epi32(pair);
}

INLINE void pairs_tile(int T, float *c, int64_t c_row, const uint16_t *w, const float *x,
                       int64_t x_row, int64_t n_k)
{
    __m512 sum[SPOT_TILE][4];

    for (int t = 0; t < T; t++)
        for (int v = 0; v < 4; v++)
            sum[t][v] = _mm512_setzero_ps();
    for (int64_t k = 0; k < n_k; k += 2) {
        const uint16_t *const row = w + k * SPOT_PANEL;
        __m512i a[4];

        for (int line = 0; line < 4; line++)
            __builtin_prefetch((const char *)row + 4096 + 64 * line);
        pair_rows(a, row, k + 1 < n_k ? row + SPOT_PANEL : no_row);
        for (int t = 0; t < T; t++)
            for (int v = 0; v < 4; v++)
                sum[t][v] = madd_pair(sum[t][v], a[v], splat_pair(x + t * x_row + k / 2));
    }
    for (int t = 0; t < T; t++)
        for (int v = 0; v < 4; v++)
            _mm512_storeu_ps(c + t * c_row + 16 * v, sum[t][v]);
}

#define PAIRS_ALL(T) pairs_tile(T, c, c_row, w, x, x_row, k)
static void run_pairs(float *c, int64_t c_row, const uint16_t *w, const float *x, int64_t x_row,
                      int n_token, int64_t k){ EACH_TILE(n_token, PAIRS_ALL) }

/* P lines are prefetched per input. */
INLINE void pairs_part_tile(int T, int P, float *c, int64_t c_row, const float *w, const float *x,
                            int64_t n_pair, bool is_more, const char *next)
{
    __m512 sum[SPOT_TILE][4];

    for (int t = 0; t < T; t++)
        for (int v = 0; v < 4; v++)
            sum[t][v] = is_more ? _mm512_loadu_ps(c + t * c_row + 16 * v) : _mm512_setzero_ps();
    for (int64_t k = 0; k < n_pair; k++) {
        __m512i a[4];

        for (int p = 0; p < 2 * P; p++)
            __builtin_prefetch(next + (2 * k * P + p) * 64, 0, 2);
        for (int v = 0; v < 4; v++) {
            __builtin_prefetch(w + (k + 8) * SPOT_PANEL + 16 * v); /* from L2 */
            a[v] = _mm512_loadu_si512(w + k * SPOT_PANEL + 16 * v);
        }
        __builtin_prefetch(x + (k + 64) * T); /* also of the next part */
        for (int t = 0; t < T; t++)
            for (int v = 0; v < 4; v++)
                sum[t][v] = madd_pair(sum[t][v], a[v], splat_pair(x + k * T + t));
    }
    for (int t = 0; t < T; t++)
        for (int v = 0; v < 4; v++)
            _mm512_storeu_ps(c + t * c_row + 16 * v, sum[t][v]);
}

#define PAIRS_1(T) pairs_part_tile(T, 1, c, c_row, w, x, (k + 1) / 2, is_more, next)
#define PAIRS_2(T) pairs_part_tile(T, 2, c, c_row, w, x, (k + 1) / 2, is_more, next)
static void run_pairs_part(float *c, int64_t c_row, const float *w, const float *x, int n_token,
                           int64_t k, bool is_more, const void *next, int n_ahead)
{
    if (n_ahead > 1) {
        EACH_TILE(n_token, PAIRS_2)
    } else {
        EACH_TILE(n_token, PAIRS_1)
    }
}

static void run_pairs_lay(float *to, const uint16_t *w, int64_t k)
{
    for (int64_t i = 0; i < k; i += 2, w += 2 * SPOT_PANEL, to += SPOT_PANEL) {
        __m512i a[4];

        pair_rows(a, w, i + 1 < k ? w + SPOT_PANEL : no_row);
        for (int v = 0; v < 4; v++)
            _mm512_storeu_si512(to + 16 * v, a[v]);
    }
}

static void run_pairs_round(float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i += 16) {
        const int64_t n_some = n - i < 16 ? n - i : 16;
        const __mmask16 some = (__mmask16)((1U << n_some) - 1);
        const __m512i two = (__m512i)rounded((bits_vec)_mm512_maskz_loadu_epi32(some, x + i));
        const __m512i pair = _mm512_or_epi64(two, _mm512_srli_epi64(two, 48));

        _mm512_mask_storeu_epi32(x + i / 2, (__mmask16)((1U << (n_some + 1) / 2) - 1),
                                 _mm512_castsi256_si512(_mm512_cvtepi64_epi32(pair)));
    }
}

SPOT_TARGET_END

const struct spot_infer_kernel spot_infer_avx512bf16 = { .name = "avx512bf16",
                                                         .runs_here = pairs_run_here,
                                                         .is_slow_here = pairs_are_slow_here,
                                                         BODY_MEMBERS,
                                                         .bf16 = run_pairs,
                                                         .bf16_part = run_pairs_part,
                                                         .round = run_pairs_round,
                                                         .is_paired = true,
                                                         .lay = run_pairs_lay,
                                                         .q8 = run_q8,
                                                         .quantise = run_quantise };

#endif
