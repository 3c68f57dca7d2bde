/* SPDX-License-Identifier: MIT */
/* shard_rig.h - arrays in memory to a stream in memory and back. */
#ifndef SPOT_TESTS_SHARD_RIG_H
#define SPOT_TESTS_SHARD_RIG_H

#include "shard/shard_mem.h"
#include "shard/stream.h"

/* Append the stream of all parts to `out`. Returns 0, or -1 with *err. */
static inline int encode_parts(const struct spot_shard_part *part, size_t n_part,
                               enum spot_codec codec, struct spot_buf *out, struct spot_err *err)
{
    const struct spot_stream_options options = { .codec = codec,
                                                 .no_frame_check = codec == SPOT_CODEC_RAW };
    struct spot_part_source from;
    struct spot_stream_writer *w;
    size_t n_raw = 0;
    int rc = -1;

    for (size_t i = 0; i < n_part; i++)
        n_raw += part[i].n_elem * spot_dtype_byte(part[i].dtype);
    spot_part_source_init(&from, part, n_part);
    spot_buf_more(out, spot_chunk_stored_max(n_raw) + 2 * from.header.n + 128 * n_part + 4096);
    w = spot_stream_writer_new(&options, from.header.data, from.header.n, out, err);
    if (w)
        while ((rc = spot_stream_writer_next(w, &from.source, out, err)) > 0)
            ;
    spot_stream_writer_free(w);
    spot_part_source_release(&from);
    return rc;
}

/* Decode a stream of exactly these parts. Returns 0 when every byte was there and every hash
 * matched, else -1 with *err. */
static inline int decode_parts(const void *bytes, size_t n_byte,
                               const struct spot_shard_place *places, size_t n_place,
                               struct spot_err *err)
{
    struct spot_place_sink into;
    struct spot_stream_reader *r;
    int rc;

    spot_place_sink_init(&into, places, n_place, true);
    r = spot_stream_reader_new(&into.sink, "shard");
    rc = spot_stream_reader_feed(r, bytes, n_byte, err);
    if (!rc)
        rc = spot_stream_reader_finish(r, err);
    spot_stream_reader_free(r);
    spot_place_sink_release(&into);
    return rc;
}

#endif /* SPOT_TESTS_SHARD_RIG_H */
