/* SPDX-License-Identifier: MIT */
/* range.h - where ranges of arrays come from and where they go: files, memory, whatever is next.
 *
 * A range is a chunk of chunk.h: a piece of one named array of a safetensors header. What moves or
 * stores ranges knows a source and a sink, and not what they are made of.
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
    /* The raw bytes where they lie, which do not change while they are looked at. Optional. */
    const void *(*point)(void *user, const struct spot_chunk *chunk);
    /* Else: bytes [n_byte] at `at` of the data into `data`. Returns 0, or -1 with *err. */
    int (*read)(void *user, uint64_t at, void *data, size_t n_byte, struct spot_err *err);
    void *user;
};

/* The raw bytes of a chunk, where they lie or read into `room`. NULL with *err. */
const void *spot_source_get(const struct spot_source *source, const struct spot_chunk *chunk,
                            struct spot_buf *room, struct spot_err *err);

/* Get a chunk and append it, coded, to `out`. `base` and what is returned: spot_chunk_encode. */
int spot_source_encode(const struct spot_source *source, struct spot_coder *coder,
                       struct spot_chunk *chunk, enum spot_codec codec, const void *base,
                       struct spot_buf *room, struct spot_buf *out, struct spot_err *err);

/* What becomes of what arrives. Every function is optional. */
struct spot_sink {
    /* header [n_header]: prefix and JSON, the very bytes of the source */
    int (*begin)(void *user, const struct spot_st *st, const void *header, size_t n_header,
                 struct spot_err *err);
    /* Where the raw bytes of a chunk shall go, or NULL for a buffer of the reader. Any thread. */
    void *(*place)(void *user, const struct spot_chunk *chunk);
    /* The older version of these bytes for a difference, NULL if there is none. */
    const void *(*base)(void *user, const struct spot_chunk *chunk);
    /* A verified chunk for which order does not matter: called in any thread, for several chunks
     * at once, before on_chunk and maybe before an earlier chunk turns out bad. */
    spot_chunk_fn put;
    spot_chunk_fn on_chunk; /* the same, one after the other in the order of the stream */
    /* All chunks are here, with hash [tensors] of the arrays: the last word. */
    int (*commit)(void *user, const struct spot_hash128 *hash, struct spot_err *err);
    void *user;
};

/* Decode the frames of a parsed chunk to where the sink wants it, or into `room`, verify it and put
 * it. Returns 0 with its bytes in *raw; or -1 with *err: SPOT_EDATA, or what the sink said. */
int spot_sink_take(const struct spot_sink *sink, struct spot_coder *coder, struct spot_chunk *chunk,
                   const void *frames, const void *base, struct spot_buf *room, const void **raw,
                   struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SHARD_RANGE_H */
