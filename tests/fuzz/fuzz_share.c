/* SPDX-License-Identifier: MIT */
#include <stdint.h>
#include <stdio.h>

#include "model/share_doc.h"
#include "trace/share_import.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The first byte picks the reader: jobs, a cluster, or a format of import. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct spot_share_cluster cluster;
    struct spot_share_import imp = { 0 };
    struct spot_share_jobs jobs;
    struct spot_err err;
    FILE *in;

    if (size < 2)
        return 0;
    /* fmemopen only reads here. NOLINTNEXTLINE(performance-no-int-to-ptr) */
    in = fmemopen((void *)(uintptr_t)(data + 1), size - 1, "r");
    if (!in)
        return 0;
    switch (data[0] % 5) {
    case 0:
        if (!spot_share_jobs_read(&jobs, in, "fuzz", &err))
            spot_share_jobs_release(&jobs);
        break;
    case 1:
        if (!spot_share_cluster_read(&cluster, in, "fuzz", &err))
            spot_share_cluster_release(&cluster);
        break;
    default:
        spot_share_import_read(&imp, &spot_share_format[data[0] % 5 - 2], in, "fuzz", &err);
        spot_share_import_release(&imp);
        break;
    }
    fclose(in);
    return 0;
}
