/* SPDX-License-Identifier: MIT */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace/probe_trace.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct spot_probe_trace trace;
    struct spot_err err;
    FILE *in;

    if (!size)
        return 0;
    /* fmemopen only reads here. NOLINTNEXTLINE(performance-no-int-to-ptr) */
    in = fmemopen((void *)(uintptr_t)data, size, "r");
    if (!in)
        return 0;
    if (!spot_probe_trace_read(&trace, in, "fuzz", &err))
        for (size_t i = 0; i < trace.n_series; i++) {
            const struct spot_probe_series *s = &trace.series[i];

            const int zone = i ? strcmp(s[-1].zone, s->zone) : -1;

            if (!s->n || zone > 0 || (!zone && strcmp(s[-1].instance_type, s->instance_type) >= 0))
                abort();
            for (size_t k = 0; k < s->n; k++)
                if (s->row[k].granted > s->row[k].asked ||
                    (k && s->row[k].time_s < s->row[k - 1].time_s))
                    abort();
        }
    spot_probe_trace_release(&trace);
    fclose(in);
    return 0;
}
