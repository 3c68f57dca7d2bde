/* SPDX-License-Identifier: MIT */
#include "run.h"

#include <stdio.h>
#include <string.h>

#include "engine/backend.h"

int device_option_parse(const char *text, struct device_option *d, struct spot_err *err)
{
    const char *const colon = strchr(text, ':');
    const size_t n = colon ? (size_t)(colon - text) : strlen(text);
    const bool may_be_cuda = !strncmp(text, "cuda", 4) || (n == 4 && !strncmp(text, "auto", 4));

    if (!n || n >= sizeof(d->kind) || (colon && !may_be_cuda))
        return spot_err_set(err, SPOT_EUSAGE,
                            "--device must be auto, cpu, cuda, cuda:N or the name of a kernel, "
                            "got '%s'",
                            text);
    snprintf(d->kind, sizeof(d->kind), "%.*s", (int)n, text);
    d->number = colon ? colon + 1 : "auto";
    return spot_cuda_check_device(d->number, err);
}
