/* SPDX-License-Identifier: MIT */
#include <stdint.h>

#include "model/cluster_doc.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Goal: no input crashes the reader of spot.cluster/1 or leaves anything behind. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct spot_cluster doc;
    struct spot_err err;

    if (!spot_cluster_parse(&doc, (const char *)data, size, "fuzz", &err))
        spot_cluster_release(&doc);
    return 0;
}
