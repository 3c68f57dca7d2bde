/* SPDX-License-Identifier: MIT */
/* Goal: every codec is exact on every bit pattern, and as small as its theory says. */
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "common/rng.h"
#include "shard/chunk.h"
#include "shard/codec.h"
#include "suite.h"

enum kind {
    KIND_NOISE,   /* every pattern: NaN payloads, infinities, denormals, both zeros */
    KIND_NORMAL,  /* weights: normal(0, 0.02) */
    KIND_ZERO,    /* all zero */
    KIND_SPARSE,  /* mostly zero */
    KIND_SPECIAL, /* nothing but NaN, inf, -0, denormals */
    KIND_WIDE,    /* exponents all over */
    KINDS
};

static const enum spot_dtype dtypes[] = { SPOT_DT_BF16, SPOT_DT_F32, SPOT_DT_F16, SPOT_DT_F64,
                                          SPOT_DT_U8,   SPOT_DT_I32, SPOT_DT_I64, SPOT_DT_F8_E4M3 };
enum { DTYPES = sizeof(dtypes) / sizeof(dtypes[0]) };

static uint64_t special(enum spot_dtype dtype, uint64_t pick)
{
    static const uint64_t f32[] = { 0x7f800001, 0xffc12345, 0x7f800000, 0xff800000,
                                    0x80000000, 0x00000001, 0x807fffff, 0x3f800000 };
    const uint64_t x = f32[pick % 8];

    return dtype == SPOT_DT_BF16 ? (x >> 16) | 1 : x;
}

static uint64_t value(enum kind kind, enum spot_dtype dtype, struct spot_rng *rng)
{
    const float x = (float)(0.02 * spot_rng_normal(rng));
    uint32_t bits;

    memcpy(&bits, &x, 4);
    switch (kind) {
    case KIND_NORMAL:
        return dtype == SPOT_DT_BF16 ? bits >> 16 : bits;
    case KIND_ZERO:
        return 0;
    case KIND_SPARSE:
        return spot_rng_below(rng, 100) ? 0 : spot_rng_next(rng);
    case KIND_SPECIAL:
        return special(dtype, spot_rng_next(rng));
    case KIND_WIDE:
        return (spot_rng_next(rng) & 0x807f) | (spot_rng_below(rng, 16) * 16) << 7;
    default:
        return spot_rng_next(rng);
    }
}

static void fill(uint8_t *raw, size_t n_elem, enum kind kind, enum spot_dtype dtype, uint64_t seed)
{
    const size_t width = spot_dtype_byte(dtype);
    struct spot_rng rng;

    spot_rng_init(&rng, seed, 0);
    for (size_t i = 0; i < n_elem; i++) {
        const uint64_t x = value(kind, dtype, &rng);

        for (size_t b = 0; b < width; b++)
            raw[i * width + b] = (uint8_t)(x >> 8 * b);
    }
}

/* A file of one tensor, of which chunk 0 is all. */
struct one {
    struct spot_st st;
    struct spot_chunk_map map;
    struct spot_coder coder;
};

static void one_init(struct one *o, enum spot_dtype dtype, size_t n_elem)
{
    static char name[] = "t";
    const struct spot_st_tensor t = { .name = name, .dtype = dtype, .n_dim = 1, .dim = { n_elem } };
    struct spot_buf header = { 0 };

    spot_st_write(&t, 1, &header);
    ck_assert_int_eq(spot_st_parse(&o->st, (char *)header.data + 8, header.n - 8, "t", NULL), 0);
    ck_assert_int_eq(spot_chunk_map_init(&o->map, &o->st, 8 << 20, NULL), 0);
    spot_coder_init(&o->coder);
    spot_buf_release(&header);
}

static void one_release(struct one *o)
{
    spot_coder_release(&o->coder);
    spot_chunk_map_release(&o->map);
    spot_st_release(&o->st);
}

/* Content that is not copied out of its frames is the same, and is there if nothing is coded. */
static void view_is(struct one *o, struct spot_chunk *chunk, const uint8_t *frames,
                    const uint8_t *raw, size_t n)
{
    const struct spot_spans *const spans = &o->coder.spans;
    uint8_t *const room = calloc(n + 1, 1);
    size_t at = 0;

    ck_assert(!spot_chunk_view(&o->coder, chunk, frames, room, NULL));
    ck_assert_uint_eq(spans->n_byte, n);
    for (size_t i = 0; i < spans->n; at += spans->span[i++].n) {
        const uint8_t *const from = spans->span[i].at;

        ck_assert_mem_eq(from, raw + at, spans->span[i].n);
        if (chunk->flags & SPOT_CHUNK_STORED && chunk->filter == SPOT_FILTER_NONE)
            ck_assert(from > frames && from < frames + chunk->stored_byte);
    }
    ck_assert_uint_eq(at, n);
    free(room);
}

static int read_from(void *user, uint64_t at, void *data, size_t n_byte, struct spot_err *err)
{
    const uint8_t *const raw = user;

    if (!raw)
        return spot_err_set(err, SPOT_ESYS, "no source");
    memcpy(data, raw + at, n_byte);
    return 0;
}

/* A chunk whose bytes are read to their place is the chunk that is coded, byte for byte. */
static void reads_the_same(struct one *o, const uint8_t *raw, const struct spot_buf *coded)
{
    struct spot_buf out = { 0 };
    struct spot_chunk chunk;

    spot_chunk_map_get(&o->map, 0, &chunk);
    chunk.stream_id = 99;
    ck_assert_int_eq(spot_chunk_read_stored(&o->coder, &chunk, read_from, NULL, &out, NULL), -1);
    ck_assert_uint_eq(out.n, 0);
    ck_assert_int_eq(
        spot_chunk_read_stored(&o->coder, &chunk, read_from, (void *)(uintptr_t)raw, &out, NULL),
        0);
    ck_assert_uint_eq(out.n, coded->n);
    ck_assert_mem_eq(out.data, coded->data, coded->n);
    spot_buf_release(&out);
}

/* Code, check that zstd takes it, decode, compare. Returns the coded bytes. */
static size_t round_trip(struct one *o, enum spot_codec codec, const uint8_t *raw, size_t n)
{
    struct spot_buf out = { 0 };
    struct spot_chunk chunk, back;
    struct spot_err err = { 0 };
    uint8_t *again = malloc(n), *plain = malloc(n);
    size_t plain_byte, coded;

    spot_chunk_map_get(&o->map, 0, &chunk);
    chunk.stream_id = 99;
    ck_assert_msg(!spot_chunk_encode(&o->coder, &chunk, codec, raw, &out, &err), "%s", err.msg);
    plain_byte = ZSTD_decompress(plain, n, out.data, out.n);
    ck_assert_msg(!ZSTD_isError(plain_byte), "%s", ZSTD_getErrorName(plain_byte));
    ck_assert_uint_eq(plain_byte, n);
    ck_assert_msg(!spot_chunk_parse(out.data, &o->map, 99, &back, &err), "%s", err.msg);
    ck_assert_msg(
        !spot_chunk_decode(&o->coder, &back, out.data + SPOT_CHUNK_HEAD_BYTE, again, &err), "%s",
        err.msg);
    ck_assert_mem_eq(again, raw, n);
    view_is(o, &back, out.data + SPOT_CHUNK_HEAD_BYTE, raw, n);
    if (codec == SPOT_CODEC_RAW)
        reads_the_same(o, raw, &out);
    coded = out.n;
    free(again);
    free(plain);
    spot_buf_release(&out);
    return coded;
}

START_TEST(all_data_in_all_types_at_all_lengths_comes_back)
{
    static const size_t length[] = {
        1, 2, 3, 31, 32, 33, 65, 255, 1000, 4097, 70001, 131072, 300000
    };
    const enum spot_dtype dtype = dtypes[_i % DTYPES];
    const enum kind kind = (enum kind)(_i / DTYPES);

    for (size_t l = 0; l < sizeof(length) / sizeof(length[0]); l++) {
        const size_t n = length[l] * spot_dtype_byte(dtype);
        uint8_t *raw = malloc(n);
        struct one o;

        one_init(&o, dtype, length[l]);
        fill(raw, length[l], kind, dtype, 1);
        for (int codec = 0; codec < SPOT_CODECS; codec++)
            round_trip(&o, (enum spot_codec)codec, raw, n);
        one_release(&o);
        free(raw);
    }
}
END_TEST

/* The entropy of the exponent of a normal variable is 2.55 bits: bounds 16/10.55 and 32/26.55. */
static const struct ratio_case {
    enum spot_dtype dtype;
    enum spot_codec codec;
    double low, high;
} ratio_case[] = {
    { SPOT_DT_BF16, SPOT_CODEC_PLANES, 1.49, 1.517 },
    { SPOT_DT_F32, SPOT_CODEC_PLANES, 1.195, 1.206 },
    { SPOT_DT_F32, SPOT_CODEC_RAW, 0.999, 1.001 },
};

START_TEST(normal_weights_shrink_to_what_their_entropy_allows)
{
    const struct ratio_case *c = &ratio_case[_i];
    const size_t n = 1 << 20, n_elem = n / spot_dtype_byte(c->dtype);
    uint8_t *raw = malloc(n);
    struct one o;
    double ratio;

    one_init(&o, c->dtype, n_elem);
    fill(raw, n_elem, KIND_NORMAL, c->dtype, 3);
    ratio = (double)n / (double)round_trip(&o, c->codec, raw, n);
    ck_assert_msg(ratio >= c->low && ratio <= c->high, "%s %s: ratio %.4f outside [%g, %g]",
                  spot_dtype_name(c->dtype), spot_codec_name(c->codec), ratio, c->low, c->high);
    one_release(&o);
    free(raw);
}
END_TEST

/* As after an optimizer step: two thirds of the elements the same, a few low bits in the others. */
int main(void)
{
    TCase *tc = tcase_create("core");

    tcase_add_loop_test(tc, all_data_in_all_types_at_all_lengths_comes_back, 0, DTYPES * KINDS);
    tcase_add_loop_test(tc, normal_weights_shrink_to_what_their_entropy_allows, 0,
                        sizeof(ratio_case) / sizeof(ratio_case[0]));
    return run_suite("codec", tc);
}
