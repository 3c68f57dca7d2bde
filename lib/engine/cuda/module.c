/* SPDX-License-Identifier: MIT */
/* The one door between the program and spot_cuda.so. */
#include <stdio.h>

#include "common/version.h"
#include "engine/cuda/stage_cuda.h"

/* What fixes the bits of a kind: precision, generation of the device, library of products. */
static char name[2][64];

static const struct spot_cuda_kernel kinds[] = {
    { { name[0], &spot_backend_cuda }, SPOT_BF16 },
    { { name[1], &spot_backend_cuda }, SPOT_F32 },
};

const struct spot_kernel *spot_cuda_kernel_kind(size_t i, bool *runs_here)
{
    *runs_here = true;
    return i < sizeof(kinds) / sizeof(kinds[0]) ? &kinds[i].base : NULL;
}

static int probe(struct spot_err *err)
{
    static const char *const precision[] = { "bf16", "fp32" };
    int sm;

    if (spot_device_probe(&sm, err))
        return -1;
    for (int i = 0; i < 2; i++)
        snprintf(name[i], sizeof(name[i]), "cuda-%s-sm%d-lt%zu", precision[i], sm,
                 spot_device_blas_version());
    return 0;
}

__attribute__((visibility("default"))) const struct spot_cuda_module *spot_cuda_module(void)
{
    static struct spot_cuda_module module = { .backend = &spot_backend_cuda,
                                              .probe = probe,
                                              .nccl = &spot_nccl };

    module.version = spot_version();
    return &module;
}
