/* SPDX-License-Identifier: MIT */
/* simd.h - the vector instructions of this processor. The environment variable SPOT_SIMD, one of
 * the names below, disables all sets after that name, so that tests and benchmarks can run as on a
 * lesser processor. It is read at each call.
 */
#ifndef SPOT_COMMON_SIMD_H
#define SPOT_COMMON_SIMD_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* In the order in which SPOT_SIMD disables them. A set does not imply all sets before it. */
enum spot_simd {
    SPOT_SIMD_PORTABLE, /* available on every processor of this architecture */
    /* x86-64 */
    SPOT_SIMD_AVX2,       /* avx2: AVX2 and FMA */
    SPOT_SIMD_AVXVNNI,    /* avxvnni */
    SPOT_SIMD_AVX512,     /* avx512: F, BW, DQ and VL */
    SPOT_SIMD_AVX512VNNI, /* avx512, too */
    SPOT_SIMD_AVX512BF16, /* avx512bf16 */
    /* aarch64 */
    SPOT_SIMD_NEON,     /* neon */
    SPOT_SIMD_NEONDOT,  /* neondot: SDOT */
    SPOT_SIMD_NEONI8MM, /* neoni8mm: I8MM */
    SPOT_SIMD_SVE256,   /* sve256: SVE with I8MM in vectors of 256 bits, no others */
};

/* True if this processor has these instructions and SPOT_SIMD does not disable them. */
bool spot_simd_has(enum spot_simd simd);

/* True if spot_simd_has(SPOT_SIMD_AVX2), which is determined once per process. */
bool spot_simd_is_wide(void);

#ifdef __cplusplus
}
#endif

/* SPOT_SIMD_TWICE(f, (int n, double *x), (n, x)) defines the function f, without a result, from
 * f_inline in two versions, one for the baseline processor and one for AVX2. f_inline and the
 * functions that it calls are SPOT_SIMD_INLINE. FMA is not used and no sum is reordered, so both
 * versions give the same bits. */
#define SPOT_SIMD_INLINE static inline __attribute__((always_inline))

/* Four numbers, at any address of a double. */
typedef double spot_four __attribute__((vector_size(32), aligned(8)));

#ifdef __x86_64__
#define SPOT_SIMD_TWICE(name, params, args)                        \
    __attribute__((target("avx2"))) static void name##_wide params \
    {                                                              \
        name##_inline args;                                        \
    }                                                              \
    static void name params                                        \
    {                                                              \
        if (spot_simd_is_wide())                                   \
            name##_wide args;                                      \
        else                                                       \
            name##_inline args;                                    \
    }
#else
#define SPOT_SIMD_TWICE(name, params, args) \
    static void name params                 \
    {                                       \
        name##_inline args;                 \
    }
#endif

#endif /* SPOT_COMMON_SIMD_H */
