/* SPDX-License-Identifier: MIT */
#include "engine/cpu/kernel_cpu.h"

#if defined(__aarch64__)

#include <arm_neon.h>

#include "engine/cpu/target.h"

SPOT_TARGET("neon")

#define MICRO         spot_micro_fma_neon
#define LANES         4
#define ROWS          6
#define VECS          4
#define SPLAT(x)      vdupq_n_f32(x)
#define MADD(a, b, c) vfmaq_f32(c, a, b)

#include "engine/cpu/micro_body.inc"

SPOT_TARGET_END

#endif
