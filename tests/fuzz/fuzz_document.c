/* SPDX-License-Identifier: MIT */
#include <stdint.h>

#include "../tool/registry.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Goal: no input crashes the reader of any document or leaves anything behind. The first byte picks
 * the kind. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct spot_document *d = spot_registry;
    struct spot_err err;

    if (!size)
        return 0;
    for (unsigned k = data[0]; k > 0; k--)
        d = (d + 1)->kind ? d + 1 : spot_registry;
    if (d->check)
        (void)d->check((const char *)data + 1, size - 1, &err);
    return 0;
}
