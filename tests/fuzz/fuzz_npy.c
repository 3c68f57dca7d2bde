/* SPDX-License-Identifier: MIT */
#include <stdint.h>
#include <stdlib.h>

#include "common/npy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    FILE *const in = size ? fmemopen((void *)(uintptr_t)data, size, "r") : NULL;
    struct spot_npy m;
    struct spot_err err;

    if (!in)
        return 0;
    while (spot_npy_begins(in) && !spot_npy_read(&m, in, "fuzz", 64, &err))
        spot_npy_release(&m);
    fclose(in);
    return 0;
}
