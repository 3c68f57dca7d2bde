/* SPDX-License-Identifier: MIT */
/* zframe.h - zstd frames: compressed by libzstd, or stored directly at the speed of memcpy.
 *
 * Only one form of stored frame is accepted here, so every byte of it is checked by comparison;
 * zstd reads it the same way. Format: RFC 8878.
 */
#ifndef SPOT_SHARD_ZFRAME_H
#define SPOT_SHARD_ZFRAME_H

#include <stdbool.h>
#include <stddef.h>

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

/* Bytes of a stored frame with n_byte bytes of content. */
size_t spot_zframe_stored_byte(size_t n_byte, bool has_check);

/* Build a stored frame in place: content byte `at` is at the address returned, and *run bytes from
 * there on are contiguous; close writes the framing for n_byte
 * of content already in place, and returns the bytes of the frame. n_byte < 2^31. */
unsigned char *spot_zframe_stored_at(unsigned char *frame, size_t at, size_t *run);
size_t spot_zframe_close(unsigned char *frame, size_t n_byte, bool has_check);

/* Append one frame. has_check adds zstd's content checksum. n_byte < 2^31. */
void spot_zframe_store(const void *data, size_t n_byte, bool has_check, struct spot_buf *out);

enum spot_zframe_mode {
    SPOT_ZFRAME_LZ,      /* zstd at level 1 */
    SPOT_ZFRAME_HUFFMAN, /* entropy coding only: suits byte planes of floats */
};

/* Append one compressed frame. Returns 0, or -1 with *err (SPOT_ESYS) when libzstd fails. */
int spot_zframe_compress(struct spot_zstd *z, const void *data, size_t n_byte,
                         enum spot_zframe_mode mode, bool has_check, struct spot_buf *out,
                         struct spot_err *err);

/* Content in pieces: of stored frames in place, of others where they were decoded. */
struct spot_span {
    const unsigned char *at;
    size_t n;
};
struct spot_spans {
    struct spot_span *span; /* [n], in order */
    size_t n, cap, n_byte;
};
void spot_spans_clear(struct spot_spans *spans);
void spot_spans_add(struct spot_spans *spans, const void *at, size_t n);
void spot_spans_release(struct spot_spans *spans);
void spot_spans_copy(const struct spot_spans *spans,
                     void *to); /* copy all of them to `to` [n_byte] */

/* Whether to verify zstd's own checksums; TRUST: the bytes of the frame were verified before. */
enum spot_zframe_trust { SPOT_ZFRAME_CHECK, SPOT_ZFRAME_TRUST };

/* Read one frame at `frame`; its content is appended to `spans`. A compressed frame is decoded into
 * `room`; a stored one stays in place. n_room bounds both.
 *   used_byte, made_byte   length of the frame and of its content
 *   is_stored              it was a stored frame, in the form written by spot_zframe_store
 * Returns 0, or -1 with *err (SPOT_EDATA): not a frame, larger than n_room, or damaged. */
struct spot_zframe_result {
    size_t used_byte, made_byte;
    bool is_stored;
};
int spot_zframe_view(struct spot_zstd *z, const void *frame, size_t n_frame,
                     enum spot_zframe_trust trust, void *room, size_t n_room,
                     struct spot_spans *spans, struct spot_zframe_result *result,
                     struct spot_err *err);

/* The same with checks and with all of the content in `out` [n_out]. */
int spot_zframe_decode(struct spot_zstd *z, const void *frame, size_t n_frame, void *out,
                       size_t n_out, struct spot_zframe_result *result, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SHARD_ZFRAME_H */
