/* SPDX-License-Identifier: MIT */
/* The one door between the program and spot_cuda.so. */
#include <stdio.h>

#include "common/version.h"
#include "engine/cuda/stage_cuda.h"

/* What fixes the bits of a kind: precision, order of sums over shards, generation of the device,
 * library of products. The first that goes by a name is meant by it. */
static char name[4][64];

static const struct spot_cuda_kernel kinds[] = {
    { { name[0], &spot_backend_cuda }, SPOT_BF16, false },
    { { name[1], &spot_backend_cuda }, SPOT_F32, false },
    { { name[2], &spot_backend_cuda }, SPOT_BF16, true },
    { { name[3], &spot_backend_cuda }, SPOT_F32, true },
};

const struct spot_kernel *spot_cuda_kernel_kind(size_t i, bool *runs_here)
{
    *runs_here = true;
    return i < sizeof(kinds) / sizeof(kinds[0]) ? &kinds[i].base : NULL;
}

static int probe(struct spot_err *err)
{
    static const char *const kind[] = { "bf16", "fp32", "bf16-tp", "fp32-tp" };
    int sm;

    if (spot_device_probe(&sm, err))
        return -1;
    for (int i = 0; i < 4; i++)
        snprintf(name[i], sizeof(name[i]), "cuda-%s-sm%d-lt%zu", kind[i], sm,
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
