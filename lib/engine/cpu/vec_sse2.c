/* SPDX-License-Identifier: MIT */
#include "engine/cpu/kernel_cpu.h"

#include <immintrin.h>
#include <string.h>

#include "engine/cpu/target.h"

SPOT_TARGET("sse2")

#define VEC spot_vec_sse2

#include "engine/cpu/vec_body.inc"

SPOT_TARGET_END
