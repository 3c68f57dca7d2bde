/* SPDX-License-Identifier: MIT */
#include <stdint.h>
#include <stdio.h>

#include "common/csv_reader.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int touch(const struct spot_csv_row *row, void *user, struct spot_err *err)
{
    double x;

    (void)user;
    return spot_csv_real(row, 0, -1e300, 1e300, &x, err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const want[] = { "a" };
    struct spot_err err;
    FILE *in;

    if (!size)
        return 0;
    /* fmemopen only reads here. NOLINTNEXTLINE(performance-no-int-to-ptr) */
    in = fmemopen((void *)(uintptr_t)data, size, "r");
    if (in) {
        spot_csv_read(in, "fuzz", want, 1, touch, NULL, NULL, &err);
        fclose(in);
    }
    return 0;
}
