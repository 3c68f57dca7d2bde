/* SPDX-License-Identifier: MIT */
#include "engine/cpu/infer_kernel.h"

#include <string.h>

#define VEC           float
#define LANES         1
#define VECS          4
#define LOAD(p)       (*(p))
#define STORE(p, x)   (*(p) = (x))
#define SPLAT(x)      (x)
#define MADD(a, b, c) __builtin_fmaf(a, b, c)
#define WIDEN(p)      widen(*(p))

static float widen(uint16_t x)
{
    const uint32_t bits = (uint32_t)x << 16;
    float y;

    memcpy(&y, &bits, sizeof(y));
    return y;
}

#include "engine/cpu/infer_body.inc"

static bool runs_here(void)
{
    return true;
}

static const struct spot_infer_kernel portable = { .name = "portable",
                                                   .runs_here = runs_here,
                                                   BODY_MEMBERS,
                                                   BODY_BF16_MEMBERS,
                                                   .q8 = run_q8,
                                                   .quantise = run_quantise };

const struct spot_infer_kernel *spot_infer_kernel_find(const char *name)
{
    const struct spot_infer_kernel *const all[] = {
#if defined(__x86_64__)
        &spot_infer_avx512bf16,
        &spot_infer_avx512,
        &spot_infer_avxvnni,
        &spot_infer_avx2,
#elif defined(__aarch64__)
        &spot_infer_sve256,
        &spot_infer_neoni8mm,
        &spot_infer_neondot,
        &spot_infer_neon,
#endif
        &portable
    };

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if ((name ? !strcmp(name, all[i]->name)
                  : !all[i]->is_slow_here || !all[i]->is_slow_here()) &&
            all[i]->runs_here())
            return all[i];
    return NULL;
}
