/* SPDX-License-Identifier: MIT */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "weights/hf_config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Goal: no config.json crashes its reader, and what is written of a shape that can be computed is
 * read again. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct spot_shape shape, again;
    struct spot_json_doc doc;
    struct spot_err err;
    char *text;
    int rc;

    if (spot_json_parse(&doc, (const char *)data, size, "fuzz", &err))
        return 0;
    rc = spot_hf_config_read(&doc, &shape, &err);
    spot_json_release(&doc);
    shape.n_shard = 1;
    if (rc || shape.kind.n_expert || spot_shape_check(&shape, &err))
        return 0;
    text = spot_hf_config_text(&shape);
    assert(text);
    rc = spot_hf_config_parse(text, "written", &again, &err);
    assert(!rc);
    assert(again.n_layer == shape.n_layer && again.kind.local.mask == shape.kind.local.mask);
    free(text);
    return 0;
}
