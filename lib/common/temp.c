/* SPDX-License-Identifier: MIT */
#include "common/temp.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"

char *spot_temp_template(const char *name)
{
    const char *tmp = getenv("TMPDIR"), *const dir = tmp && *tmp ? tmp : "/tmp";
    const size_t n = strlen(dir) + strlen(name) + sizeof("/-XXXXXX");
    char *path = spot_xcalloc(n, 1);

    snprintf(path, n, "%s/%s-XXXXXX", dir, name);
    return path;
}
