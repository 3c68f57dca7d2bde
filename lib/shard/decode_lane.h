/* SPDX-License-Identifier: MIT */
/* decode_lane.h - decodes chunks of a stream on several threads, returned in order (lane.h). */
#ifndef SPOT_SHARD_DECODE_LANE_H
#define SPOT_SHARD_DECODE_LANE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "shard/chunk.h"
#include "shard/range.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_decode_lane;

/* n_job threads, or as many as there is memory for with chunks of chunk_byte. They call `place` and
 * `put` of the sink. NULL with *err (SPOT_ESYS). */
struct spot_decode_lane *spot_decode_lane_new(uint64_t n_job, uint64_t chunk_byte,
                                              const struct spot_sink *sink, struct spot_err *err);
void spot_decode_lane_free(struct spot_decode_lane *lane);

/* Submit a parsed chunk: *unit, which begins with header and frames. Takes the buffer, and leaves
 * the bytes after the frames in *unit. False if the lane is full: reap first. */
bool spot_decode_lane_submit(struct spot_decode_lane *lane, const struct spot_chunk *chunk,
                             struct spot_buf *unit);

/* Wait for the oldest chunk submitted. Returns 1 with the chunk and its raw bytes, valid until the
 * next give; 0 if there is none; -1 with *err if it is bad (SPOT_EDATA) or `put` failed. */
int spot_decode_lane_reap(struct spot_decode_lane *lane, const struct spot_chunk **chunk,
                          const void **raw, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SHARD_DECODE_LANE_H */
