/* SPDX-License-Identifier: MIT */
/* The variant that every machine can run: SSE2, or the compiler's generic vectors elsewhere. */
#include "engine/cpu/kernel_cpu.h"

#include "engine/cpu/target.h"

SPOT_TARGET("sse2")

#define MICRO         spot_micro_portable_sse2
#define LANES         4
#define ROWS          4
#define VECS          2
#define SPLAT(x)      ((vec){ (x), (x), (x), (x) })
#define MADD(a, b, c) ((c) + (a) * (b))

#include "engine/cpu/micro_body.inc"

SPOT_TARGET_END
