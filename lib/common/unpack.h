/* SPDX-License-Identifier: MIT */
/* unpack.h - text that may be compressed: gzip and zstd, told by their first bytes.
 *
 * The only door to zlib. Frames or members one after the other are one text. A small input that
 * stands for a huge one is refused: after the first 64 MiB a text may be 200 times what was read
 * (spot_unpack_limit), and a zstd window 32 MiB.
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
    FILE *in; /* read the text here: another stream, or the very one that was given */
    struct spot_unpack_state *state; /* NULL: not compressed */
};

/* Look at the start of `in`, which stays the caller's to close. No more than the bytes that tell
 * are waited for. Returns 0, or -1 with *err (SPOT_ESYS). */
int spot_unpack_open(struct spot_unpack *unpack, FILE *in, const char *source,
                     struct spot_err *err);

/* Instead of 64 MiB and 200: from n_free bytes on, n_times what was read. Before anything is read.
 */
void spot_unpack_limit(struct spot_unpack *unpack, uint64_t n_free, uint64_t n_times);

/* `rc` is what reading led to. Where the compressed data were at fault that is -1, and *err
 * (SPOT_EDATA) says so in place of what the reader made of it. */
int spot_unpack_close(struct spot_unpack *unpack, int rc, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_COMMON_UNPACK_H */
