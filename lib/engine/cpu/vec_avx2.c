/* SPDX-License-Identifier: MIT */
#include "engine/cpu/kernel_cpu.h"

#ifdef SPOT_CPU_X86

#include <immintrin.h>
#include <string.h>

#include "engine/cpu/infer_kernel.h"
#include "engine/cpu/target.h"

SPOT_TARGET("avx2")

#define VEC spot_vec_avx2

#include "engine/cpu/vec_body.inc"

SPOT_TARGET_END

#endif
