/* SPDX-License-Identifier: MIT */
#include "shard/codec.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "common/le.h"
#include "shard/plane.h"

enum {
    WIDTH_MAX = 8,   /* bytes of an element */
    SAMPLE = 2048,   /* elements sampled before deciding, */
    SAMPLE_RUN = 32, /* in runs of this length, since each run costs a cache miss */
};

/* Bits per byte, from samples: above the first, Huffman gains less than it costs; below the second,
 * matches gain more than Huffman, whose minimum is one bit per byte. */
static const double noise_bits = 7.75, runs_bits = 1.5;

static const char *const codec_name[SPOT_CODECS] = { "raw", "planes" };

const char *spot_codec_name(enum spot_codec codec)
{
    return codec_name[codec];
}

int spot_codec_parse(const char *name)
{
    for (int i = 0; i < SPOT_CODECS; i++)
        if (!strcmp(name, codec_name[i]))
            return i;
    return -1;
}

static bool is_float(enum spot_dtype dtype)
{
    return dtype == SPOT_DT_F16 || dtype == SPOT_DT_BF16 || dtype == SPOT_DT_F32 ||
           dtype == SPOT_DT_F64;
}

/* --- sampling --- */

struct sample {
    unsigned n;
    unsigned count[WIDTH_MAX][256];
};

static uint64_t element(const uint8_t *at, unsigned width, bool rotate)
{
    uint64_t x = width == 2   ? spot_le_get(at, 2)
                 : width == 4 ? spot_le_get(at, 4)
                              : spot_le_get(at, (int)width);

    if (rotate)
        x = x << 1 | x >> (8 * width - 1);
    return x;
}

static void count(struct sample *s, const uint8_t *raw, unsigned width, bool rotate)
{
    const uint64_t x = element(raw, width, rotate);

    for (unsigned b = 0; b < width; b++)
        s->count[b][x >> 8 * b & 255]++;
    s->n++;
}

/* Samples runs of elements at equal distances. */
static void look(struct sample *s, const uint8_t *raw, size_t n_elem, unsigned width, bool rotate)
{
    const size_t n_run = SAMPLE / SAMPLE_RUN;
    const size_t stride = n_elem > SAMPLE ? n_elem / n_run : SAMPLE_RUN;

    memset(s, 0, sizeof(*s));
    for (size_t from = 0; from < n_elem && s->n < SAMPLE; from += stride)
        for (size_t i = from; i < n_elem && i < from + SAMPLE_RUN; i++)
            count(s, raw + i * width, width, rotate);
}

/* Entropy of one plane in bits a byte, corrected for the size of the sample (Miller 1955). */
static double bits_of(const struct sample *s, unsigned plane)
{
    double sum = 0;
    int seen = 0;

    for (int v = 0; v < 256; v++)
        if (s->count[plane][v]) {
            sum += s->count[plane][v] * log2(s->count[plane][v]);
            seen++;
        }
    return log2(s->n) - sum / s->n + (seen - 1) / (2 * s->n * log(2));
}

/* --- encoding --- */

static int put_stored(struct spot_coder *coder, const void *data, size_t n, struct spot_buf *out)
{
    spot_zframe_store(data, n, coder->has_frame_check, out);
    return 0;
}

/* Writes one compressed frame, or a stored one if that is smaller. */
static int put_compressed(struct spot_coder *coder, const void *data, size_t n,
                          enum spot_zframe_mode mode, struct spot_buf *out, bool *all_stored,
                          struct spot_err *err)
{
    const size_t start = out->n;

    if (spot_zframe_compress(coder->zstd, data, n, mode, coder->has_frame_check, out, err))
        return -1;
    if (out->n - start < spot_zframe_stored_byte(n, coder->has_frame_check)) {
        *all_stored = false;
        return 0;
    }
    out->n = start;
    return put_stored(coder, data, n, out);
}

/* Writes the first n_lead planes to the content of their stored frames, the others to `rest`. */
static void split(const uint8_t *raw, size_t n_elem, unsigned width, bool rotate, unsigned n_lead,
                  uint8_t *frame, uint8_t *rest)
{
    const struct spot_plane_ops *ops = spot_plane_ops();
    uint8_t *plane[WIDTH_MAX];
    size_t n;

    for (size_t i = 0; i < n_elem; i += n) {
        n = n_elem - i;
        for (unsigned b = 0; b < width; b++) {
            size_t run = n;

            plane[b] = b < n_lead ? spot_zframe_stored_at(frame, b * n_elem + i, &run)
                                  : rest + (b - n_lead) * n_elem + i;
            n = run < n ? run : n;
        }
        if (width == 2)
            ops->split2(raw + 2 * i, n, rotate, plane);
        else if (width == 4)
            ops->split4(raw + 4 * i, n, rotate, plane);
        else
            spot_plane_split8(raw + 8 * i, n, rotate, plane);
    }
}

/* Writes planes from `first` on, stored contiguously in `plane`: noise is stored, other planes are
 * compressed, each in its own frame. */
static int put_rest(struct spot_coder *coder, const uint8_t *plane, size_t n_elem, unsigned first,
                    unsigned width, const double *bits, struct spot_buf *out, bool *all_stored,
                    struct spot_err *err)
{
    unsigned stored = 0; /* noise planes before this one, not yet written */

    for (unsigned b = first; b < width; b++, plane += n_elem) {
        if (bits[b] > noise_bits) {
            stored++;
            continue;
        }
        if (stored)
            put_stored(coder, plane - stored * n_elem, stored * n_elem, out);
        stored = 0;
        if (put_compressed(coder, plane, n_elem,
                           bits[b] < runs_bits ? SPOT_ZFRAME_LZ : SPOT_ZFRAME_HUFFMAN, out,
                           all_stored, err))
            return -1;
    }
    if (stored)
        put_stored(coder, plane - stored * n_elem, stored * n_elem, out);
    return 0;
}

/* The lowest planes are noise in all floats; they are split directly into their frames. */
static int put_planes(struct spot_coder *coder, struct spot_chunk *chunk, const uint8_t *raw,
                      const struct sample *sample, struct spot_buf *out, bool *all_stored,
                      struct spot_err *err)
{
    const unsigned width = chunk->elem_byte;
    const size_t n_elem = chunk->raw_byte / width;
    const bool rotate = is_float(chunk->dtype);
    double bits[WIDTH_MAX];
    unsigned n_lead = 0;
    uint8_t *frame, *rest;

    for (unsigned b = 0; b < width; b++) {
        bits[b] = bits_of(sample, b);
        n_lead += n_lead == b && bits[b] > noise_bits;
    }
    if (n_lead == width)
        return put_stored(coder, raw, chunk->raw_byte, out);
    if (width == 1)
        return put_rest(coder, raw, n_elem, 0, 1, bits, out, all_stored, err);
    chunk->filter |= rotate ? SPOT_FILTER_ROTATE : SPOT_FILTER_SPLIT;
    frame = spot_buf_more(out, spot_zframe_stored_byte(n_lead * n_elem, coder->has_frame_check));
    rest = spot_buf_more(&coder->plane, (width - n_lead) * n_elem);
    split(raw, n_elem, width, rotate, n_lead, frame, rest);
    if (n_lead)
        out->n += spot_zframe_close(frame, n_lead * n_elem, coder->has_frame_check);
    return put_rest(coder, rest, n_elem, n_lead, width, bits, out, all_stored, err);
}

int spot_codec_encode(struct spot_coder *coder, struct spot_chunk *chunk, enum spot_codec codec,
                      const void *raw, struct spot_buf *out, bool *all_stored, struct spot_err *err)
{
    struct sample sample;

    chunk->filter = SPOT_FILTER_NONE;
    *all_stored = true;
    if (codec == SPOT_CODEC_RAW)
        return put_stored(coder, raw, chunk->raw_byte, out);
    look(&sample, raw, chunk->raw_byte / chunk->elem_byte, chunk->elem_byte,
         is_float(chunk->dtype));
    return put_planes(coder, chunk, raw, &sample, out, all_stored, err);
}

/* --- decoding --- */

/* All frames of a chunk, in order; compressed ones are decoded to room [n_room]. */
static int view_frames(struct spot_coder *coder, const struct spot_chunk *chunk,
                       const uint8_t *frames, uint8_t *room, size_t n_room, bool *all_stored,
                       struct spot_err *err)
{
    const enum spot_zframe_trust trust =
        chunk->flags & SPOT_CHUNK_STORED ? SPOT_ZFRAME_CHECK : SPOT_ZFRAME_TRUST;
    struct spot_spans *spans = &coder->spans;
    int n_frame = 0;
    size_t at = 0;

    spot_spans_clear(spans);
    *all_stored = true;
    while (at < chunk->stored_byte) {
        struct spot_zframe_result r;

        if (n_frame++ == WIDTH_MAX)
            return spot_err_set(err, SPOT_EDATA, "chunk %u: more frames than planes", chunk->seq);
        if (spot_zframe_view(coder->zstd, frames + at, chunk->stored_byte - at, trust,
                             room + spans->n_byte, n_room - spans->n_byte, spans, &r, err))
            return -1;
        at += r.used_byte;
        *all_stored &= r.is_stored;
    }
    return 0;
}

/* A position in the content of spans. */
struct cursor {
    const struct spot_span *span;
    size_t at;
};

static struct cursor seek(const struct spot_spans *spans, size_t at)
{
    struct cursor c = { spans->span, at };

    assert(at <= spans->n_byte);
    while (at < spans->n_byte && c.at >= c.span->n)
        c.at -= c.span++->n;
    return c;
}

/* Number of contiguous bytes from the cursor on; 0 at the very end. */
static size_t run_of(struct cursor *c)
{
    while (c->at == c->span->n) {
        c->span++;
        c->at = 0;
    }
    return c->span->n - c->at;
}

static void join(const struct spot_spans *spans, size_t n_elem, unsigned width, bool rotate,
                 uint8_t *raw)
{
    const struct spot_plane_ops *ops = spot_plane_ops();
    struct cursor cursor[WIDTH_MAX];
    const uint8_t *plane[WIDTH_MAX];
    size_t n;

    for (unsigned b = 0; b < width; b++)
        cursor[b] = seek(spans, b * n_elem);
    for (size_t i = 0; i < n_elem; i += n) {
        n = n_elem - i;
        for (unsigned b = 0; b < width; b++) {
            const size_t run = run_of(&cursor[b]);

            plane[b] = cursor[b].span->at + cursor[b].at;
            n = run < n ? run : n;
        }
        if (width == 2)
            ops->join2(plane, n, rotate, raw + 2 * i);
        else if (width == 4)
            ops->join4(plane, n, rotate, raw + 4 * i);
        else
            spot_plane_join8(plane, n, rotate, raw + 8 * i);
        for (unsigned b = 0; b < width; b++)
            cursor[b].at += n;
    }
}

int spot_codec_view(struct spot_coder *coder, struct spot_chunk *chunk, const void *frames,
                    void *raw, bool *all_stored, struct spot_err *err)
{
    const int arrange = chunk->filter;
    const unsigned width = chunk->elem_byte;
    struct spot_spans *spans = &coder->spans;
    uint8_t *room = raw;

    if (arrange > SPOT_FILTER_ROTATE || (width < 2 && arrange != SPOT_FILTER_NONE))
        return spot_err_set(err, SPOT_EDATA, "chunk %u: unknown filter %d", chunk->seq,
                            chunk->filter);
    if (arrange != SPOT_FILTER_NONE)
        room = spot_buf_more(&coder->plane, chunk->raw_byte);
    if (view_frames(coder, chunk, frames, room, chunk->raw_byte, all_stored, err))
        return -1;
    if (spans->n_byte != chunk->raw_byte)
        return spot_err_set(err, SPOT_EDATA, "chunk %u: %zu bytes, expected %u", chunk->seq,
                            spans->n_byte, chunk->raw_byte);
    if (arrange == SPOT_FILTER_NONE)
        return 0;
    join(spans, chunk->raw_byte / width, width, arrange == SPOT_FILTER_ROTATE, raw);
    spot_spans_clear(spans);
    spot_spans_add(spans, raw, chunk->raw_byte);
    return 0;
}
