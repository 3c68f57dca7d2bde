/* SPDX-License-Identifier: MIT */
/* range.h - sources and sinks of ranges of arrays: files, memory, or others.
 *
 * A range is a chunk of chunk.h: a piece of one named array of a safetensors header. Code that
 * moves or stores ranges uses a source and a sink, independent of what they are made of.
 */
#ifndef SPOT_SHARD_RANGE_H
#define SPOT_SHARD_RANGE_H

#include <stddef.h>
#include <stdint.h>

#include "common/buf.h"
#include "common/err.h"
#include "common/hash.h"
#include "shard/chunk.h"
#include "shard/safetensors.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Both functions are called from any thread. */
struct spot_source {
    const void *header; /* [n_header], prefix and JSON of a safetensors file; borrowed */
    size_t n_header;
    /* Address of the raw bytes, which must not change while in use. Optional. */
    const void *(*point)(void *user, const struct spot_chunk *chunk);
    /* If `point` is NULL: read bytes [n_byte] at offset `at` of the data into `data`. Returns 0, or
     * -1 with *err. */
    int (*read)(void *user, uint64_t at, void *data, size_t n_byte, struct spot_err *err);
    void *user;
};

/* The raw bytes of a chunk, in place or read into `room`. NULL with *err. */
const void *spot_source_get(const struct spot_source *source, const struct spot_chunk *chunk,
                            struct spot_buf *room, struct spot_err *err);

/* Get a chunk and append it, coded, to `out`. Return value as in spot_chunk_encode. */
int spot_source_encode(const struct spot_source *source, struct spot_coder *coder,
                       struct spot_chunk *chunk, enum spot_codec codec, struct spot_buf *room,
                       struct spot_buf *out, struct spot_err *err);

/* Receives ranges. Every function is optional. */
struct spot_sink {
    /* header [n_header]: prefix and JSON, exactly the bytes of the source */
    int (*begin)(void *user, const struct spot_st *st, const void *header, size_t n_header,
                 struct spot_err *err);
    /* Destination of the raw bytes of a chunk, or NULL for a buffer of the reader. Any thread. */
    void *(*place)(void *user, const struct spot_chunk *chunk);
    /* A verified chunk, in any order: called in any thread, for several chunks at once, before
     * on_chunk and possibly before an earlier chunk turns out bad. */
    spot_chunk_fn put;
    spot_chunk_fn on_chunk; /* the same, one at a time in the order of the stream */
    /* All chunks have arrived, with hash [tensors] of the arrays: the final call. */
    int (*commit)(void *user, const struct spot_hash128 *hash, struct spot_err *err);
    void *user;
};

/* Decode the frames of a parsed chunk to the sink's place, or into `room`, verify it and call put.
 * Returns 0 with its bytes in *raw; or -1 with *err: SPOT_EDATA, or the error of the sink. */
int spot_sink_take(const struct spot_sink *sink, struct spot_coder *coder, struct spot_chunk *chunk,
                   const void *frames, struct spot_buf *room, const void **raw,
                   struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SHARD_RANGE_H */
