/* SPDX-License-Identifier: MIT */
#include <stdint.h>
#include <stdlib.h>

#include "model/plan_doc.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Goal: no plan crashes the reader, and what was read can be written and read again. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct spot_plan_doc plan, again;
    struct spot_err err;
    char *text = NULL;
    size_t n = 0;
    FILE *out;

    if (spot_plan_doc_parse(&plan, (const char *)data, size, "fuzz", &err))
        return 0;
    out = open_memstream(&text, &n);
    if (!out || spot_plan_doc_write(&plan, NULL, out, &err))
        abort();
    fclose(out);
    if (spot_plan_doc_parse(&again, text, n, "again", &err))
        abort();
    spot_plan_doc_release(&again);
    free(text);
    spot_plan_doc_release(&plan);
    return 0;
}
