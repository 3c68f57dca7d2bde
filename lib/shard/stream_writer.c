/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "shard/stream.h"
#include "shard/stream_ledger.h"

struct spot_stream_writer {
    struct spot_coder coder;
    struct spot_st st;
    struct spot_chunk_map map;
    struct spot_ledger ledger;
    struct spot_stream_info info;
    enum spot_codec codec;
    struct spot_buf room; /* for a source that is read */
};

static int start(struct spot_stream_writer *w, const struct spot_stream_options *o,
                 const void *header, size_t n_header, struct spot_buf *out, struct spot_err *err)
{
    const char *source = o->source ? o->source : "safetensors";
    const size_t before = out->n;
    uint64_t n;

    if (n_header < SPOT_ST_PREFIX_BYTE)
        return spot_err_set(err, SPOT_EDATA, "%s: shorter than a safetensors header", source);
    if (spot_st_prefix(header, source, &n, err))
        return -1;
    if (n != n_header - SPOT_ST_PREFIX_BYTE)
        return spot_err_set(err, SPOT_EDATA, "%s: cut short in the safetensors header", source);
    if (spot_st_parse(&w->st, (const char *)header + SPOT_ST_PREFIX_BYTE, n, source, err) ||
        spot_chunk_map_init(&w->map, &w->st, o->chunk_byte ? o->chunk_byte : SPOT_CHUNK_BYTE, err))
        return -1;
    w->info.chunk_byte = w->map.chunk_byte;
    if (spot_stream_put_head(&w->coder, &w->info, header, n_header, out, err))
        return -1;
    spot_ledger_init(&w->ledger, &w->map, w->info.stream_id, out->n - before, n_header);
    return 0;
}

struct spot_stream_writer *spot_stream_writer_new(const struct spot_stream_options *o,
                                                  const void *header, size_t n_header,
                                                  struct spot_buf *out, struct spot_err *err)
{
    struct spot_stream_writer *w = spot_xcalloc(1, sizeof(*w));

    spot_coder_init(&w->coder);
    w->coder.has_frame_check = !o->no_frame_check;
    w->codec = o->codec;
    spot_stream_name(w->info.source, o->source);
    if (start(w, o, header, n_header, out, err)) {
        spot_stream_writer_free(w);
        return NULL;
    }
    return w;
}

void spot_stream_writer_free(struct spot_stream_writer *w)
{
    if (!w)
        return;
    spot_ledger_release(&w->ledger);
    spot_chunk_map_release(&w->map);
    spot_st_release(&w->st);
    spot_coder_release(&w->coder);
    spot_buf_release(&w->room);
    free(w);
}

const struct spot_chunk_map *spot_stream_writer_map(const struct spot_stream_writer *w)
{
    return &w->map;
}

uint64_t spot_stream_writer_id(const struct spot_stream_writer *w)
{
    return w->info.stream_id;
}

void spot_stream_writer_note(struct spot_stream_writer *w, const struct spot_chunk *chunk)
{
    spot_ledger_note(&w->ledger, chunk);
}

int spot_stream_writer_finish(struct spot_stream_writer *w, struct spot_buf *out,
                              struct spot_err *err)
{
    const uint64_t n_chunk = spot_chunk_map_count(&w->map);

    if (w->ledger.next != n_chunk)
        return spot_err_set(err, SPOT_EDATA,
                            "data ends early: %llu of %llu chunks, the header announces %llu bytes",
                            (unsigned long long)w->ledger.next, (unsigned long long)n_chunk,
                            (unsigned long long)w->st.data_byte);
    spot_ledger_close(&w->ledger, out);
    return 0;
}

int spot_stream_writer_next(struct spot_stream_writer *w, const struct spot_source *source,
                            struct spot_buf *out, struct spot_err *err)
{
    struct spot_chunk chunk;

    if (w->ledger.next == spot_chunk_map_count(&w->map))
        return spot_stream_writer_finish(w, out, err);
    spot_chunk_map_get(&w->map, w->ledger.next, &chunk);
    chunk.stream_id = w->info.stream_id;
    if (spot_source_encode(source, &w->coder, &chunk, w->codec, &w->room, out, err))
        return -1;
    spot_ledger_note(&w->ledger, &chunk);
    return 1;
}
