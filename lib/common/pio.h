/* SPDX-License-Identifier: MIT */
/* pio.h - reads and writes at a place in a file, in as many calls as that takes. */
#ifndef SPOT_COMMON_PIO_H
#define SPOT_COMMON_PIO_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes read from byte `at` on into data [n_byte], fewer only where the file ends; -1 with errno.
 */
ssize_t spot_read_at(int fd, uint64_t at, void *data, size_t n_byte);

/* Write all of data [n_byte] at byte `at`. Returns 0, or -1 with errno. */
int spot_write_at(int fd, uint64_t at, const void *data, size_t n_byte);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_COMMON_PIO_H */
