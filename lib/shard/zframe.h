/* SPDX-License-Identifier: MIT */
/* zframe.h - zstd frames: compressed by libzstd, or stored by hand at the speed of memcpy.
 *
 * A stored frame has one legal form here, so every byte of it is checked by comparison; what
 * zstd would read from a stored frame is what we read. Format: RFC 8878.
 */
#ifndef SPOT_SHARD_ZFRAME_H
#define SPOT_SHARD_ZFRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/buf.h"
#include "common/err.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_ZFRAME_BLOCK = 128 << 10 }; /* the largest block of a frame */

/* Scratch of libzstd for one thread. */
struct spot_zstd;
struct spot_zstd *spot_zstd_new(void);
void spot_zstd_free(struct spot_zstd *z);

/* Bytes of the stored frame of n_byte bytes. */
size_t spot_zframe_stored_byte(size_t n_byte, bool has_check);

/* Append one frame. has_check adds zstd's content checksum. n_byte < 2^31. */
void spot_zframe_store(const void *data, size_t n_byte, bool has_check, struct spot_buf *out);

enum spot_zframe_mode {
    SPOT_ZFRAME_LZ,      /* zstd at the given level */
    SPOT_ZFRAME_HUFFMAN, /* entropy coding only: what suits byte planes of floats */
};

/* Append one compressed frame. Returns 0, or -1 with *err (SPOT_ESYS) when libzstd fails. */
int spot_zframe_compress(struct spot_zstd *z, const void *data, size_t n_byte,
                         enum spot_zframe_mode mode, int level, struct spot_buf *out,
                         struct spot_err *err);

/* Decode one frame at `frame` into `out`, which has room for n_out bytes.
 *   used_byte, made_byte   length of the frame and of its content
 *   is_stored              it was a stored frame, in the form written by spot_zframe_store
 * Returns 0, or -1 with *err (SPOT_EDATA): not a frame, larger than n_out, or damaged. */
struct spot_zframe_result {
    size_t used_byte, made_byte;
    bool is_stored;
};
int spot_zframe_decode(struct spot_zstd *z, const void *frame, size_t n_frame, void *out,
                       size_t n_out, struct spot_zframe_result *result, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SHARD_ZFRAME_H */
