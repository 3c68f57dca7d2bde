/* SPDX-License-Identifier: MIT */
/* clang-format off */
/* stream.h - safetensors in a valid .zst file: written and read in one pass, verified end to end.
 *
 *   stream := HEAD { CHUNK } TAIL TABLE
 *   HEAD   skippable frame: magic, version, JSON, hash; then one zstd frame of the safetensors header
 *   CHUNK  see chunk.h; in the order of the data buffer
 *   TAIL   skippable frame: a hash for each tensor, totals
 *   TABLE  zstd's seek table, one entry for HEAD, each CHUNK and TAIL
 *
 * zstd skips our frames and decodes the rest. Every bit of a stream is covered by a check: a
 * changed or missing one is an error. Memory is one chunk, raw and coded, for each thread.
 * docs/formats/stream.md
 */
/* clang-format on */
#ifndef SPOT_SHARD_STREAM_H
#define SPOT_SHARD_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/buf.h"
#include "common/err.h"
#include "common/json.h"
#include "common/port.h"
#include "shard/chunk.h"
#include "shard/range.h"
#include "shard/safetensors.h"

#ifdef __cplusplus
extern "C" {
#endif

/* docs/schema/stream.json, for the head's JSON, is made from this. */
extern const struct spot_doc_part spot_stream_part[];
/* Check the JSON of a head. Returns 0, or -1 with *err (SPOT_EDATA). */
int spot_stream_check_json(const char *text, size_t n_byte, struct spot_err *err);

enum { SPOT_STREAM_VERSION = 1, SPOT_STREAM_JSON_MAX = 16 << 10, SPOT_STREAM_NAME_MAX = 256 };

/* Content of HEAD. Text is UTF-8, empty when unknown. */
struct spot_stream_info {
    char source[SPOT_STREAM_NAME_MAX]; /* name of the sender */
    uint32_t chunk_byte;
    uint64_t stream_id; /* derived from all of HEAD and the safetensors header; set by the writer */
    uint64_t header_byte; /* of the JSON after the prefix */
};

/* Set a name in HEAD: it is truncated between characters to fit, and control characters and invalid
 * UTF-8 become '?'. NULL is the empty name. */
void spot_stream_name(char to[SPOT_STREAM_NAME_MAX], const char *from);

/* --- pieces, for code that transports chunks itself --- */

/* Append HEAD for a safetensors header (prefix and JSON, n_byte in all); sets info->stream_id and
 * info->header_byte. */
int spot_stream_put_head(struct spot_coder *coder, struct spot_stream_info *info,
                         const void *header, size_t n_byte, struct spot_buf *out,
                         struct spot_err *err);

/* Try to read HEAD from the start of bytes [n_byte].
 *   *used_byte its length, or 0 if more bytes are needed (*need_byte in all)
 *   header      gets prefix and JSON of the safetensors header
 * Returns 0, or -1 with *err (SPOT_EDATA). */
int spot_stream_get_head(struct spot_coder *coder, const void *bytes, size_t n_byte,
                         struct spot_stream_info *info, struct spot_buf *header, size_t *used_byte,
                         size_t *need_byte, struct spot_err *err);

/* --- writer --- */

struct spot_stream_options {
    enum spot_codec codec;
    uint32_t chunk_byte; /* SPOT_CHUNK_BYTE when 0 */
    bool no_frame_check; /* leave out zstd's own checksum of stored frames: faster */
    const char *source;
};

struct spot_stream_writer;

/* Start a stream: HEAD goes to `out`. header [n_header] is prefix and JSON of a safetensors file.
 * NULL with *err (SPOT_EDATA for a wrong header). */
struct spot_stream_writer *spot_stream_writer_new(const struct spot_stream_options *options,
                                                  const void *header, size_t n_header,
                                                  struct spot_buf *out, struct spot_err *err);
void spot_stream_writer_free(struct spot_stream_writer *w);

const struct spot_chunk_map *spot_stream_writer_map(const struct spot_stream_writer *w);
uint64_t spot_stream_writer_id(const struct spot_stream_writer *w);

/* Append the next chunk of `source`, which must have the header of this stream; after the last one
 * TAIL and TABLE. Returns 1 if there is more to come, 0 at the end, -1 with *err. */
int spot_stream_writer_next(struct spot_stream_writer *w, const struct spot_source *source,
                            struct spot_buf *out, struct spot_err *err);

/* Account for the next chunk, coded elsewhere with spot_chunk_encode and this stream's id. */
void spot_stream_writer_note(struct spot_stream_writer *w, const struct spot_chunk *chunk);

/* Append TAIL and TABLE. Returns 0, or -1 with *err (SPOT_EDATA) when data is missing. */
int spot_stream_writer_finish(struct spot_stream_writer *w, struct spot_buf *out,
                              struct spot_err *err);

/* --- reader --- */

struct spot_stream_reader;

/* `source` names the stream in messages; borrowed, as is the sink. */
struct spot_stream_reader *spot_stream_reader_new(const struct spot_sink *sink, const char *source);
void spot_stream_reader_free(struct spot_stream_reader *r);

/* Decode on this many threads; call it first. The chunks returned, their order and the error
 * reported (of the first bad chunk) do not change, but up to SPOT_LANE_BYTE of chunks are held
 * inside, until more bytes arrive or finish or drain is called. Callbacks except `place` and `put`
 * stay on the caller's thread. */
void spot_stream_reader_set_jobs(struct spot_stream_reader *r, uint64_t n_job);

/* Return the chunks held inside. -1 with *err: one of them is bad, or a callback failed. */
int spot_stream_reader_drain(struct spot_stream_reader *r, struct spot_err *err);

/* The next bytes, in pieces of any size. Chunks are passed on verified, tensors are verified at the
 * end. Returns 0, or -1 with *err: SPOT_EDATA for a damaged stream, or the error of a callback. */
int spot_stream_reader_feed(struct spot_stream_reader *r, const void *bytes, size_t n_byte,
                            struct spot_err *err);

/* The same without a copy: read at most *n_byte bytes to the address returned, then report how many
 * were read. Use either these two or feed with one reader. */
void *spot_stream_reader_room(struct spot_stream_reader *r, size_t *n_byte);
int spot_stream_reader_took(struct spot_stream_reader *r, size_t n_byte, struct spot_err *err);

/* Read what a port delivers next, and nothing beyond the end of the stream. Returns 1 when the
 * stream is complete, after finishing it; 0 if there is more to come; -1 with *err. */
int spot_stream_reader_pull(struct spot_stream_reader *r, struct spot_port *port,
                            struct spot_err *err);

/* Commit the sink. -1 with *err: SPOT_EDATA unless the stream was complete, or the error of the
 * sink. */
int spot_stream_reader_finish(struct spot_stream_reader *r, struct spot_err *err);

/* The content of HEAD; zeroed until it has been read. */
const struct spot_stream_info *spot_stream_reader_info(const struct spot_stream_reader *r);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SHARD_STREAM_H */
