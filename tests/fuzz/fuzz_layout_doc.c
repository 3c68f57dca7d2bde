/* SPDX-License-Identifier: MIT */
#include <stdint.h>

#include "model/layout_doc.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Goal: no input crashes the reader of spot.layout/1 or leaves anything behind. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct spot_layout doc;
    struct spot_err err;

    if (!spot_layout_parse(&doc, (const char *)data, size, "fuzz", &err))
        spot_layout_release(&doc);
    return 0;
}
