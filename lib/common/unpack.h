/* SPDX-License-Identifier: MIT */
/* unpack.h - text that may be compressed with gzip or zstd, detected by its first bytes.
 *
 * The only user of zlib. Consecutive frames or members form one text. A small input that expands to
 * a huge one is rejected: beyond 64 MiB a text may be at most 200 times its compressed size
 * (spot_unpack_limit); zstd windows may have up to 32 MiB.
 */
#ifndef SPOT_COMMON_UNPACK_H
#define SPOT_COMMON_UNPACK_H

#include <stdint.h>
#include <stdio.h>

#include "common/err.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_unpack_state;

struct spot_unpack {
    FILE *in;                        /* stream of the text: a new one, or the given one */
    struct spot_unpack_state *state; /* NULL: not compressed */
};

/* Detect the format from the start of `in`, which remains the caller's to close. Waits for no more
 * bytes than detection needs. Returns 0, or -1 with *err (SPOT_ESYS). */
int spot_unpack_open(struct spot_unpack *unpack, FILE *in, const char *source,
                     struct spot_err *err);

/* Set limits other than 64 MiB and 200: beyond n_free bytes, n_times the compressed size. Call
 * before reading. */
void spot_unpack_limit(struct spot_unpack *unpack, uint64_t n_free, uint64_t n_times);

/* `rc` is the reader's result. If the compressed data were invalid, returns -1 and *err
 * (SPOT_EDATA) says so, replacing the reader's error. */
int spot_unpack_close(struct spot_unpack *unpack, int rc, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_COMMON_UNPACK_H */
