/* SPDX-License-Identifier: MIT */
/* bundle_io.h - a bundle as bytes: one format for transfers between workers and for files.
 *
 * i64 step, i64 bundle, then the stream of shard/shard_mem.h with one part per plane and the scale
 * exponents; every byte is covered by a hash, checked before a bundle counts as held.
 */
#ifndef SPOT_CHECKPOINT_BUNDLE_IO_H
#define SPOT_CHECKPOINT_BUNDLE_IO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/buf.h"
#include "common/err.h"
#include "common/port.h"
#include "shard/bundle.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The bytes of a bundle, to be freed by the caller. NULL with *err. */
uint8_t *spot_bundle_pack(const struct spot_bundle *bundle, size_t *n_byte, struct spot_err *err);

/* Create a bundle from bytes that claim to be bundle `index` at `step` of this shape. NULL with
 * *err: SPOT_EDATA if they are anything else, or damaged. */
struct spot_bundle *spot_bundle_unpack(const struct spot_shape *shape, int index, int64_t step,
                                       const void *data, size_t n_byte, struct spot_err *err);

/* Check that the header of the bytes names this bundle and step. Returns 0, or -1 with *err
 * (SPOT_EDATA). */
int spot_bundle_check_head(int index, int64_t step, const void *data, size_t n_byte,
                           struct spot_err *err);

/* Check that the bytes would unpack, without allocating memory. Returns 0, or -1 with *err. */
int spot_bundle_check(const struct spot_shape *shape, int index, int64_t step, const void *data,
                      size_t n_byte, struct spot_err *err);

/* The same bytes piece by piece, so that encoding, transfer and decoding overlap. */

/* `bundle` is borrowed and must not change. NULL with *err. */
struct spot_bundle_writer;
struct spot_bundle_writer *spot_bundle_writer_new(const struct spot_bundle *bundle,
                                                  struct spot_err *err);
void spot_bundle_writer_free(struct spot_bundle_writer *writer);

/* Append the next piece, about a chunk. Returns 1 if more follow, 0 if it was the last, -1 with
 * *err. */
int spot_bundle_writer_next(struct spot_bundle_writer *writer, struct spot_buf *out,
                            struct spot_err *err);

/* A new bundle from a port that delivers what claims to be bundle `index` at `step` of this
 * shape. */
struct spot_bundle_reader;
struct spot_bundle_reader *spot_bundle_reader_new(const struct spot_shape *shape, int index,
                                                  int64_t step);
void spot_bundle_reader_free(struct spot_bundle_reader *reader);

/* Read what the port delivers next. Returns 1 with the bundle when it is complete, 0 when there is
 * more to come, -1 with *err as for unpack, or from the port. */
int spot_bundle_reader_pull(struct spot_bundle_reader *reader, struct spot_port *port,
                            struct spot_bundle **bundle, struct spot_err *err);

/* Without a port: feed it the next bytes, in pieces of any size, then call finish, which checks
 * that the bundle is complete and sets *bundle. Both return 0, or -1 with *err as for unpack. */
int spot_bundle_reader_feed(struct spot_bundle_reader *reader, const void *data, size_t n_byte,
                            struct spot_err *err);
int spot_bundle_reader_finish(struct spot_bundle_reader *reader, struct spot_bundle **bundle,
                              struct spot_err *err);

/* A reader that does not store the bundle (finish sets NULL) but calls a function with the verified
 * bytes of its planes in order, one plane after the other, each from its start. data [n_byte] is at
 * offset `at` of the plane. */
typedef void spot_bundle_plane_fn(void *user, enum spot_plane plane, size_t at, const void *data,
                                  size_t n_byte);
struct spot_bundle_reader *spot_bundle_scan_new(const struct spot_shape *shape, int index,
                                                int64_t step, spot_bundle_plane_fn *fn, void *user);

/* True if it failed because this machine is out of memory. */
bool spot_bundle_reader_is_short(const struct spot_bundle_reader *reader);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_CHECKPOINT_BUNDLE_IO_H */
