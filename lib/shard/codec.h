/* SPDX-License-Identifier: MIT */
/* codec.h - encodes and decodes the frames of one chunk, and chooses its filter. Used by chunk.c
 * only. */
#ifndef SPOT_SHARD_CODEC_H
#define SPOT_SHARD_CODEC_H

#include <stdbool.h>

#include "shard/chunk.h"

#ifdef __cplusplus
extern "C" {
#endif

/* chunk->filter: how the bytes are arranged. */
enum spot_filter {
    SPOT_FILTER_NONE,
    SPOT_FILTER_SPLIT,  /* byte planes, least significant first */
    SPOT_FILTER_ROTATE, /* the same after rotating each element left by one, which makes the sign
                           the lowest bit */
};

/* Append the frames; sets chunk->filter. *all_stored: no frame was compressed. */
int spot_codec_encode(struct spot_coder *coder, struct spot_chunk *chunk, enum spot_codec codec,
                      const void *raw, struct spot_buf *out, bool *all_stored,
                      struct spot_err *err);

/* Decode frames of chunk->stored_byte bytes to chunk->raw_byte bytes, which are then in
 * coder->spans: in stored frames that need no filter they stay, all else is decoded into raw
 * [raw_byte]. Hashes are left to the caller. Without SPOT_CHUNK_STORED in chunk->flags the caller
 * has checked stored_check, which covers the checksums of zstd: they are then not verified. */
int spot_codec_view(struct spot_coder *coder, struct spot_chunk *chunk, const void *frames,
                    void *raw, bool *all_stored, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SHARD_CODEC_H */
