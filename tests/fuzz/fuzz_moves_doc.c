/* SPDX-License-Identifier: MIT */
#include <stdint.h>

#include "model/moves_doc.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Goal: no input crashes the reader of spot.moves/1 or leaves anything behind. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct spot_moves_doc doc;
    struct spot_err err;

    if (!spot_moves_parse(&doc, (const char *)data, size, "fuzz", &err))
        spot_moves_release(&doc);
    return 0;
}
