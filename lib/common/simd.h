/* SPDX-License-Identifier: MIT */
/* simd.h - which vector instructions this processor has: the one place that asks it.
 *
 * SPOT_SIMD in the environment, one of the names below, takes away what comes after that name, so
 * that a test or a benchmark runs on a better processor as on a lesser one. It is read at each
 * call.
 */
#ifndef SPOT_COMMON_SIMD_H
#define SPOT_COMMON_SIMD_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* In the order in which SPOT_SIMD takes them away. One need not have all of those before it. */
enum spot_simd {
    SPOT_SIMD_PORTABLE, /* what each processor of this architecture has */
    /* x86-64 */
    SPOT_SIMD_AVX2,       /* avx2: and FMA */
    SPOT_SIMD_AVXVNNI,    /* avxvnni */
    SPOT_SIMD_AVX512,     /* avx512: F, BW, DQ and VL */
    SPOT_SIMD_AVX512VNNI, /* avx512, too */
    SPOT_SIMD_AVX512BF16, /* avx512bf16 */
    /* aarch64 */
    SPOT_SIMD_NEON,    /* neon */
    SPOT_SIMD_NEONDOT, /* neondot */
};

/* Whether this processor has these instructions, and SPOT_SIMD leaves them. */
bool spot_simd_has(enum spot_simd simd);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_COMMON_SIMD_H */
