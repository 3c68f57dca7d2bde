/* SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "forecast/hazard.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct spot_hazard hazard;
    struct spot_err err;
    double before[2] = { 0, 0 };
    FILE *in;

    if (!size)
        return 0;
    /* fmemopen only reads here. NOLINTNEXTLINE(performance-no-int-to-ptr) */
    in = fmemopen((void *)(uintptr_t)data, size, "r");
    if (!in)
        return 0;
    if (!spot_hazard_load(&hazard, in, "fuzz", &err)) {
        for (double age_s = 0; age_s < 2e11; age_s = 2 * age_s + 1) {
            const double sum[2] = { spot_hazard_sum(&hazard, age_s),
                                    spot_hazard_sum_unknown(&hazard, age_s) };

            for (int i = 0; i < 2; i++) { /* what has been survived only grows */
                if (!(sum[i] >= before[i] - 1e-9 * fabs(before[i]) - 1e-9))
                    abort();
                before[i] = sum[i];
            }
        }
        spot_hazard_release(&hazard);
    }
    fclose(in);
    return 0;
}
