/* SPDX-License-Identifier: MIT */
#include <stdint.h>
#include <stdio.h>

#include "trace/import.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The first byte picks the format and the polarity. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct spot_import imp = { .ask.cap = 4 };
    const struct spot_import_format *format;
    struct spot_trace trace;
    struct spot_err err;
    FILE *in;

    if (size < 2)
        return 0;
    format = &spot_import_format[data[0] % 10];
    imp.ask.is_inverted = data[0] & 0x80;
    imp.ask.column[SPOT_IMPORT_COLUMN_TIME] = "t"; /* these two a file has to have */
    imp.ask.column[SPOT_IMPORT_COLUMN_AVAILABLE] = "n";
    imp.ask.column[SPOT_IMPORT_COLUMN_ZONE] = data[0] & 0x40 ? "z" : NULL;
    /* fmemopen only reads here. NOLINTNEXTLINE(performance-no-int-to-ptr) */
    in = fmemopen((void *)(uintptr_t)(data + 1), size - 1, "r");
    if (!in)
        return 0;
    if (!spot_import_read(&imp, format, in, "dir/zone_type.json", &err)) {
        spot_import_sort(&imp);
        if (format->kind == SPOT_IMPORT_COUNT || format->kind == SPOT_IMPORT_NODE) {
            if (!spot_import_trace(&imp, &trace, &err))
                spot_trace_release(&trace);
        }
    }
    spot_import_release(&imp);
    fclose(in);
    return 0;
}
