/* SPDX-License-Identifier: MIT */
#include "engine/cpu/kernel_cpu.h"

#include <string.h>

#include "common/simd.h"

#ifdef SPOT_CPU_X86
static bool has_avx2(void)
{
    return spot_simd_has(SPOT_SIMD_AVX2);
}

static bool has_avx512(void)
{
    return has_avx2() && spot_simd_has(SPOT_SIMD_AVX512);
}
#elif defined(__aarch64__)
static bool has_neon(void)
{
    return spot_simd_has(SPOT_SIMD_NEON);
}

static bool has_sve256(void)
{
    return spot_simd_has(SPOT_SIMD_SVE256);
}
#endif

static bool always(void)
{
    return true;
}

#define BASE(kind)              \
    {                           \
        kind, &spot_backend_cpu \
    }

/* The fastest kind first, and of each kind the fastest variant first. */
static const struct spot_cpu_kernel kernel[] = {
#ifdef SPOT_CPU_X86
    { BASE("fma"), "avx512", has_avx512, &spot_micro_fma_avx512, &spot_vec_avx2, false },
    { BASE("fma"), "avx2", has_avx2, &spot_micro_fma_avx2, &spot_vec_avx2, false },
    { BASE("fma-bf16"), "avx512", has_avx512, &spot_micro_fma_avx512, &spot_vec_avx2, true },
    { BASE("fma-bf16"), "avx2", has_avx2, &spot_micro_fma_avx2, &spot_vec_avx2, true },
    { BASE("portable"), "avx2", has_avx2, &spot_micro_portable_avx2, &spot_vec_avx2, false },
    { BASE("portable"), "sse2", always, &spot_micro_portable_sse2, &spot_vec_sse2, false },
#else
#ifdef __aarch64__
    { BASE("fma"), "sve256", has_sve256, &spot_micro_fma_sve256, &spot_vec_sse2, false },
    { BASE("fma"), "neon", has_neon, &spot_micro_fma_neon, &spot_vec_sse2, false },
    { BASE("fma-bf16"), "sve256", has_sve256, &spot_micro_fma_sve256, &spot_vec_sse2, true },
    { BASE("fma-bf16"), "neon", has_neon, &spot_micro_fma_neon, &spot_vec_sse2, true },
#endif
    { BASE("portable"), "plain", always, &spot_micro_portable_sse2, &spot_vec_sse2, false },
#endif
};
enum { N_KERNEL = sizeof(kernel) / sizeof(kernel[0]) };

#if defined(SPOT_CPU_X86) || defined(__aarch64__)
static const char *const kind[] = { "fma", "fma-bf16", "portable" };
#else
static const char *const kind[] = { "portable" };
#endif
enum { N_KIND = sizeof(kind) / sizeof(kind[0]) };

const struct spot_cpu_kernel *spot_cpu_kernel_variant(size_t i)
{
    return i < N_KERNEL ? &kernel[i] : NULL;
}

const struct spot_vec *spot_cpu_vec(void)
{
    size_t i = 0;

    while (!kernel[i].runs_here())
        i++;
    return kernel[i].vec;
}

const struct spot_kernel *spot_cpu_kernel_kind(size_t i, bool *runs_here)
{
    const struct spot_kernel *any = NULL;

    *runs_here = false;
    for (size_t j = 0; i < N_KIND && j < N_KERNEL && !*runs_here; j++)
        if (!strcmp(kernel[j].base.kind, kind[i])) {
            any = &kernel[j].base;
            *runs_here = kernel[j].runs_here();
        }
    return any;
}
