/* SPDX-License-Identifier: MIT */
#include "engine/cpu/infer_kernel.h"

#if defined(__x86_64__)

#include <immintrin.h>
#include <string.h>

#include "engine/cpu/target.h"

static bool runs_here(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vnni");
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
    const char *next; /* what is read ahead */
};

/* V vectors of 16 outputs, P lines read ahead. Numbers of weights are unsigned, 128 too large;
 * `minus` takes that back. */
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

/* Few tokens pass all outputs at once; with more, registers hold half of them. */
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

const struct spot_infer_kernel spot_infer_avx512 = { "avx512",  runs_here, run_fp32, run_bf16,
                                                     run_part,  run_widen, run_q8,   run_quantise,
                                                     run_score, run_mix };

#endif
