/* SPDX-License-Identifier: MIT */
#include <stdint.h>
#include <stdio.h>

#include "model/job_doc.h"
#include "model/throughput.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Goal: no job document crashes the reader, the writer or the throughput model. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct spot_job_doc job;
    struct spot_throughput t;
    struct spot_err err;
    FILE *out;

    if (spot_job_doc_parse(&job, (const char *)data, size, "fuzz", &err))
        return 0;
    if (!spot_throughput_init(&t, &job, 32, SPOT_THROUGHPUT_BOTH, &err))
        spot_throughput_release(&t);
    out = fopen("/dev/null", "we");
    if (out) {
        (void)spot_job_doc_write(&job, NULL, out, &err);
        fclose(out);
    }
    spot_job_doc_release(&job);
    return 0;
}
