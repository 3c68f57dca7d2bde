/* SPDX-License-Identifier: MIT */
#include "engine/cpu/kernel_cpu.h"

#if defined(__aarch64__)

#include <arm_sve.h>

#include "engine/cpu/target.h"

SPOT_TARGET_ARM("arch=armv8.2-a+sve+i8mm")

#define MICRO         spot_micro_fma_sve256
#define LANES         8
#define ROWS          6
#define VECS          4
#define SPLAT(x)      svdup_f32(x)
#define MADD(a, b, c) svmla_x(svptrue_b32(), c, a, b)

#include "engine/cpu/micro_body.inc"

SPOT_TARGET_END

#endif
