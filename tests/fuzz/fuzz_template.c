/* SPDX-License-Identifier: MIT */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "text/template.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Goal: no template crashes its interpreter, none goes beyond its limits, and what fails says why.
 * Behind a NUL comes what it is given. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *const nul = size ? memchr(data, 0, size) : NULL;
    const size_t n = nul ? (size_t)(nul - data) : size;
    struct spot_json_doc doc = { 0 };
    struct spot_err err = { 0 };
    struct spot_template *const t = spot_template_parse((const char *)data, n, "fuzz", &err);
    struct spot_template_input input = { .now_s = 1750000000 };
    struct spot_buf out = { 0 };

    if (!t && err.code != SPOT_EDATA)
        abort();
    if (nul && spot_json_parse(&doc, (const char *)nul + 1, size - n - 1, "context", NULL))
        doc = (struct spot_json_doc){ 0 };
    input.values[0] = doc.root;
    if (t && spot_template_render(t, &input, &out, &err) && !*err.msg)
        abort();
    if (out.n > 2 * (size_t)SPOT_TEMPLATE_MEMORY_MAX)
        abort();
    spot_buf_release(&out);
    spot_template_free(t);
    spot_json_release(&doc);
    return 0;
}
