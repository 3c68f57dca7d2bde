/* SPDX-License-Identifier: MIT */
#include "engine/cpu/kernel_cpu.h"

#ifdef SPOT_CPU_X86

#include <immintrin.h>

#include "engine/cpu/target.h"

SPOT_TARGET("avx2")

#define MICRO         spot_micro_portable_avx2
#define LANES         8
#define ROWS          6
#define VECS          2
#define SPLAT(x)      _mm256_set1_ps(x)
#define MADD(a, b, c) ((c) + (a) * (b))

#include "engine/cpu/micro_body.inc"

SPOT_TARGET_END

#endif
