/* SPDX-License-Identifier: MIT */
/* The table of functions that spot_cuda.so exports. */
#include <stdio.h>

#include "common/version.h"
#include "engine/cuda/stage_cuda.h"

/* The names of the kinds. They contain everything that determines the bits: precision, order of
 * sums over shards, generation of the device and its number of multiprocessors, version of
 * cuBLASLt, compiler of the kernels, and the driver if it compiles them. A short name selects the
 * first kind that begins with it. */
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

static int probe(const char *device, struct spot_err *err)
{
    static const char *const real[] = { "bf16", "fp32", "bf16-tp", "fp32-tp" };
    struct spot_device_kind kind = { 0 };
    char jit[24] = "";
    size_t version;

    if (spot_device_choose(device, err) || spot_device_probe(&kind, err) ||
        spot_device_blas(&version, err))
        return -1;
    if (kind.driver)
        snprintf(jit, sizeof(jit), "-jit%d", kind.driver);
    for (int i = 0; i < 4; i++)
        snprintf(name[i], sizeof(name[i]), "cuda-%s-sm%dx%d-lt%zu-cc%d%s", real[i], kind.sm,
                 kind.n_sm, version, spot_cuda_compiler(), jit);
    return 0;
}

__attribute__((visibility("default"))) const struct spot_cuda_module *spot_cuda_module(void)
{
    static struct spot_cuda_module module = {
        .backend = &spot_backend_cuda, .probe = probe, .nccl = &spot_nccl, .device = spot_device_bus
    };

    module.version = spot_version();
    return &module;
}
