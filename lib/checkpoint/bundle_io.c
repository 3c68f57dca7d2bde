/* SPDX-License-Identifier: MIT */
#include "checkpoint/bundle_io.h"

#include <stdlib.h>
#include <string.h>

#include "comm/wire.h"
#include "common/xalloc.h"
#include "shard/shard_mem.h"
#include "shard/stream.h"

enum { HEAD_BYTE = 16, PARTS = SPOT_PLANES + 1 };

static const char *const part_name[PARTS] = { "master", "m", "v", "exponent" };

static size_t part_elem(const struct spot_bundle *bundle, int part)
{
    return part < SPOT_PLANES ? bundle->arena.n_elem : SPOT_TENSORS_MAX;
}

/* --- writing --- */

struct spot_bundle_writer {
    const struct spot_bundle *bundle;
    struct spot_shard_part part[PARTS];
    struct spot_part_source from;
    struct spot_stream_writer *stream;
    struct spot_buf head; /* the part of the head that was not returned yet */
};

struct spot_bundle_writer *spot_bundle_writer_new(const struct spot_bundle *bundle,
                                                  struct spot_err *err)
{
    const struct spot_stream_options options = { .codec = SPOT_CODEC_RAW, .no_frame_check = true };
    struct spot_bundle_writer *w = spot_xcalloc(1, sizeof(*w));

    for (int i = 0; i < PARTS; i++)
        w->part[i] = (struct spot_shard_part){
            .name = part_name[i],
            .dtype = i < SPOT_PLANES ? SPOT_DT_F32 : SPOT_DT_I32,
            .n_elem = part_elem(bundle, i),
            .data = i < SPOT_PLANES ? (const void *)bundle->plane[i] : bundle->exponent,
        };
    spot_part_source_init(&w->from, w->part, PARTS);
    spot_put_i64(&w->head, bundle->step);
    spot_put_i64(&w->head, bundle->index);
    w->stream =
        spot_stream_writer_new(&options, w->from.header.data, w->from.header.n, &w->head, err);
    if (w->stream)
        return w;
    spot_bundle_writer_free(w);
    return NULL;
}

void spot_bundle_writer_free(struct spot_bundle_writer *w)
{
    if (!w)
        return;
    spot_stream_writer_free(w->stream);
    spot_part_source_release(&w->from);
    spot_buf_release(&w->head);
    free(w);
}

int spot_bundle_writer_next(struct spot_bundle_writer *w, struct spot_buf *out,
                            struct spot_err *err)
{
    spot_buf_add(out, w->head.data, w->head.n);
    w->head.n = 0;
    return spot_stream_writer_next(w->stream, &w->from.source, out, err);
}

uint8_t *spot_bundle_pack(const struct spot_bundle *bundle, size_t *n_byte, struct spot_err *err)
{
    enum {
        AROUND = 16 << 10
    }; /* enough for heads, tail and table of all but the largest bundles */
    struct spot_bundle_writer *w = spot_bundle_writer_new(bundle, err);
    struct spot_buf out = { 0 };
    int rc = -1;

    if (w) {
        spot_buf_more(&out, spot_chunk_stored_max(SPOT_PLANES * 4 * bundle->arena.n_elem) + AROUND);
        while ((rc = spot_bundle_writer_next(w, &out, err)) > 0)
            ;
    }
    spot_bundle_writer_free(w);
    if (rc)
        spot_buf_release(&out);
    *n_byte = out.n;
    return out.data;
}

/* --- reading --- */

int spot_bundle_check_head(int index, int64_t step, const void *data, size_t n_byte,
                           struct spot_err *err)
{
    struct spot_wire_in in = spot_wire_in(data, n_byte);
    const int64_t got_step = spot_get_i64(&in), got_index = spot_get_i64(&in);

    if (!in.bad && got_step == step && got_index == index)
        return 0;
    return spot_err_set(err, SPOT_EDATA,
                        "expected bundle %d of step %lld, got bundle %lld of step %lld", index,
                        (long long)step, (long long)got_index, (long long)got_step);
}

struct spot_bundle_reader {
    struct spot_place_sink into; /* first member: passed to the sink's callbacks */
    const struct spot_shape *shape;
    int index;
    int64_t step;
    bool is_short;
    struct spot_bundle *bundle;
    struct spot_shard_place place[PARTS];
    struct spot_stream_reader *stream; /* NULL: the head was not received yet */
    spot_bundle_plane_fn *fn;          /* called for the planes in a scan */
    void *user;
    uint64_t n_scanned; /* bytes of planes passed on so far */
    uint8_t head[HEAD_BYTE];
    size_t n_head;
};

struct spot_bundle_reader *spot_bundle_reader_new(const struct spot_shape *shape, int index,
                                                  int64_t step)
{
    struct spot_bundle_reader *r = spot_xcalloc(1, sizeof(*r));

    r->shape = shape;
    r->index = index;
    r->step = step;
    return r;
}

void spot_bundle_reader_free(struct spot_bundle_reader *r)
{
    if (!r)
        return;
    spot_stream_reader_free(r->stream);
    spot_place_sink_release(&r->into);
    spot_bundle_free(r->bundle);
    free(r);
}

/* The head was received: allocate the bundle, or only check the head. */
static int start(struct spot_bundle_reader *r, const void *head, size_t n_byte, bool is_kept,
                 struct spot_err *err)
{
    struct spot_bundle *const b = spot_xcalloc(1, sizeof(*b));

    if (spot_bundle_check_head(r->index, r->step, head, n_byte, err) ||
        (is_kept && (r->is_short = spot_bundle_init(b, r->shape, r->index, err) != 0))) {
        free(b);
        return -1;
    }
    r->bundle = b;
    b->index = r->index;
    b->step = r->step;
    spot_arena_of(r->shape, r->index, &b->arena);
    for (int i = 0; i < PARTS; i++)
        r->place[i] = (struct spot_shard_place){
            .name = part_name[i],
            .dtype = i < SPOT_PLANES ? SPOT_DT_F32 : SPOT_DT_I32,
            .n_elem = part_elem(b, i),
            .data = i < SPOT_PLANES ? (void *)b->plane[i] : b->exponent,
        };
    spot_place_sink_init(&r->into, r->place, PARTS, is_kept);
    r->stream = spot_stream_reader_new(&r->into.sink, "shard");
    return 0;
}

bool spot_bundle_reader_is_short(const struct spot_bundle_reader *r)
{
    return r->is_short;
}

static struct spot_bundle *take(struct spot_bundle_reader *r)
{
    struct spot_bundle *const bundle = r->bundle;

    r->bundle = NULL;
    return bundle;
}

int spot_bundle_reader_pull(struct spot_bundle_reader *r, struct spot_port *port,
                            struct spot_bundle **bundle, struct spot_err *err)
{
    uint8_t head[HEAD_BYTE];
    int rc;

    if (!r->stream && (spot_port_read_all(port, head, sizeof(head), err) ||
                       start(r, head, sizeof(head), true, err)))
        return -1;
    rc = spot_stream_reader_pull(r->stream, port, err);
    if (rc > 0)
        *bundle = take(r);
    return rc;
}

/* --- scanning --- */

static int hand_out(void *user, const struct spot_chunk *chunk, const void *raw,
                    struct spot_err *err)
{
    struct spot_bundle_reader *const r = user;
    const size_t part = r->into.of_tensor[chunk->tensor];
    const size_t at = chunk->raw_off - r->into.st->tensor[chunk->tensor].begin;

    if (part >= SPOT_PLANES)
        return 0;
    if (r->n_scanned != part * r->place[part].n_elem * sizeof(float) + at)
        return spot_err_set(err, SPOT_EDATA, "the planes of bundle %d are not in order", r->index);
    r->fn(r->user, (enum spot_plane)part, at, raw, chunk->raw_byte);
    r->n_scanned += chunk->raw_byte;
    return 0;
}

struct spot_bundle_reader *spot_bundle_scan_new(const struct spot_shape *shape, int index,
                                                int64_t step, spot_bundle_plane_fn *fn, void *user)
{
    struct spot_bundle_reader *const r = spot_bundle_reader_new(shape, index, step);

    r->fn = fn;
    r->user = user;
    return r;
}

int spot_bundle_reader_feed(struct spot_bundle_reader *r, const void *data, size_t n_byte,
                            struct spot_err *err)
{
    const size_t lacks = HEAD_BYTE - r->n_head, n = n_byte < lacks ? n_byte : lacks;

    memcpy(r->head + r->n_head, data, n);
    r->n_head += n;
    if (r->n_head < HEAD_BYTE)
        return 0;
    if (!r->stream) {
        if (start(r, r->head, HEAD_BYTE, !r->fn, err))
            return -1;
        r->into.sink.on_chunk = r->fn ? hand_out : NULL;
    }
    return spot_stream_reader_feed(r->stream, (const uint8_t *)data + n, n_byte - n, err);
}

int spot_bundle_reader_finish(struct spot_bundle_reader *r, struct spot_bundle **bundle,
                              struct spot_err *err)
{
    *bundle = NULL;
    if (!r->stream)
        return spot_err_set(err, SPOT_EDATA, "bundle %d: expected a stream, got %zu bytes",
                            r->index, r->n_head);
    if (spot_stream_reader_finish(r->stream, err))
        return -1;
    if (!r->fn)
        *bundle = take(r);
    return 0;
}

/* --- at once --- */

static struct spot_bundle *read_all(const struct spot_shape *shape, int index, int64_t step,
                                    const void *data, size_t n_byte, bool is_kept,
                                    struct spot_err *err)
{
    struct spot_bundle_reader *r = spot_bundle_reader_new(shape, index, step);
    struct spot_bundle *bundle = NULL;

    if (!start(r, data, n_byte, is_kept, err) &&
        !spot_stream_reader_feed(r->stream, (const uint8_t *)data + HEAD_BYTE, n_byte - HEAD_BYTE,
                                 err) &&
        !spot_stream_reader_finish(r->stream, err))
        bundle = take(r);
    spot_bundle_reader_free(r);
    return bundle;
}

struct spot_bundle *spot_bundle_unpack(const struct spot_shape *shape, int index, int64_t step,
                                       const void *data, size_t n_byte, struct spot_err *err)
{
    return read_all(shape, index, step, data, n_byte, true, err);
}

int spot_bundle_check(const struct spot_shape *shape, int index, int64_t step, const void *data,
                      size_t n_byte, struct spot_err *err)
{
    struct spot_bundle *const bundle = read_all(shape, index, step, data, n_byte, false, err);

    spot_bundle_free(bundle);
    return bundle ? 0 : -1;
}
