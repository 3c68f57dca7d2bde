/* SPDX-License-Identifier: MIT */
#include <stdint.h>
#include <stdio.h>

#include "model/share_doc.h"
#include "trace/share_import.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The first byte picks the reader: jobs, a cluster, or a format of import, and of Pollux the file.
 */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const name[] = { "fuzz", "x/placements.csv", "x/scalability.csv",
                                        "x/validation-8.csv" };
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
    switch (data[0] % 7) {
    case 0:
        if (!spot_share_jobs_read(&jobs, in, "fuzz", &err))
            spot_share_jobs_release(&jobs);
        break;
    case 1:
        if (!spot_share_cluster_read(&cluster, in, "fuzz", &err))
            spot_share_cluster_release(&cluster);
        break;
    default:
        if (!spot_share_import_read(&imp, &spot_share_format[data[0] % 7 - 2], in,
                                    name[data[0] / 7 % 4], &err))
            spot_share_import_settle(&imp, &err);
        spot_share_import_release(&imp);
        break;
    }
    fclose(in);
    return 0;
}
