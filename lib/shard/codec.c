/* SPDX-License-Identifier: MIT */
#include "shard/codec.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "common/hash.h"
#include "common/le.h"
#include "shard/plane.h"

enum {
    WIDTH_MAX = 8,      /* bytes of an element */
    SAMPLE = 2048,      /* elements looked at before deciding, */
    SAMPLE_RUN = 32,    /* so many in a row: a place costs a cache miss, an element does not */
    NIBBLE_HEAD = 8,    /* base, 0, 0, 0, u32 escapes */
    NIBBLE_WINDOW = 15, /* exponents with a code of their own */
    FILTER_ARRANGE = 3, /* the bits of a filter that arrange */
};

/* Bits a byte, from samples: above the first, Huffman gains less than it costs; below the second,
 * there are runs, and matches gain more than Huffman's one bit a byte at best. */
static const double noise_bits = 7.75, runs_bits = 1.5;

static const char *const codec_name[SPOT_CODECS] = {
    [SPOT_CODEC_RAW] = "raw",       [SPOT_CODEC_ZSTD] = "zstd", [SPOT_CODEC_PLANES] = "planes",
    [SPOT_CODEC_NIBBLE] = "nibble", [SPOT_CODEC_AUTO] = "auto",
};

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

/* --- looking before coding --- */

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

static void count(struct sample *s, const uint8_t *raw, const uint8_t *base, unsigned width,
                  bool rotate)
{
    uint64_t x = element(raw, width, rotate);

    if (base)
        x ^= element(base, width, rotate);
    for (unsigned b = 0; b < width; b++)
        s->count[b][x >> 8 * b & 255]++;
    s->n++;
}

/* Runs of elements at equal distances; `base` NULL or the bytes to take the difference to. */
static void look(struct sample *s, const uint8_t *raw, const uint8_t *base, size_t n_elem,
                 unsigned width, bool rotate)
{
    const size_t n_run = SAMPLE / SAMPLE_RUN;
    const size_t stride = n_elem > SAMPLE ? n_elem / n_run : SAMPLE_RUN;

    memset(s, 0, sizeof(*s));
    for (size_t from = 0; from < n_elem && s->n < SAMPLE; from += stride)
        for (size_t i = from; i < n_elem && i < from + SAMPLE_RUN; i++)
            count(s, raw + i * width, base ? base + i * width : NULL, width, rotate);
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

static double bits_of_all(const struct sample *s, unsigned width)
{
    double sum = 0;

    for (unsigned b = 0; b < width; b++)
        sum += fmin(bits_of(s, b), 8);
    return sum;
}

/* --- encoding --- */

static int put_stored(struct spot_coder *coder, const void *data, size_t n, struct spot_buf *out)
{
    spot_zframe_store(data, n, coder->has_frame_check, out);
    return 0;
}

/* One compressed frame, or a stored one where that is smaller. */
static int put_compressed(struct spot_coder *coder, const void *data, size_t n,
                          enum spot_zframe_mode mode, struct spot_buf *out, bool *all_stored,
                          struct spot_err *err)
{
    const size_t start = out->n;

    if (spot_zframe_compress(coder->zstd, data, n, mode, coder->level, out, err))
        return -1;
    if (out->n - start < spot_zframe_stored_byte(n, coder->has_frame_check)) {
        *all_stored = false;
        return 0;
    }
    out->n = start;
    return put_stored(coder, data, n, out);
}

static void split(const uint8_t *raw, size_t n_elem, unsigned width, bool rotate, uint8_t *to)
{
    uint8_t *const plane[4] = { to, to + n_elem, to + 2 * n_elem, to + 3 * n_elem };

    if (width == 2)
        spot_plane_ops()->split2(raw, n_elem, rotate, plane);
    else if (width == 4)
        spot_plane_ops()->split4(raw, n_elem, rotate, plane);
    else
        spot_plane_split8(raw, n_elem, rotate, to);
}

/* Noise is stored, planes with structure are compressed, each in a frame of its own. */
static int put_planes(struct spot_coder *coder, struct spot_chunk *chunk, const uint8_t *raw,
                      const struct sample *sample, struct spot_buf *out, bool *all_stored,
                      struct spot_err *err)
{
    const unsigned width = chunk->elem_byte;
    const size_t n_elem = chunk->raw_byte / width;
    const bool rotate = is_float(chunk->dtype);
    double bits[WIDTH_MAX];
    bool is_noise = true;
    const uint8_t *plane = raw;
    unsigned stored = 0; /* noise planes before this one, not yet written */

    for (unsigned b = 0; b < width; b++) {
        bits[b] = bits_of(sample, b);
        is_noise &= bits[b] > noise_bits;
    }
    if (is_noise)
        return put_stored(coder, raw, chunk->raw_byte, out);
    if (width > 1) {
        uint8_t *to = spot_buf_more(&coder->plane, chunk->raw_byte);

        split(raw, n_elem, width, rotate, to);
        plane = to;
        chunk->filter |= rotate ? SPOT_FILTER_ROTATE : SPOT_FILTER_SPLIT;
    }
    for (unsigned b = 0; b < width; b++) {
        if (bits[b] > noise_bits) {
            stored++;
            continue;
        }
        if (stored)
            put_stored(coder, plane + (b - stored) * n_elem, stored * n_elem, out);
        stored = 0;
        if (put_compressed(coder, plane + b * n_elem, n_elem,
                           bits[b] < runs_bits ? SPOT_ZFRAME_LZ : SPOT_ZFRAME_HUFFMAN, out,
                           all_stored, err))
            return -1;
    }
    if (stored)
        put_stored(coder, plane + (width - stored) * n_elem, stored * n_elem, out);
    return 0;
}

/* The window of exponents that covers most of the sample: its upper end. */
static uint8_t best_base(const struct sample *s)
{
    unsigned sum = 0, best;
    int at = NIBBLE_WINDOW - 1;

    for (int v = 0; v < NIBBLE_WINDOW; v++)
        sum += s->count[1][v];
    best = sum;
    for (int v = NIBBLE_WINDOW; v < 256; v++) {
        sum += s->count[1][v] - s->count[1][v - NIBBLE_WINDOW];
        if (sum >= best) { /* the tail above matters more than the one below */
            best = sum;
            at = v;
        }
    }
    return (uint8_t)at;
}

static void put_nibbles(struct spot_coder *coder, struct spot_chunk *chunk, const uint8_t *raw,
                        const struct sample *sample, struct spot_buf *out)
{
    const size_t n = chunk->raw_byte / 2, n_code = (n + 1) / 2;
    uint8_t *to = spot_buf_more(&coder->plane, NIBBLE_HEAD + 2 * n + n_code);
    uint8_t *escape = to + NIBBLE_HEAD + n + n_code;
    const uint8_t base = best_base(sample);
    const size_t n_escape =
        spot_plane_ops()->nibble(raw, n, base, to + NIBBLE_HEAD, to + NIBBLE_HEAD + n, escape);
    const size_t total = NIBBLE_HEAD + n + n_code + n_escape;

    if (total >= chunk->raw_byte) {
        put_stored(coder, raw, chunk->raw_byte, out);
        return;
    }
    spot_le_put(to, base, 4);
    spot_le_put(to + 4, n_escape, 4);
    chunk->filter |= SPOT_FILTER_NIBBLE;
    chunk->plain_byte = (uint32_t)total;
    put_stored(coder, to, total, out);
}

/* Take the difference to `base` if the sample says that it is smaller. */
static const uint8_t *maybe_differ(struct spot_coder *coder, struct spot_chunk *chunk,
                                   const uint8_t *raw, const uint8_t *base, struct sample *sample)
{
    const unsigned width = chunk->elem_byte;
    const size_t n_elem = chunk->raw_byte / width;
    const bool rotate = is_float(chunk->dtype);
    struct sample other;
    uint8_t *delta;

    look(sample, raw, NULL, n_elem, width, rotate);
    if (!base)
        return raw;
    look(&other, raw, base, n_elem, width, rotate);
    if (bits_of_all(&other, width) >= bits_of_all(sample, width))
        return raw;
    *sample = other;
    delta = spot_buf_more(&coder->delta, chunk->raw_byte);
    spot_plane_xor(raw, base, chunk->raw_byte, delta);
    chunk->filter = SPOT_FILTER_XOR;
    chunk->base_version = spot_hash64(base, chunk->raw_byte);
    return delta;
}

int spot_codec_encode(struct spot_coder *coder, struct spot_chunk *chunk, enum spot_codec codec,
                      const void *raw, const void *base, struct spot_buf *out, bool *all_stored,
                      struct spot_err *err)
{
    struct sample sample;
    const uint8_t *data;

    chunk->filter = SPOT_FILTER_NONE;
    chunk->base_version = 0;
    chunk->plain_byte = chunk->raw_byte;
    *all_stored = true;
    if (codec == SPOT_CODEC_RAW)
        return put_stored(coder, raw, chunk->raw_byte, out);
    if (codec == SPOT_CODEC_ZSTD)
        return put_compressed(coder, raw, chunk->raw_byte, SPOT_ZFRAME_LZ, out, all_stored, err);
    data = maybe_differ(coder, chunk, raw, base, &sample);
    if (codec != SPOT_CODEC_NIBBLE)
        return put_planes(coder, chunk, data, &sample, out, all_stored, err);
    if (chunk->dtype == SPOT_DT_BF16)
        put_nibbles(coder, chunk, data, &sample, out);
    else
        put_stored(coder, data, chunk->raw_byte, out);
    return 0;
}

/* --- decoding --- */

/* All frames of a chunk, one behind the other, into out [n_out]; *made says how much there was. */
static int join_frames(struct spot_coder *coder, const struct spot_chunk *chunk,
                       const uint8_t *frames, uint8_t *out, size_t n_out, size_t *made,
                       bool *all_stored, struct spot_err *err)
{
    size_t at = 0;

    *made = 0;
    *all_stored = true;
    while (at < chunk->stored_byte) {
        struct spot_zframe_result r;

        if (spot_zframe_decode(coder->zstd, frames + at, chunk->stored_byte - at, out + *made,
                               n_out - *made, &r, err))
            return -1;
        at += r.used_byte;
        *made += r.made_byte;
        *all_stored &= r.is_stored;
    }
    return 0;
}

static void join(const uint8_t *from, size_t n_elem, unsigned width, bool rotate, uint8_t *raw)
{
    const uint8_t *const plane[4] = { from, from + n_elem, from + 2 * n_elem, from + 3 * n_elem };

    if (width == 2)
        spot_plane_ops()->join2(plane, n_elem, rotate, raw);
    else if (width == 4)
        spot_plane_ops()->join4(plane, n_elem, rotate, raw);
    else
        spot_plane_join8(from, n_elem, rotate, raw);
}

static int take_nibbles(const struct spot_chunk *chunk, const uint8_t *from, size_t n_from,
                        uint8_t *raw, struct spot_err *err)
{
    const size_t n = chunk->raw_byte / 2, fixed = NIBBLE_HEAD + n + (n + 1) / 2;
    size_t n_escape;

    if (chunk->dtype != SPOT_DT_BF16 || n_from < fixed || spot_le_get(from, 4) > 255)
        return spot_err_set(err, SPOT_EDATA, "chunk %u: not in nibble form", chunk->seq);
    n_escape = spot_le_get(from + 4, 4);
    if (n_escape != n_from - fixed ||
        (n % 2 && from[fixed - 1] >> 4) || /* half a byte that means nothing has to be zero */
        !spot_plane_ops()->unnibble(from + NIBBLE_HEAD, from + NIBBLE_HEAD + n, from + fixed,
                                    n_escape, n, from[0], raw))
        return spot_err_set(err, SPOT_EDATA, "chunk %u: wrong number of escapes", chunk->seq);
    return 0;
}

static int check_base(const struct spot_chunk *chunk, const void *base, struct spot_err *err)
{
    if (!(chunk->filter & SPOT_FILTER_XOR))
        return chunk->base_version
                   ? spot_err_set(err, SPOT_EDATA, "chunk %u names a base without use", chunk->seq)
                   : 0;
    if (!base)
        return spot_err_set(err, SPOT_EDATA, "chunk %u is a difference: its base is needed",
                            chunk->seq);
    if (spot_hash64(base, chunk->raw_byte) != chunk->base_version)
        return spot_err_set(err, SPOT_EDATA, "chunk %u is a difference to another base",
                            chunk->seq);
    return 0;
}

int spot_codec_decode(struct spot_coder *coder, struct spot_chunk *chunk, const void *frames,
                      const void *base, void *raw, bool *all_stored, struct spot_err *err)
{
    const int arrange = chunk->filter & FILTER_ARRANGE;
    const unsigned width = chunk->elem_byte;
    uint8_t *to = raw;
    size_t made;

    if (chunk->filter & ~(FILTER_ARRANGE | SPOT_FILTER_XOR) ||
        (width < 2 && arrange != SPOT_FILTER_NONE))
        return spot_err_set(err, SPOT_EDATA, "chunk %u: unknown filter %d", chunk->seq,
                            chunk->filter);
    if (check_base(chunk, base, err))
        return -1;
    if (arrange != SPOT_FILTER_NONE)
        to = spot_buf_more(&coder->plane, chunk->raw_byte);
    if (join_frames(coder, chunk, frames, to, chunk->raw_byte, &made, all_stored, err))
        return -1;
    chunk->plain_byte = (uint32_t)made;
    if (arrange != SPOT_FILTER_NIBBLE && made != chunk->raw_byte)
        return spot_err_set(err, SPOT_EDATA, "chunk %u: %zu bytes, expected %u", chunk->seq, made,
                            chunk->raw_byte);
    if (arrange == SPOT_FILTER_NIBBLE) {
        if (take_nibbles(chunk, to, made, raw, err))
            return -1;
    } else if (arrange != SPOT_FILTER_NONE) {
        join(to, chunk->raw_byte / width, width, arrange == SPOT_FILTER_ROTATE, raw);
    }
    if (chunk->filter & SPOT_FILTER_XOR)
        spot_plane_xor(raw, base, chunk->raw_byte, raw);
    return 0;
}
