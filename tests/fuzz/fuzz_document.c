/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* memmem */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "../tool/registry.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Goal: no input crashes the reader of any document or leaves anything behind. A reader gets what
 * names its kind anywhere: the others would refuse it at once. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct spot_err err;
    char name[64];

    for (const struct spot_document *d = spot_registry; d->kind; d++) {
        snprintf(name, sizeof(name), "spot.%s/%d", d->kind, d->major);
        if (d->check && size && memmem(data, size, name, strlen(name)))
            (void)d->check((const char *)data, size, &err);
    }
    return 0;
}
