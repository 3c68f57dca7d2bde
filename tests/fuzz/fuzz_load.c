/* SPDX-License-Identifier: MIT */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "trace/load_import.h"
#include "trace/load_stats.h"
#include "trace/price_trace.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_load(FILE *in)
{
    struct spot_load load;
    struct spot_load_stats stats;
    struct spot_err err;

    if (spot_load_read(&load, in, "fuzz", 4096, &err))
        return;
    spot_load_stats(&load, &stats);
    spot_load_cut(&load, stats.start_s, stats.end_s / 2, &err);
    spot_load_release(&load);
}

static void read_prices(FILE *in)
{
    struct spot_price_trace trace;
    struct spot_err err;

    if (!spot_price_trace_read(&trace, in, "fuzz", &err))
        for (size_t i = 0; i < trace.n_series; i++) {
            double start_s;
            size_t n;

            free(spot_price_grid(&trace.series[i], 3600, i % 2, trace.end_s, 4096, &n, &start_s));
        }
    spot_price_trace_release(&trace);
}

/* The first byte picks the format; two of eight are our own: a load, and prices. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct spot_load_dist dist = { .prompt = { .token = 512 },
                                                .output = { .token = 128 } };
    struct spot_load_import imp = { 0 };
    struct spot_err err;
    FILE *in;

    if (size < 2)
        return 0;
    /* fmemopen only reads here. NOLINTNEXTLINE(performance-no-int-to-ptr) */
    in = fmemopen((void *)(uintptr_t)(data + 1), size - 1, "r");
    if (!in)
        return 0;
    if (data[0] % 8 == 6) {
        read_load(in);
    } else if (data[0] % 8 == 7) {
        read_prices(in);
    } else {
        imp.length = spot_load_source_new(&dist, 1);
        spot_rng_init(&imp.rng, 1, 1);
        if (!spot_load_import_read(&imp, &spot_load_format[data[0] % 8], in, "fuzz", &err))
            spot_load_sort(&imp.load);
        spot_load_source_free(imp.length);
        spot_load_release(&imp.load);
    }
    fclose(in);
    return 0;
}
