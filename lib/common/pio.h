/* SPDX-License-Identifier: MIT */
/* pio.h - reads and writes at an offset in a file, repeated until complete; and its end. */
#ifndef SPOT_COMMON_PIO_H
#define SPOT_COMMON_PIO_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <unistd.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Read up to n_byte bytes from offset `at` into data. Returns the number read, fewer only at the
 * end of the file; -1 with errno. */
ssize_t spot_read_at(int fd, uint64_t at, void *data, size_t n_byte);

/* Write all of data [n_byte] at offset `at`. Returns 0, or -1 with errno. */
int spot_write_at(int fd, uint64_t at, const void *data, size_t n_byte);

/* Close fd, unless it is -1. */
static inline void spot_close(int fd)
{
    if (fd >= 0)
        (void)close(fd);
}

#ifdef __cplusplus
}
#endif

#endif /* SPOT_COMMON_PIO_H */
