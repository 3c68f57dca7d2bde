/* SPDX-License-Identifier: MIT */
#include "shard/range.h"

const void *spot_source_get(const struct spot_source *source, const struct spot_chunk *chunk,
                            struct spot_buf *room, struct spot_err *err)
{
    const void *const here = source->point ? source->point(source->user, chunk) : NULL;

    if (here)
        return here;
    room->n = 0;
    return source->read(source->user, chunk->raw_off, spot_buf_more(room, chunk->raw_byte),
                        chunk->raw_byte, err)
               ? NULL
               : room->data;
}

int spot_source_encode(const struct spot_source *source, struct spot_coder *coder,
                       struct spot_chunk *chunk, enum spot_codec codec, struct spot_buf *room,
                       struct spot_buf *out, struct spot_err *err)
{
    const void *const raw = spot_source_get(source, chunk, room, err);

    return raw ? spot_chunk_encode(coder, chunk, codec, raw, out, err) : -1;
}

int spot_sink_take(const struct spot_sink *sink, struct spot_coder *coder, struct spot_chunk *chunk,
                   const void *frames, struct spot_buf *room, const void **raw,
                   struct spot_err *err)
{
    void *to = sink->place ? sink->place(sink->user, chunk) : NULL;

    room->n = 0;
    if (!to)
        to = spot_buf_more(room, chunk->raw_byte);
    *raw = to;
    return spot_chunk_decode(coder, chunk, frames, to, err) ||
                   (sink->put && sink->put(sink->user, chunk, to, err))
               ? -1
               : 0;
}
