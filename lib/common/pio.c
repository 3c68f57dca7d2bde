/* SPDX-License-Identifier: MIT */
#include "common/pio.h"

#include <errno.h>
#include <unistd.h>

ssize_t spot_read_at(int fd, uint64_t at, void *data, size_t n_byte)
{
    size_t done = 0;

    while (done < n_byte) {
        const ssize_t n = pread(fd, (char *)data + done, n_byte - done, (off_t)(at + done));

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        if (n == 0)
            break;
        done += (size_t)n;
    }
    return (ssize_t)done;
}

int spot_write_at(int fd, uint64_t at, const void *data, size_t n_byte)
{
    const char *from = data;

    while (n_byte) {
        const ssize_t n = pwrite(fd, from, n_byte, (off_t)at);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        from += n;
        at += (uint64_t)n;
        n_byte -= (size_t)n;
    }
    return 0;
}
