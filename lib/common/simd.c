/* SPDX-License-Identifier: MIT */
#include "common/simd.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#endif

static bool is_left(enum spot_simd simd)
{
    static const char *const name[] = {
        [SPOT_SIMD_PORTABLE] = "portable",     [SPOT_SIMD_AVX2] = "avx2",
        [SPOT_SIMD_AVXVNNI] = "avxvnni",       [SPOT_SIMD_AVX512VNNI] = "avx512",
        [SPOT_SIMD_AVX512BF16] = "avx512bf16", [SPOT_SIMD_NEON] = "neon",
        [SPOT_SIMD_NEONDOT] = "neondot",       [SPOT_SIMD_NEONI8MM] = "neoni8mm",
        [SPOT_SIMD_SVE256] = "sve256",
    };
    const char *const most = getenv("SPOT_SIMD");

    for (size_t i = 0; most && i < sizeof(name) / sizeof(name[0]); i++)
        if (name[i] && !strcmp(most, name[i]))
            return (size_t)simd <= i;
    return true;
}

#if defined(__x86_64__)
static bool is_here(enum spot_simd simd)
{
    unsigned a, b, c, d;

    switch (simd) {
    case SPOT_SIMD_PORTABLE:
        return true;
    case SPOT_SIMD_AVX2:
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    case SPOT_SIMD_AVXVNNI: /* compilers have no name for it */
        return __builtin_cpu_supports("avx2") && __get_cpuid_count(7, 1, &a, &b, &c, &d) &&
               (a & bit_AVXVNNI);
    case SPOT_SIMD_AVX512:
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    case SPOT_SIMD_AVX512VNNI:
        return is_here(SPOT_SIMD_AVX512) && __builtin_cpu_supports("avx512vnni");
    case SPOT_SIMD_AVX512BF16:
        return is_here(SPOT_SIMD_AVX512VNNI) && __builtin_cpu_supports("avx512bf16");
    default:
        return false;
    }
}
#elif defined(__aarch64__)
static bool is_here(enum spot_simd simd)
{
    const unsigned long cap = getauxval(AT_HWCAP), more = getauxval(AT_HWCAP2);

    switch (simd) {
    case SPOT_SIMD_PORTABLE:
    case SPOT_SIMD_NEON:
        return true;
    case SPOT_SIMD_NEONDOT:
        return cap & HWCAP_ASIMDDP;
    case SPOT_SIMD_NEONI8MM:
        return (cap & HWCAP_ASIMDDP) && (more & HWCAP2_I8MM);
    case SPOT_SIMD_SVE256:
        return (cap & HWCAP_SVE) && (more & HWCAP2_SVEI8MM) &&
               (prctl(PR_SVE_GET_VL) & PR_SVE_VL_LEN_MASK) == 32;
    default:
        return false;
    }
}
#else
static bool is_here(enum spot_simd simd)
{
    return simd == SPOT_SIMD_PORTABLE;
}
#endif

bool spot_simd_has(enum spot_simd simd)
{
    return is_left(simd) && is_here(simd);
}

bool spot_simd_is_wide(void)
{
    static _Atomic signed char is_wide; /* 0: not asked yet */

    if (!is_wide)
        is_wide = spot_simd_has(SPOT_SIMD_AVX2) ? 1 : -1;
    return is_wide > 0;
}
