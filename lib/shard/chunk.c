/* SPDX-License-Identifier: MIT */
#include "shard/chunk.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/hash.h"
#include "common/le.h"
#include "common/xalloc.h"
#include "shard/codec.h"

enum { CHUNK_MAGIC = 0x184D2A51, BODY_BYTE = 64, HASHED_BYTE = 56 };

int spot_chunk_map_init(struct spot_chunk_map *map, const struct spot_st *st, uint64_t chunk_byte,
                        struct spot_err *err)
{
    uint64_t n = 0;

    memset(map, 0, sizeof(*map));
    if (chunk_byte < SPOT_CHUNK_BYTE_MIN || chunk_byte > SPOT_CHUNK_BYTE_MAX || chunk_byte % 8)
        return spot_err_set(
            err, SPOT_EDATA, "chunks of %llu bytes, expected a multiple of 8 from %d to %d",
            (unsigned long long)chunk_byte, SPOT_CHUNK_BYTE_MIN, SPOT_CHUNK_BYTE_MAX);
    map->st = st;
    map->chunk_byte = (uint32_t)chunk_byte;
    map->first = spot_xcalloc(st->n_tensor + 1, sizeof(*map->first));
    for (size_t i = 0; i < st->n_tensor; i++) {
        const uint64_t size = st->tensor[i].end - st->tensor[i].begin;

        n += size / chunk_byte + (size % chunk_byte != 0);
        map->first[i + 1] = n;
    }
    if (n > SPOT_CHUNK_COUNT_MAX) {
        spot_chunk_map_release(map);
        return spot_err_set(err, SPOT_EDATA,
                            "%llu bytes need %llu chunks of %llu bytes, the limit is %d",
                            (unsigned long long)st->data_byte, (unsigned long long)n,
                            (unsigned long long)chunk_byte, SPOT_CHUNK_COUNT_MAX);
    }
    return 0;
}

void spot_chunk_map_release(struct spot_chunk_map *map)
{
    free(map->first);
    memset(map, 0, sizeof(*map));
}

uint64_t spot_chunk_map_count(const struct spot_chunk_map *map)
{
    return map->first[map->st->n_tensor];
}

/* The tensor that chunk `seq` belongs to: the last one whose first chunk is at most `seq`. */
static size_t tensor_of(const struct spot_chunk_map *map, uint64_t seq)
{
    size_t low = 0, high = map->st->n_tensor;

    while (high - low > 1) {
        const size_t mid = low + (high - low) / 2;

        if (map->first[mid] <= seq)
            low = mid;
        else
            high = mid;
    }
    return low;
}

void spot_chunk_map_get(const struct spot_chunk_map *map, uint64_t seq, struct spot_chunk *chunk)
{
    const size_t tensor = tensor_of(map, seq);
    const struct spot_st_tensor *t = &map->st->tensor[tensor];
    const uint64_t at = t->begin + (seq - map->first[tensor]) * map->chunk_byte;

    assert(seq < spot_chunk_map_count(map));
    memset(chunk, 0, sizeof(*chunk));
    chunk->tensor = (uint32_t)tensor;
    chunk->seq = (uint32_t)seq;
    chunk->raw_off = at;
    chunk->raw_byte = (uint32_t)(t->end - at < map->chunk_byte ? t->end - at : map->chunk_byte);
    chunk->dtype = t->dtype;
    chunk->elem_byte = (uint8_t)spot_dtype_byte(t->dtype);
}

void spot_coder_init(struct spot_coder *coder)
{
    memset(coder, 0, sizeof(*coder));
    coder->zstd = spot_zstd_new();
    coder->has_frame_check = true;
}

void spot_coder_release(struct spot_coder *coder)
{
    spot_zstd_free(coder->zstd);
    spot_buf_release(&coder->plane);
    spot_spans_release(&coder->spans);
    memset(coder, 0, sizeof(*coder));
}

/* The hash of content in pieces: the same for the same bytes. */
static uint64_t hash_of(const struct spot_spans *spans)
{
    struct spot_hash_stream *stream;
    uint64_t hash;

    if (spans->n == 1)
        return spot_hash64(spans->span->at, spans->span->n);
    stream = spot_hash_stream_new();
    for (size_t i = 0; i < spans->n; i++)
        spot_hash_stream_add(stream, spans->span[i].at, spans->span[i].n);
    hash = spot_hash_stream_64(stream);
    spot_hash_stream_free(stream);
    return hash;
}

/* Layout of the 64 bytes: offset and width of each field. */
static void put_head(const struct spot_chunk *c, unsigned char *to)
{
    spot_le_put(to, (uint64_t)CHUNK_MAGIC, 4);
    spot_le_put(to + 4, BODY_BYTE, 4);
    to += 8;
    spot_le_put(to, c->tensor, 4);
    spot_le_put(to + 4, c->seq, 4);
    spot_le_put(to + 8, c->raw_off, 8);
    spot_le_put(to + 16, c->raw_byte, 4);
    spot_le_put(to + 20, c->stored_byte, 4);
    to[24] = c->filter;
    to[25] = c->elem_byte;
    spot_le_put(to + 26, c->flags, 2);
    spot_le_put(to + 28, c->stored_check, 4);
    spot_le_put(to + 32, 0, 8);
    spot_le_put(to + 40, c->hash, 8);
    spot_le_put(to + 48, c->stream_id, 8);
    spot_le_put(to + HASHED_BYTE, spot_hash64(to, HASHED_BYTE), 8);
}

size_t spot_chunk_stored_max(size_t raw_byte)
{
    return raw_byte + raw_byte / 64 + 1024;
}

/* Room for header and frames; out->n is then behind the header. */
static void begin(struct spot_buf *out, size_t raw_byte)
{
    spot_buf_more(out, SPOT_CHUNK_HEAD_BYTE + spot_chunk_stored_max(raw_byte));
    out->n += SPOT_CHUNK_HEAD_BYTE;
}

/* The frames are behind a header at `start` that is not yet written. */
static void finish(const struct spot_coder *coder, struct spot_chunk *chunk, bool all_stored,
                   size_t start, struct spot_buf *out)
{
    chunk->stored_byte = (uint32_t)(out->n - start - SPOT_CHUNK_HEAD_BYTE);
    assert(chunk->stored_byte <= spot_chunk_stored_max(chunk->raw_byte));
    /* Stored frames without zstd's checksum need no check of their own: they have one legal form,
     * around bytes that have a hash. With the checksum, readers verify stored_check (xxh3), which
     * takes a third of the time of zstd's XXH64. */
    chunk->flags = all_stored && !coder->has_frame_check ? SPOT_CHUNK_STORED : 0;
    if (!chunk->flags)
        chunk->stored_check =
            (uint32_t)spot_hash64(out->data + start + SPOT_CHUNK_HEAD_BYTE, chunk->stored_byte);
    put_head(chunk, out->data + start);
}

int spot_chunk_encode(struct spot_coder *coder, struct spot_chunk *chunk, enum spot_codec codec,
                      const void *raw, struct spot_buf *out, struct spot_err *err)
{
    const size_t start = out->n;
    bool all_stored;

    begin(out, chunk->raw_byte);
    chunk->hash = spot_hash64(raw, chunk->raw_byte);
    if (spot_codec_encode(coder, chunk, codec, raw, out, &all_stored, err)) {
        out->n = start;
        return -1;
    }
    finish(coder, chunk, all_stored, start, out);
    return 0;
}

int spot_chunk_read_stored(struct spot_coder *coder, struct spot_chunk *chunk,
                           spot_chunk_read_fn read, void *user, struct spot_buf *out,
                           struct spot_err *err)
{
    const size_t start = out->n;
    struct spot_spans *const spans = &coder->spans;
    unsigned char *frame;
    size_t run;

    begin(out, chunk->raw_byte);
    frame = out->data + out->n;
    spot_spans_clear(spans);
    for (size_t at = 0; at < chunk->raw_byte; at += run) {
        unsigned char *const to = spot_zframe_stored_at(frame, at, &run);

        run = run < chunk->raw_byte - at ? run : chunk->raw_byte - at;
        if (read(user, chunk->raw_off + at, to, run, err)) {
            out->n = start;
            return -1;
        }
        spot_spans_add(spans, to, run);
    }
    chunk->hash = hash_of(spans);
    chunk->filter = SPOT_FILTER_NONE;
    out->n += spot_zframe_close(frame, chunk->raw_byte, coder->has_frame_check);
    finish(coder, chunk, true, start, out);
    return 0;
}

int spot_chunk_parse(const void *head, const struct spot_chunk_map *map, uint64_t stream_id,
                     struct spot_chunk *chunk, struct spot_err *err)
{
    const unsigned char *at = (const unsigned char *)head + 8;
    const uint64_t seq = spot_le_get(at + 4, 4);

    if (spot_le_get(head, 4) != CHUNK_MAGIC || spot_le_get(at - 4, 4) != BODY_BYTE ||
        spot_le_get(at + HASHED_BYTE, 8) != spot_hash64(at, HASHED_BYTE))
        return spot_err_set(err, SPOT_EDATA, "expected a chunk header, or it is damaged");
    if (seq >= spot_chunk_map_count(map) || spot_le_get(at + 48, 8) != stream_id)
        return spot_err_set(err, SPOT_EDATA, "chunk %llu does not belong to this stream",
                            (unsigned long long)seq);
    spot_chunk_map_get(map, seq, chunk);
    if (spot_le_get(at, 4) != chunk->tensor || spot_le_get(at + 8, 8) != chunk->raw_off ||
        spot_le_get(at + 16, 4) != chunk->raw_byte || at[25] != chunk->elem_byte)
        return spot_err_set(err, SPOT_EDATA, "chunk %llu does not fit the safetensors header",
                            (unsigned long long)seq);
    chunk->stored_byte = (uint32_t)spot_le_get(at + 20, 4);
    chunk->filter = at[24];
    chunk->flags = (uint16_t)spot_le_get(at + 26, 2);
    chunk->stored_check = (uint32_t)spot_le_get(at + 28, 4);
    chunk->hash = spot_le_get(at + 40, 8);
    chunk->stream_id = stream_id;
    if (chunk->flags & ~SPOT_CHUNK_STORED || !chunk->stored_byte || spot_le_get(at + 32, 8) ||
        chunk->stored_byte > spot_chunk_stored_max(chunk->raw_byte))
        return spot_err_set(err, SPOT_EDATA, "chunk %llu: %u stored bytes for %u raw ones",
                            (unsigned long long)seq, chunk->stored_byte, chunk->raw_byte);
    return 0;
}

int spot_chunk_view(struct spot_coder *coder, struct spot_chunk *chunk, const void *frames,
                    void *raw, struct spot_err *err)
{
    const bool is_stored = chunk->flags & SPOT_CHUNK_STORED;
    bool all_stored;

    if (!is_stored && (uint32_t)spot_hash64(frames, chunk->stored_byte) != chunk->stored_check)
        return spot_err_set(err, SPOT_EDATA, "chunk %u is damaged", chunk->seq);
    if (spot_codec_view(coder, chunk, frames, raw, &all_stored, err))
        return -1;
    if ((is_stored && !all_stored) || hash_of(&coder->spans) != chunk->hash)
        return spot_err_set(err, SPOT_EDATA, "chunk %u does not match its hash", chunk->seq);
    return 0;
}

int spot_chunk_decode(struct spot_coder *coder, struct spot_chunk *chunk, const void *frames,
                      void *raw, struct spot_err *err)
{
    if (spot_chunk_view(coder, chunk, frames, raw, err))
        return -1;
    spot_spans_copy(&coder->spans, raw);
    return 0;
}
