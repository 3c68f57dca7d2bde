/* SPDX-License-Identifier: MIT */
#define _DEFAULT_SOURCE /* madvise, open_memstream. NOLINT(bugprone-reserved-identifier) */
#include "common/xalloc.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14; older ones refuse it */
#endif

enum { ALIGNMENT = 64, LARGE_BYTE = 4 << 20 };

static void *no_memory(size_t n, size_t size)
{
    fprintf(stderr, "out of memory (%zu times %zu bytes)\n", n, size);
    abort();
}

void spot_no_memory(const char *what)
{
    fprintf(stderr, "out of memory (%s)\n", what);
    abort();
}

FILE *spot_xmemory_open(char **text, size_t *n)
{
    FILE *const memory = open_memstream(text, n);

    if (!memory)
        spot_no_memory("a text");
    return memory;
}

void spot_xmemory_close(FILE *memory)
{
    const int failed = ferror(memory);

    if (fclose(memory) || failed)
        spot_no_memory("a text");
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

char *spot_xpath(const char *dir, const char *name)
{
    const size_t n = strlen(dir) + strlen(name) + 2;
    char *const path = spot_xcalloc(n, 1);

    snprintf(path, n, "%s/%s", dir, name);
    return path;
}

void *spot_xgrow(void *ptr, size_t *cap, size_t need, size_t size)
{
    if (need <= *cap && ptr)
        return ptr;
    *cap = need > 2 * *cap ? need : 2 * *cap;
    *cap = *cap < 16 ? 16 : *cap;
    return spot_xrealloc(ptr, *cap, size);
}

/* madvise() for the whole pages of a large block; -1 if the kernel does not support it. */
static int advise(void *ptr, size_t n_byte, int advice)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t skip = (page - (uintptr_t)ptr % page) % page;

    return n_byte < LARGE_BYTE ? 0
                               : madvise((char *)ptr + skip, (n_byte - skip) / page * page, advice);
}

void spot_prefer_huge_pages(void *ptr, size_t n_byte)
{
    (void)advise(ptr, n_byte, MADV_HUGEPAGE);
}

/* Linux overcommits memory, so all pages are allocated now, and not at the first write. Fresh pages
 * are zero and not cleared again. */
void *spot_alloc_aligned(size_t n, size_t size)
{
    /* room for the address of the block, needed to free it */
    const size_t before = sizeof(void *) + ALIGNMENT - 1;
    char *block, *at;

    if (size && n > (SIZE_MAX - before) / size)
        return NULL;
    block = calloc(1, before + n * size);
    if (!block)
        return NULL;
    spot_prefer_huge_pages(block, before + n * size);
    if (advise(block, before + n * size, MADV_POPULATE_WRITE))
        memset(block, 0, before + n * size);
    at = block + before;
    at -= (uintptr_t)at % ALIGNMENT;
    memcpy(at - sizeof(block), &block, sizeof(block));
    return at;
}

void spot_free_aligned(void *ptr)
{
    void *block;

    if (!ptr)
        return;
    memcpy(&block, (char *)ptr - sizeof(block), sizeof(block));
    free(block);
}
