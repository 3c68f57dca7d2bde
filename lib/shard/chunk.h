/* SPDX-License-Identifier: MIT */
/* chunk.h - a piece of one tensor on the wire: a header in a skippable frame, then zstd frames.
 *
 * How a file is cut is a pure function of its safetensors header and the chunk size, so a chunk is
 * identified by one number and no information about the cut needs to be trusted. Chunks are
 * independent: they may be coded by any thread and sent on any stream, in any order.
 */
#ifndef SPOT_SHARD_CHUNK_H
#define SPOT_SHARD_CHUNK_H

#include <stddef.h>
#include <stdint.h>

#include "common/buf.h"
#include "common/err.h"
#include "shard/safetensors.h"
#include "shard/zframe.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    SPOT_CHUNK_HEAD_BYTE = 72, /* skippable frame header and 64 bytes */
    SPOT_CHUNK_BYTE = 1 << 20, /* default raw size */
    SPOT_CHUNK_BYTE_MIN = 64,
    SPOT_CHUNK_BYTE_MAX = 64 << 20,
    SPOT_CHUNK_COUNT_MAX = 1 << 22,
    SPOT_CHUNK_STORED = 1, /* a flag: all frames are stored ones, stored_check is left out */
};

enum spot_codec {
    SPOT_CODEC_RAW,    /* stored */
    SPOT_CODEC_PLANES, /* byte planes, compressed by Huffman coding; see codec.h */
    SPOT_CODECS,
    SPOT_CODEC_AUTO = SPOT_CODECS, /* of a sender: the faster of the two for each chunk */
};

/* "raw", "planes"; -1 for an unknown name. */
const char *spot_codec_name(enum spot_codec codec);
int spot_codec_parse(const char *name);

/* How a file is cut. */
struct spot_chunk_map {
    const struct spot_st *st;
    uint32_t chunk_byte;
    uint64_t *first; /* [n_tensor + 1]: number of the first chunk of each tensor */
};

/* Returns 0, or -1 with *err (SPOT_EDATA) when chunk_byte is outside its range or the file needs
 * more than SPOT_CHUNK_COUNT_MAX chunks. `st` is borrowed. */
int spot_chunk_map_init(struct spot_chunk_map *map, const struct spot_st *st, uint64_t chunk_byte,
                        struct spot_err *err);
void spot_chunk_map_release(struct spot_chunk_map *map);
uint64_t spot_chunk_map_count(const struct spot_chunk_map *map);

/* One chunk. The first group is what spot_chunk_map_get fills; the second is known once coded. */
struct spot_chunk {
    uint32_t tensor, seq;
    uint64_t raw_off; /* from the start of the data buffer */
    uint32_t raw_byte;
    uint8_t elem_byte;
    enum spot_dtype dtype;

    uint8_t filter;
    uint16_t flags;
    uint32_t stored_byte;  /* of the frames after the header */
    uint32_t stored_check; /* low half of xxh3_64 of the frames, 0 with SPOT_CHUNK_STORED */
    uint64_t hash;         /* xxh3_64 of the raw bytes */
    uint64_t stream_id;
};
void spot_chunk_map_get(const struct spot_chunk_map *map, uint64_t seq, struct spot_chunk *chunk);

/* What one thread needs to code chunks. */
struct spot_coder {
    struct spot_zstd *zstd;
    struct spot_buf plane;
    struct spot_spans spans;
    bool has_frame_check; /* zstd's own checksum on every frame */
};
void spot_coder_init(struct spot_coder *coder);
void spot_coder_release(struct spot_coder *coder);

/* Append header and frames of one chunk.
 *   chunk   from spot_chunk_map_get, stream_id set; completed here
 *   raw     [chunk->raw_byte]
 * Returns 0, or -1 with *err (SPOT_ESYS). */
int spot_chunk_encode(struct spot_coder *coder, struct spot_chunk *chunk, enum spot_codec codec,
                      const void *raw, struct spot_buf *out, struct spot_err *err);

/* The same chunk as with SPOT_CODEC_RAW, whose bytes are read to where they are sent from: `read`
 * gets bytes [n_byte] at offset `at` of the data. Returns 0, or -1 with *err, which it set. */
typedef int (*spot_chunk_read_fn)(void *user, uint64_t at, void *data, size_t n_byte,
                                  struct spot_err *err);
int spot_chunk_read_stored(struct spot_coder *coder, struct spot_chunk *chunk,
                           spot_chunk_read_fn read, void *user, struct spot_buf *out,
                           struct spot_err *err);

/* Maximum bytes of the frames of a chunk; a header that claims more is rejected. */
size_t spot_chunk_stored_max(size_t raw_byte);

/* Read a header and check it against the map, which determines chunk `seq`.
 * Returns 0, or -1 with *err (SPOT_EDATA). */
int spot_chunk_parse(const void *head, const struct spot_chunk_map *map, uint64_t stream_id,
                     struct spot_chunk *chunk, struct spot_err *err);

/* Decode the frames of a parsed chunk into raw [raw_byte] and verify every hash.
 * Returns 0, or -1 with *err (SPOT_EDATA); raw is then undefined. */
int spot_chunk_decode(struct spot_coder *coder, struct spot_chunk *chunk, const void *frames,
                      void *raw, struct spot_err *err);

/* The same, but bytes that are stored as they are stay in the frames: the content is in
 * coder->spans, which points there and into raw, until the coder is used again. */
int spot_chunk_view(struct spot_coder *coder, struct spot_chunk *chunk, const void *frames,
                    void *raw, struct spot_err *err);

/* Called for a decoded chunk: raw [raw_byte], valid during the call. Returns 0, or -1 with *err. */
typedef int (*spot_chunk_fn)(void *user, const struct spot_chunk *chunk, const void *raw,
                             struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SHARD_CHUNK_H */
