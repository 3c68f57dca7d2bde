/* SPDX-License-Identifier: MIT */
#include <stdint.h>
#include <stdio.h>

#include "common/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Goal: no input crashes the reader, and a found error can always be placed. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct spot_json_doc doc;
    struct spot_err err;
    FILE *in;

    if (!size)
        return 0;
    /* fmemopen only reads here. NOLINTNEXTLINE(performance-no-int-to-ptr) */
    in = fmemopen((void *)(uintptr_t)data, size, "r");
    if (!in)
        return 0;
    if (!spot_json_load(&doc, in, "fuzz", &err)) {
        spot_json_fail(&doc, "/a/0/b/1", &err, "x");
        spot_json_release(&doc);
    }
    fclose(in);
    return 0;
}
