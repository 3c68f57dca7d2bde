/* SPDX-License-Identifier: MIT */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "shard/decode_lane.h"
#include "shard/stream.h"
#include "shard/stream_ledger.h"

enum state { AT_HEAD, AT_CHUNK, AT_END, FAILED };

struct spot_stream_reader {
    const struct spot_sink *sink;
    const char *source;
    enum state state;
    struct spot_coder coder;
    struct spot_st st;
    struct spot_chunk_map map;
    struct spot_ledger ledger;
    uint64_t n_job;
    struct spot_decode_lane *lane; /* NULL: chunks are decoded where they are read */
    uint64_t next; /* chunk to be read; those from ledger.next on wait in the lane */
    struct spot_stream_info info;
    struct spot_buf header, pending, raw;
    size_t need;         /* bytes of `pending` needed for the next step */
    struct spot_buf end; /* the expected TAIL and TABLE */
    size_t end_at;       /* bytes of it seen */
};

struct spot_stream_reader *spot_stream_reader_new(const struct spot_sink *sink, const char *source)
{
    struct spot_stream_reader *r = spot_xcalloc(1, sizeof(*r));

    r->sink = sink;
    r->source = source;
    r->need = 1;
    r->n_job = 1;
    spot_coder_init(&r->coder);
    return r;
}

void spot_stream_reader_set_jobs(struct spot_stream_reader *r, uint64_t n_job)
{
    assert(r->state == AT_HEAD && n_job > 0);
    r->n_job = n_job;
}

void spot_stream_reader_free(struct spot_stream_reader *r)
{
    if (!r)
        return;
    spot_decode_lane_free(r->lane);
    spot_ledger_release(&r->ledger);
    spot_chunk_map_release(&r->map);
    spot_st_release(&r->st);
    spot_coder_release(&r->coder);
    spot_buf_release(&r->header);
    spot_buf_release(&r->pending);
    spot_buf_release(&r->raw);
    spot_buf_release(&r->end);
    free(r);
}

const struct spot_stream_info *spot_stream_reader_info(const struct spot_stream_reader *r)
{
    return &r->info;
}

static int hand_out(struct spot_stream_reader *r, const struct spot_chunk *chunk, const void *raw,
                    struct spot_err *err)
{
    spot_ledger_note(&r->ledger, chunk);
    return r->sink->on_chunk ? r->sink->on_chunk(r->sink->user, chunk, raw, err) : 0;
}

/* Return the oldest chunk in the lane. Returns 1, 0 if there is none, or -1: then no later one is
 * returned either. */
static int reap(struct spot_stream_reader *r, struct spot_err *err)
{
    const struct spot_chunk *chunk;
    const void *raw;
    const int got = r->lane ? spot_decode_lane_reap(r->lane, &chunk, &raw, err) : 0;

    if (got > 0 && !hand_out(r, chunk, raw, err))
        return 1;
    if (!got)
        return 0;
    spot_decode_lane_free(r->lane);
    r->lane = NULL;
    return -1;
}

static int drain(struct spot_stream_reader *r, struct spot_err *err)
{
    int got;

    while ((got = reap(r, err)) > 0)
        ;
    return got;
}

static int enter_chunks(struct spot_stream_reader *r, struct spot_err *err)
{
    r->state = AT_CHUNK;
    if (r->next < spot_chunk_map_count(&r->map))
        return 0;
    if (drain(r, err))
        return -1;
    spot_ledger_close(&r->ledger, &r->end);
    r->state = AT_END;
    return 0;
}

/* The steps below parse bytes [n] and set *used, or leave it 0 and set *need. With a lane, `bytes`
 * is `pending`, and the lane takes a chunk out of it instead of setting *used. */
static int step_head(struct spot_stream_reader *r, const unsigned char *bytes, size_t n,
                     size_t *used, size_t *need, struct spot_err *err)
{
    uint64_t n_json;

    if (spot_stream_get_head(&r->coder, bytes, n, &r->info, &r->header, used, need, err))
        return -1;
    if (!*used)
        return 0;
    if (spot_st_prefix(r->header.data, r->source, &n_json, err))
        return -1;
    if (n_json != r->header.n - SPOT_ST_PREFIX_BYTE)
        return spot_err_set(err, SPOT_EDATA, "safetensors header of %llu bytes in %zu",
                            (unsigned long long)n_json, r->header.n);
    if (spot_st_parse(&r->st, (const char *)r->header.data + SPOT_ST_PREFIX_BYTE, n_json, r->source,
                      err) ||
        spot_chunk_map_init(&r->map, &r->st, r->info.chunk_byte, err))
        return -1;
    spot_ledger_init(&r->ledger, &r->map, r->info.stream_id, *used, r->header.n);
    if (r->sink->begin && r->sink->begin(r->sink->user, &r->st, r->header.data, r->header.n, err))
        return -1;
    if (r->n_job > 1 &&
        !(r->lane = spot_decode_lane_new(r->n_job, r->map.chunk_byte, r->sink, err)))
        return -1;
    return enter_chunks(r, err);
}

/* Passes the first unit of `pending` to the lane, with its buffer. */
static int submit_chunk(struct spot_stream_reader *r, const struct spot_chunk *chunk,
                        struct spot_err *err)
{
    while (!spot_decode_lane_submit(r->lane, chunk, &r->pending))
        if (reap(r, err) < 0)
            return -1;
    return 0;
}

static int decode_chunk(struct spot_stream_reader *r, struct spot_chunk *chunk, const void *frames,
                        struct spot_err *err)
{
    const void *raw;

    if (spot_sink_take(r->sink, &r->coder, chunk, frames, &r->raw, &raw, err))
        return -1;
    return hand_out(r, chunk, raw, err);
}

static int step_chunk(struct spot_stream_reader *r, const unsigned char *bytes, size_t n,
                      size_t *used, size_t *need, struct spot_err *err)
{
    struct spot_chunk chunk;

    *need = SPOT_CHUNK_HEAD_BYTE;
    if (n < *need)
        return 0;
    if (spot_chunk_parse(bytes, &r->map, r->info.stream_id, &chunk, err))
        return -1;
    if (chunk.seq != r->next)
        return spot_err_set(err, SPOT_EDATA, "chunk %u, expected chunk %llu", chunk.seq,
                            (unsigned long long)r->next);
    *need += chunk.stored_byte;
    if (n < *need)
        return 0;
    if (r->lane) {
        assert(bytes == r->pending.data);
        if (submit_chunk(r, &chunk, err))
            return -1;
        *need = SPOT_CHUNK_HEAD_BYTE;
    } else {
        *used = *need;
        if (decode_chunk(r, &chunk, bytes + SPOT_CHUNK_HEAD_BYTE, err))
            return -1;
    }
    r->next++;
    return enter_chunks(r, err);
}

static int step_end(struct spot_stream_reader *r, const unsigned char *bytes, size_t n,
                    size_t *used, struct spot_err *err)
{
    const size_t left = r->end.n - r->end_at;

    if (!left)
        return spot_err_set(err, SPOT_EDATA, "bytes after the end of the stream");
    *used = n < left ? n : left;
    if (memcmp(bytes, r->end.data + r->end_at, *used) != 0)
        return spot_err_set(err, SPOT_EDATA, "the end of the stream does not match its chunks");
    r->end_at += *used;
    return 0;
}

static int step(struct spot_stream_reader *r, const unsigned char *bytes, size_t n, size_t *used,
                size_t *need, struct spot_err *err)
{
    *used = 0;
    *need = 1;
    switch (r->state) {
    case AT_HEAD:
        return step_head(r, bytes, n, used, need, err);
    case AT_CHUNK:
        return step_chunk(r, bytes, n, used, need, err);
    case AT_END:
        if (step_end(r, bytes, n, used, err))
            return -1;
        *need = r->end.n - r->end_at;
        return 0;
    case FAILED:
        break;
    }
    return spot_err_set(err, SPOT_EDATA, "the stream has failed already");
}

/* Adds the name of the source to an error. */
static int fail(struct spot_stream_reader *r, const struct spot_err *cause, struct spot_err *err)
{
    r->state = FAILED;
    if (err)
        *err = *cause;
    return cause->code == SPOT_EDATA
               ? spot_err_set(err, SPOT_EDATA, "%s: %.480s", r->source, cause->msg)
               : -1;
}

int spot_stream_reader_drain(struct spot_stream_reader *r, struct spot_err *err)
{
    struct spot_err cause = { 0 };

    return drain(r, &cause) ? fail(r, &cause, err) : 0;
}

/* One step. If it fails, earlier chunks in the lane are checked first. */
static int take(struct spot_stream_reader *r, const unsigned char *bytes, size_t n, size_t *used,
                struct spot_err *err)
{
    struct spot_err cause = { 0 };

    if (!step(r, bytes, n, used, &r->need, &cause))
        return 0;
    return spot_stream_reader_drain(r, err) ? -1 : fail(r, &cause, err);
}

/* Copies input to `pending`, from which the lane takes chunks. */
static int feed_copy(struct spot_stream_reader *r, const unsigned char *at, size_t n_byte,
                     struct spot_err *err)
{
    while (n_byte) {
        size_t n;
        void *to = spot_stream_reader_room(r, &n);

        n = n < n_byte ? n : n_byte;
        memcpy(to, at, n);
        if (spot_stream_reader_took(r, n, err))
            return -1;
        at += n;
        n_byte -= n;
    }
    return 0;
}

/* Whole units are parsed in place; only an incomplete unit at the end of `bytes` is copied.
 */
int spot_stream_reader_feed(struct spot_stream_reader *r, const void *bytes, size_t n_byte,
                            struct spot_err *err)
{
    const unsigned char *at = bytes;
    size_t used;

    if (r->n_job > 1)
        return feed_copy(r, at, n_byte, err);
    while (n_byte) {
        const bool is_pending = r->pending.n > 0;
        size_t top_up = 0;

        if (is_pending) {
            top_up = r->need > r->pending.n ? r->need - r->pending.n : 0;
            top_up = top_up < n_byte ? top_up : n_byte;
            spot_buf_add(&r->pending, at, top_up);
        }
        if (take(r, is_pending ? r->pending.data : at, is_pending ? r->pending.n : n_byte, &used,
                 err))
            return -1;
        if (is_pending) {
            at += top_up;
            n_byte -= top_up;
            if (used)
                r->pending.n = 0; /* never more than one unit is kept */
        } else if (used) {
            at += used;
            n_byte -= used;
        } else {
            spot_buf_add(&r->pending, at, n_byte);
            return 0;
        }
    }
    return 0;
}

/* Room for the needed unit and the head of the next one, so that there is one read per chunk. */
void *spot_stream_reader_room(struct spot_stream_reader *r, size_t *n_byte)
{
    enum { AT_ONCE = 4 << 20 }; /* so that a false length takes no memory */
    const size_t need =
        (r->need > r->pending.n ? r->need - r->pending.n : 0) + SPOT_CHUNK_HEAD_BYTE;

    *n_byte = need < AT_ONCE ? need : AT_ONCE;
    return spot_buf_more(&r->pending, *n_byte);
}

int spot_stream_reader_took(struct spot_stream_reader *r, size_t n_byte, struct spot_err *err)
{
    size_t before, used;

    r->pending.n += n_byte;
    do { /* until a step consumes nothing; less than a unit remains, mostly a chunk's header */
        before = r->pending.n;
        if (before && take(r, r->pending.data, before, &used, err))
            return -1;
        if (before && used) {
            r->pending.n -= used;
            memmove(r->pending.data, r->pending.data + used, r->pending.n);
        }
    } while (r->pending.n < before);
    return 0;
}

int spot_stream_reader_finish(struct spot_stream_reader *r, struct spot_err *err)
{
    if (spot_stream_reader_drain(r, err))
        return -1;
    if (r->state == FAILED)
        return spot_err_set(err, SPOT_EDATA, "%s: the stream has failed already", r->source);
    if (r->state != AT_END || r->end_at != r->end.n)
        return spot_err_set(err, SPOT_EDATA, "%s: the stream ends early", r->source);
    return r->sink->commit ? r->sink->commit(r->sink->user, r->ledger.hash, err) : 0;
}

int spot_stream_reader_pull(struct spot_stream_reader *r, struct spot_port *port,
                            struct spot_err *err)
{
    size_t n, got;
    void *const to = spot_stream_reader_room(r, &n);

    if (r->state == AT_END && n > r->end.n - r->end_at)
        n = r->end.n - r->end_at;
    if (port->read(port, to, n, &got, err))
        return -1;
    if (!got)
        return spot_err_set(err, SPOT_EDATA, "%s: the stream ends early", r->source);
    if (spot_stream_reader_took(r, got, err))
        return -1;
    if (r->state != AT_END || r->end_at < r->end.n)
        return 0;
    return spot_stream_reader_finish(r, err) ? -1 : 1;
}
