/* SPDX-License-Identifier: MIT */
#include "common/memory.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The first number after `key` at the start of a line; SIZE_MAX if it is not a number ("max"). */
static size_t read_number(const char *path, const char *key)
{
    const size_t skip = strlen(key);
    FILE *const in = fopen(path, "r");
    char line[128];
    size_t found = SIZE_MAX;

    if (!in)
        return SIZE_MAX;
    while (found == SIZE_MAX && fgets(line, sizeof(line), in)) {
        char *end;

        if (strncmp(line, key, skip) != 0)
            continue;
        errno = 0;
        found = strtoull(line + skip, &end, 10);
        if (end == line + skip || errno)
            found = SIZE_MAX;
    }
    fclose(in);
    return found;
}

size_t spot_memory_left(size_t used_byte)
{
    const size_t free_kib = read_number("/proc/meminfo", "MemAvailable:");
    const size_t free_byte = free_kib < SIZE_MAX / 1024 ? free_kib * 1024 : SIZE_MAX;
    const size_t group_byte = read_number("/sys/fs/cgroup/memory.max", "");
    const size_t left_byte = group_byte == SIZE_MAX   ? SIZE_MAX
                             : group_byte > used_byte ? group_byte - used_byte
                                                      : 0;

    return free_byte < left_byte ? free_byte : left_byte;
}

size_t spot_memory_available(void)
{
    return spot_memory_left(0);
}

int spot_memory_check(const char *what, size_t need_byte, size_t limit_byte, struct spot_err *err)
{
    const size_t limit = limit_byte ? limit_byte : spot_memory_available();

    if (need_byte <= limit && need_byte < SIZE_MAX)
        return 0;
    if (need_byte == SIZE_MAX)
        return spot_err_set(err, SPOT_ESYS, "%s needs more memory than can be addressed", what);
    return spot_err_set(err, SPOT_ESYS, "%s needs %.3g GB of memory, %.3g GB are available", what,
                        (double)need_byte * 1e-9, (double)limit * 1e-9);
}
