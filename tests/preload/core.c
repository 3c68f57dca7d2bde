/* SPDX-License-Identifier: MIT */
/* core.c - a machine of which one processor computes wrong numbers: to be preloaded. A hash of two
 * losses of a model that has learnt nothing, as the self-test makes it, is another one there.
 *
 *   SPOT_CORE         the number of the processor; "any" for all, -1 for none
 *   SPOT_CORE_WHILE   only while a file of this name exists, if set
 */
#define _GNU_SOURCE /* RTLD_NEXT, sched_getcpu */
#include <dlfcn.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

uint64_t XXH3_64bits(const void *data, size_t n);
uint64_t XXH3_64bits_dispatch(const void *data, size_t n);

static bool is_wrong(const void *data, size_t n)
{
    const char *const core = getenv("SPOT_CORE"), *const file = getenv("SPOT_CORE_WHILE");
    double loss[2];

    if (!core || n != sizeof(loss))
        return false;
    memcpy(loss, data, n);
    return loss[0] > 4 && loss[0] < 6 && loss[1] > 4 && loss[1] < 6 &&
           (!strcmp(core, "any") || atoi(core) == sched_getcpu()) && (!file || !access(file, F_OK));
}

static uint64_t hash(const char *name, const void *data, size_t n)
{
    uint64_t (*real)(const void *, size_t);

    *(void **)&real = dlsym(RTLD_NEXT, name);
    return real(data, n) ^ is_wrong(data, n);
}

uint64_t XXH3_64bits(const void *data, size_t n)
{
    return hash("XXH3_64bits", data, n);
}

uint64_t XXH3_64bits_dispatch(const void *data, size_t n)
{
    return hash("XXH3_64bits_dispatch", data, n);
}
