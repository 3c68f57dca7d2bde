/* SPDX-License-Identifier: MIT */
#include "engine/cpu/kernel_cpu.h"

#ifdef SPOT_CPU_X86

#include <immintrin.h>

#include "engine/cpu/target.h"

SPOT_TARGET("avx512f")

#define MICRO         spot_micro_fma_avx512
#define LANES         16
#define ROWS          14
#define VECS          2
#define SPLAT(x)      _mm512_set1_ps(x)
#define MADD(a, b, c) _mm512_fmadd_ps(a, b, c)

#include "engine/cpu/micro_body.inc"

SPOT_TARGET_END

#endif
