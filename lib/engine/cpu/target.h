/* SPDX-License-Identifier: MIT */
/* target.h - SPOT_TARGET(avx2): allows the rest of the file to use these instructions.
 *
 * Use it after all other includes, at file scope. Products and sums are never contracted: GCC does
 * not contract under -std=c11, clang is told not to.
 */
#ifndef SPOT_ENGINE_CPU_TARGET_H
#define SPOT_ENGINE_CPU_TARGET_H

#define SPOT_PRAGMA(text) _Pragma(#text)

#if !defined(__x86_64__) /* x86 code in files for all architectures is skipped */
#ifdef __clang__
#define SPOT_TARGET(isa) SPOT_PRAGMA(STDC FP_CONTRACT OFF)
#else
#define SPOT_TARGET(isa)
#endif
#define SPOT_TARGET_END
#elif defined(__clang__)
#define SPOT_TARGET(isa)              \
    SPOT_PRAGMA(STDC FP_CONTRACT OFF) \
    SPOT_PRAGMA(clang attribute push(__attribute__((target(isa))), apply_to = function))
#define SPOT_TARGET_END SPOT_PRAGMA(clang attribute pop)
#else
#define SPOT_TARGET(isa) SPOT_PRAGMA(GCC target(isa))
#define SPOT_TARGET_END
#endif

#endif /* SPOT_ENGINE_CPU_TARGET_H */
