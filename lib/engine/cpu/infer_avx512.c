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
#define TILE          6
#define LOAD(p)       _mm512_loadu_ps(p)
#define STORE(p, x)   _mm512_storeu_ps(p, x)
#define SPLAT(x)      _mm512_set1_ps(x)
#define MADD(a, b, c) _mm512_fmadd_ps(a, b, c)
#define WIDEN(p)                           \
    _mm512_castsi512_ps(_mm512_slli_epi32( \
        _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)(p))), 16))
#define HAS_DOT

#include "engine/cpu/infer_body.inc"

/* Numbers of weights are unsigned, 128 too large; `minus` takes that back. */
INLINE void tile_q8(int T, float *c, int64_t c_row, const uint8_t *w, const int8_t *x,
                    const float *scale, const int32_t *minus, int64_t b_row, int64_t n_block)
{
    __m512 sum[3][4];

    for (int t = 0; t < T; t++)
        for (int v = 0; v < 4; v++)
            sum[t][v] = _mm512_setzero_ps();
    for (int64_t b = 0; b < n_block; b++, w += SPOT_Q8_BLOCK_BYTE) {
        __m512i dot[3][4];

        for (int t = 0; t < T; t++)
            for (int v = 0; v < 4; v++)
                dot[t][v] = _mm512_set1_epi32(minus[t * b_row + b]);
        for (int g = 0; g < SPOT_Q8_BLOCK / 4; g++) {
            const uint8_t *const row = w + SPOT_Q8_SCALE + g * 4 * SPOT_PANEL;
            __m512i a[4];

            for (int v = 0; v < 4; v++) {
                _mm_prefetch((const char *)row + 4096 + 64 * v, _MM_HINT_T0);
                a[v] = _mm512_loadu_si512(row + 64 * v);
            }
            for (int t = 0; t < T; t++) {
                int32_t four;

                memcpy(&four, x + (t * b_row + b) * SPOT_Q8_BLOCK + 4 * g, sizeof(four));
                for (int v = 0; v < 4; v++)
                    dot[t][v] = _mm512_dpbusd_epi32(dot[t][v], a[v], _mm512_set1_epi32(four));
            }
        }
        for (int v = 0; v < 4; v++) {
            const __m512 s = WIDEN(w + 32 * v);

            for (int t = 0; t < T; t++)
                sum[t][v] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot[t][v]),
                                            _mm512_mul_ps(s, _mm512_set1_ps(scale[t * b_row + b])),
                                            sum[t][v]);
        }
    }
    for (int t = 0; t < T; t++)
        for (int v = 0; v < 4; v++)
            _mm512_storeu_ps(c + t * c_row + 16 * v, sum[t][v]);
}

static void run_q8(float *c, int64_t c_row, const uint8_t *w, const struct spot_q8 *x,
                   int64_t b_row, int64_t n_token, int64_t n_block)
{
    const int8_t *a = x->x;
    const float *scale = x->scale;
    const int32_t *minus = x->minus;

    for (; n_token >= 3; n_token -= 3, c += 3 * c_row) {
        tile_q8(3, c, c_row, w, a, scale, minus, b_row, n_block);
        a += 3 * b_row * SPOT_Q8_BLOCK;
        scale += 3 * b_row;
        minus += 3 * b_row;
    }
    if (n_token == 2)
        tile_q8(2, c, c_row, w, a, scale, minus, b_row, n_block);
    else if (n_token == 1)
        tile_q8(1, c, c_row, w, a, scale, minus, b_row, n_block);
}

SPOT_TARGET_END

const struct spot_infer_kernel spot_infer_avx512 = { "avx512", runs_here, run_fp32, run_bf16,
                                                     run_q8,   run_score, run_mix };

#endif
