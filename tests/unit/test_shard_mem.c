/* SPDX-License-Identifier: MIT */
/* Goal: arrays come back bit for bit or not at all; the stream is what zstd calls a file. */
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "../shard_rig.h"
#include "common/rng.h"
#include "suite.h"

enum { PARTS = 4 };

static const struct {
    const char *name;
    enum spot_dtype dtype;
} part_of[PARTS] = {
    { "master", SPOT_DT_F32 },
    { "half", SPOT_DT_BF16 },
    { "exponent", SPOT_DT_I32 },
    { "flag", SPOT_DT_U8 },
};

/* Element counts: around a chunk's end, empty, odd. */
static const size_t size_case[][PARTS] = {
    { 0, 0, 0, 0 },
    { 1, 1, 1, 1 },
    { 17, 33, 0, 5 },
    { SPOT_CHUNK_BYTE / 4, SPOT_CHUNK_BYTE / 2 - 1, 3, SPOT_CHUNK_BYTE + 1 },
    { SPOT_CHUNK_BYTE / 4 * 3 + 1, 100001, 16, 4097 },
};
enum { SIZES = sizeof(size_case) / sizeof(size_case[0]) };

struct arrays {
    struct spot_shard_part part[PARTS];
    struct spot_shard_place place[PARTS];
};

/* Every bit pattern of a float, NaN payloads included, may come; half of it looks like weights. */
static void fill(unsigned char *at, size_t n_byte, struct spot_rng *rng)
{
    for (size_t i = 0; i < n_byte; i++)
        at[i] = (unsigned char)spot_rng_next(rng);
    for (size_t i = 0; i + 4 <= n_byte / 2; i += 4) {
        const float x = (float)(0.02 * spot_rng_normal(rng));

        memcpy(at + i, &x, 4);
    }
}

static void make(struct arrays *a, const size_t n_elem[PARTS])
{
    struct spot_rng rng;

    spot_rng_init(&rng, 5, 0);
    for (int i = 0; i < PARTS; i++) {
        const size_t n = n_elem[i] * spot_dtype_byte(part_of[i].dtype);
        unsigned char *data = malloc(n + 1);

        fill(data, n, &rng);
        a->part[i] = (struct spot_shard_part){ part_of[i].name, part_of[i].dtype, n_elem[i], data };
        a->place[i] = (struct spot_shard_place){ part_of[i].name, part_of[i].dtype, n_elem[i],
                                                 calloc(n + 1, 1) };
    }
}

static void drop(struct arrays *a)
{
    for (int i = 0; i < PARTS; i++) {
        free((void *)(uintptr_t)a->part[i].data); /* ours, see make */
        free(a->place[i].data);
    }
}

static void check_equal(const struct arrays *a)
{
    for (int i = 0; i < PARTS; i++)
        ck_assert_mem_eq(a->part[i].data, a->place[i].data,
                         a->part[i].n_elem * spot_dtype_byte(a->part[i].dtype));
}

START_TEST(every_codec_gives_the_arrays_back)
{
    const size_t *n_elem = size_case[_i % SIZES];
    const enum spot_codec codec = (enum spot_codec)(_i / SIZES);
    struct arrays a;
    struct spot_buf out[2] = { { 0 } };
    struct spot_err err = { 0 };

    make(&a, n_elem);
    for (int i = 0; i < 2; i++)
        ck_assert_msg(!encode_parts(a.part, PARTS, codec, &out[i], &err), "%s", err.msg);
    ck_assert_uint_eq(out[0].n, out[1].n);
    ck_assert_mem_eq(out[0].data, out[1].data, out[0].n);
    ck_assert_msg(!decode_parts(out[0].data, out[0].n, a.place, PARTS, &err), "%s", err.msg);
    check_equal(&a);
    spot_buf_release(&out[0]);
    spot_buf_release(&out[1]);
    drop(&a);
}
END_TEST

START_TEST(places_may_come_in_another_order)
{
    struct arrays a;
    struct spot_buf out = { 0 };
    struct spot_shard_place turned[PARTS];
    struct spot_err err = { 0 };

    make(&a, size_case[2]);
    for (int i = 0; i < PARTS; i++)
        turned[i] = a.place[PARTS - 1 - i];
    ck_assert_int_eq(encode_parts(a.part, PARTS, SPOT_CODEC_RAW, &out, &err), 0);
    ck_assert_msg(!decode_parts(out.data, out.n, turned, PARTS, &err), "%s", err.msg);
    check_equal(&a);
    spot_buf_release(&out);
    drop(&a);
}
END_TEST

/* The oracle is libzstd alone: the raw codec holds the safetensors file itself. */
START_TEST(libzstd_decodes_the_plain_file)
{
    struct arrays a;
    struct spot_buf out = { 0 };
    struct spot_err err = { 0 };
    unsigned char *plain;
    size_t n = 0, room = 8 << 20, at;

    make(&a, size_case[3]);
    ck_assert_int_eq(encode_parts(a.part, PARTS, SPOT_CODEC_RAW, &out, &err), 0);
    plain = malloc(room);
    n = ZSTD_decompress(plain, room, out.data, out.n);
    ck_assert_msg(!ZSTD_isError(n), "%s", ZSTD_getErrorName(n));
    at = 8 + plain[0] + 256u * plain[1];
    for (int i = 0; i < PARTS; i++) {
        const size_t size = a.part[i].n_elem * spot_dtype_byte(a.part[i].dtype);

        ck_assert_mem_eq(plain + at, a.part[i].data, size);
        at += size;
    }
    ck_assert_uint_eq(at, n);
    free(plain);
    spot_buf_release(&out);
    drop(&a);
}
END_TEST

START_TEST(every_flipped_bit_and_every_cut_is_found)
{
    const enum spot_codec codec = (enum spot_codec)_i;
    struct arrays a;
    struct spot_buf out = { 0 };
    struct spot_err err;

    make(&a, size_case[2]);
    ck_assert_int_eq(encode_parts(a.part, PARTS, codec, &out, &err), 0);
    for (size_t i = 0; i < 8 * out.n; i++) {
        out.data[i / 8] ^= (unsigned char)(1 << i % 8);
        ck_assert_msg(decode_parts(out.data, out.n, a.place, PARTS, &err) == -1,
                      "bit %zu of byte %zu flipped silently", i % 8, i / 8);
        ck_assert_int_eq(err.code, SPOT_EDATA);
        out.data[i / 8] ^= (unsigned char)(1 << i % 8);
    }
    for (size_t n = 0; n < out.n; n++)
        ck_assert_int_eq(decode_parts(out.data, n, a.place, PARTS, &err), -1);
    spot_buf_add(&out, "", 1);
    ck_assert_int_eq(decode_parts(out.data, out.n, a.place, PARTS, &err), -1);
    ck_assert_int_eq(decode_parts(out.data, out.n - 1, a.place, PARTS, &err), 0);
    spot_buf_release(&out);
    drop(&a);
}
END_TEST

static const struct wrong_case {
    struct spot_shard_place place;
    size_t n_place;
    const char *part;
} wrong_case[] = {
    { { "Master", SPOT_DT_F32, 17, NULL }, PARTS, "lacks the part 'Master'" },
    { { "master", SPOT_DT_I32, 17, NULL }, PARTS, "is F32 of 68 bytes, expected I32 of 68" },
    { { "master", SPOT_DT_F32, 16, NULL }, PARTS, "expected F32 of 64" },
    { { "master", SPOT_DT_F32, 17, NULL }, PARTS - 1, "4 parts, expected 3" },
};

START_TEST(refuses_parts_that_are_not_the_expected_ones)
{
    const struct wrong_case *c = &wrong_case[_i];
    struct spot_shard_place place[PARTS];
    struct arrays a;
    struct spot_buf out = { 0 };
    struct spot_err err = { 0 };

    make(&a, size_case[2]);
    ck_assert_int_eq(encode_parts(a.part, PARTS, SPOT_CODEC_RAW, &out, &err), 0);
    memcpy(place, a.place, sizeof(place));
    place[0] = c->place;
    place[0].data = a.place[0].data;
    ck_assert_int_eq(decode_parts(out.data, out.n, place, c->n_place, &err), -1);
    ck_assert_msg(strstr(err.msg, c->part), "%s", err.msg);
    spot_buf_release(&out);
    drop(&a);
}
END_TEST

START_TEST(refuses_two_parts_of_one_name)
{
    const struct spot_shard_part part[2] = { { "a", SPOT_DT_U8, 1, "x" },
                                             { "a", SPOT_DT_U8, 1, "y" } };
    struct spot_buf out = { 0 };
    struct spot_err err = { 0 };

    ck_assert_int_eq(encode_parts(part, 2, SPOT_CODEC_RAW, &out, &err), -1);
    ck_assert_int_eq(err.code, SPOT_EDATA);
    spot_buf_release(&out);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    tcase_add_loop_test(tc, every_codec_gives_the_arrays_back, 0, SIZES * SPOT_CODECS);
    tcase_add_loop_test(tc, every_flipped_bit_and_every_cut_is_found, 0, SPOT_CODECS);
    tcase_add_loop_test(tc, refuses_parts_that_are_not_the_expected_ones, 0,
                        sizeof(wrong_case) / sizeof(wrong_case[0]));
    add_tests(tc);
    return run_suite("shard_mem", tc);
}
