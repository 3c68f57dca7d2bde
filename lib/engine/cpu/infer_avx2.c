/* SPDX-License-Identifier: MIT */
#include "engine/cpu/infer_kernel.h"

#if defined(__x86_64__)

#include <immintrin.h>
#include <string.h>

#include "engine/cpu/target.h"

static bool runs_here(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
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

#include "engine/cpu/infer_body.inc"

SPOT_TARGET_END

const struct spot_infer_kernel spot_infer_avx2 = { .name = "avx2",
                                                   .runs_here = runs_here,
                                                   .fp32 = run_fp32,
                                                   .part = run_part,
                                                   .bf16 = run_bf16,
                                                   .bf16_part = run_part,
                                                   .round = run_round,
                                                   .lay = run_lay,
                                                   .q8 = run_q8,
                                                   .quantise = run_quantise,
                                                   .score = run_score,
                                                   .mix = run_mix };

#endif
