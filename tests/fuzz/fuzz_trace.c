/* SPDX-License-Identifier: MIT */
#include <stdint.h>
#include <stdio.h>

#include "trace/trace.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct spot_trace trace;
    struct spot_err err;
    int32_t grid[16];
    FILE *in;

    if (!size)
        return 0;
    /* fmemopen only reads here. NOLINTNEXTLINE(performance-no-int-to-ptr) */
    in = fmemopen((void *)(uintptr_t)data, size, "r");
    if (!in)
        return 0;
    if (!spot_trace_load(&trace, in, "fuzz", &err)) {
        const double span_s = trace.end_s - trace.start_s;

        for (size_t i = 0; i < trace.n_series; i++)
            spot_trace_resample(&trace.series[i], trace.start_s, 1 + span_s / 16, 16, grid);
        spot_trace_cut(&trace, trace.start_s + span_s / 4, trace.start_s + span_s / 2, &err);
        spot_trace_scale(&trace, 2);
        spot_trace_release(&trace);
    }
    fclose(in);
    return 0;
}
