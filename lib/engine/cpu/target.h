/* SPDX-License-Identifier: MIT */
/* target.h - SPOT_TARGET("avx2"), SPOT_TARGET_ARM("arch=..."): allow the rest of the file to use
 * these instructions, on x86 and on Arm.
 *
 * Use it after all other includes, at file scope. Products and sums are never contracted: GCC does
 * not contract under -std=c11, clang is told not to.
 */
#ifndef SPOT_ENGINE_CPU_TARGET_H
#define SPOT_ENGINE_CPU_TARGET_H

#ifdef __cplusplus
extern "C" {
#endif

#define SPOT_PRAGMA(text) _Pragma(#text)

#ifdef __clang__
#define SPOT_TARGET_SET(isa)          \
    SPOT_PRAGMA(STDC FP_CONTRACT OFF) \
    SPOT_PRAGMA(clang attribute push(__attribute__((target(isa))), apply_to = function))
#define SPOT_TARGET_END SPOT_PRAGMA(clang attribute pop)
#else
#define SPOT_TARGET_SET(isa) SPOT_PRAGMA(GCC target(isa))
#define SPOT_TARGET_END
#endif

/* Files that compile on all architectures use SPOT_TARGET, which is empty except on x86. */
#ifdef __x86_64__
#define SPOT_TARGET(isa) SPOT_TARGET_SET(isa)
#else
#define SPOT_TARGET(isa)     SPOT_TARGET_SET("arch=armv8-a")
#define SPOT_TARGET_ARM(isa) SPOT_TARGET_SET(isa)
#endif

#ifdef __cplusplus
}
#endif

#endif /* SPOT_ENGINE_CPU_TARGET_H */
