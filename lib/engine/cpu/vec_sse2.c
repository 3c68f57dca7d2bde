/* SPDX-License-Identifier: MIT */
/* The variant that every machine can run: SSE2, or the compiler's generic vectors elsewhere. */
#include "engine/cpu/kernel_cpu.h"

#ifdef SPOT_CPU_X86
#include <immintrin.h>
#else
#include <math.h>
#endif
#include <string.h>

#include "engine/cpu/infer_kernel.h"
#include "engine/cpu/target.h"

SPOT_TARGET("sse2")

#define VEC spot_vec_sse2

#include "engine/cpu/vec_body.inc"

SPOT_TARGET_END
