/* SPDX-License-Identifier: MIT */
/* shard_mem.h - arrays in memory as the source or the sink of a stream.
 *
 * Used by a live job to move and to store bundles; the bytes are an ordinary stream of stream.h, so
 * `spot-migrate unpack` and `zstd -t` accept them.
 */
#ifndef SPOT_SHARD_SHARD_MEM_H
#define SPOT_SHARD_SHARD_MEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/buf.h"
#include "shard/chunk.h"
#include "shard/range.h"
#include "shard/safetensors.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One array, on the sender's or the receiver's side. Names are unique, UTF-8, at most
 * SPOT_ST_NAME_MAX bytes; they let both sides check that they mean the same array. */
struct spot_shard_part {
    const char *name;
    enum spot_dtype dtype;
    size_t n_elem; /* may be 0 */
    const void *data;
};
struct spot_shard_place {
    const char *name;
    enum spot_dtype dtype;
    size_t n_elem;
    void *data;
};

/* The source of these parts, in this order: borrowed, never copied. */
struct spot_part_source {
    struct spot_source source;
    const struct spot_shard_part *part;
    uint64_t *begin; /* [n_part] offsets in the data */
    size_t n_part;
    struct spot_buf header;
};
void spot_part_source_init(struct spot_part_source *from, const struct spot_shard_part *part,
                           size_t n_part);
void spot_part_source_release(struct spot_part_source *from);

/* The sink that fills these places, in any order of names, and rejects other arrays (SPOT_EDATA).
 * Without `is_kept` the bytes are verified and dropped, and `data` is not used. */
struct spot_place_sink {
    struct spot_sink sink;
    const struct spot_shard_place *place;
    size_t n_place;
    const struct spot_st *st;
    size_t *of_tensor; /* [n_tensor]: index of the place */
};
void spot_place_sink_init(struct spot_place_sink *into, const struct spot_shard_place *place,
                          size_t n_place, bool is_kept);
void spot_place_sink_release(struct spot_place_sink *into);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SHARD_SHARD_MEM_H */
