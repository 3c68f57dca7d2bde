/* SPDX-License-Identifier: MIT */
#include "common/xalloc.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 64 };

static void *no_memory(size_t n, size_t size)
{
    fprintf(stderr, "out of memory (%zu times %zu bytes)\n", n, size);
    abort();
}

void *spot_xcalloc(size_t n, size_t size)
{
    void *ptr = calloc(n ? n : 1, size ? size : 1);

    if (!ptr)
        no_memory(n, size);
    return ptr;
}

void *spot_xrealloc(void *ptr, size_t n, size_t size)
{
    void *got;

    if (size && n > SIZE_MAX / size)
        return no_memory(n, size);
    got = realloc(ptr, n && size ? n * size : 1);
    if (!got)
        no_memory(n, size);
    return got;
}

char *spot_xstrdup(const char *text)
{
    const size_t n = strlen(text) + 1;

    return memcpy(spot_xcalloc(n, 1), text, n);
}

void *spot_xgrow(void *ptr, size_t *cap, size_t need, size_t size)
{
    if (need <= *cap && ptr)
        return ptr;
    *cap = need > 2 * *cap ? need : 2 * *cap;
    *cap = *cap < 16 ? 16 : *cap;
    return spot_xrealloc(ptr, *cap, size);
}

void *spot_alloc_aligned(size_t n, size_t size)
{
    void *ptr;

    if (size && n > (SIZE_MAX - ALIGNMENT) / size)
        return NULL;
    if (posix_memalign(&ptr, ALIGNMENT, n && size ? n * size : ALIGNMENT))
        return NULL;
    memset(ptr, 0, n * size);
    return ptr;
}
