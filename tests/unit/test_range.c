/* SPDX-License-Identifier: MIT */
/* Goal: whatever ranges come from, wherever they go, over a port that brings them in any pieces,
 * they arrive bit for bit or not at all; nothing behind the end of a stream is touched. */
#define _XOPEN_SOURCE 700
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/rng.h"
#include "shard/partial_file.h"
#include "shard/shard_mem.h"
#include "shard/stream.h"
#include "suite.h"

enum { PARTS = 4, CHUNK = 256, N_MAX = 700 };
enum from { POINTED_AT, READ, SOURCE_KINDS };
enum into { PLACES, PUTS, A_FILE, INTOS };

static const size_t n_elem[PARTS] = { 150, 0, 700, 33 };
static const enum spot_dtype dtype[PARTS] = { SPOT_DT_F32, SPOT_DT_I32, SPOT_DT_U8, SPOT_DT_BF16 };
static const char *const name[PARTS] = { "a", "none", "b", "c" };

static unsigned char raw[PARTS][4 * N_MAX], got[PARTS][4 * N_MAX];
static struct spot_shard_part part[PARTS];
static struct spot_shard_place place[PARTS];
static char path[64];

static size_t part_byte(int i)
{
    return n_elem[i] * spot_dtype_byte(dtype[i]);
}

static void make_parts(void)
{
    struct spot_rng rng;

    spot_rng_init(&rng, 11, 0);
    memset(got, 0, sizeof(got));
    for (int i = 0; i < PARTS; i++) {
        for (size_t k = 0; k < part_byte(i); k++)
            raw[i][k] = (unsigned char)spot_rng_next(&rng);
        part[i] = (struct spot_shard_part){ name[i], dtype[i], n_elem[i], raw[i] };
        place[i] = (struct spot_shard_place){ name[i], dtype[i], n_elem[i], got[i] };
    }
}

static void check_parts(void)
{
    for (int i = 0; i < PARTS; i++)
        ck_assert_mem_eq(got[i], raw[i], part_byte(i));
}

/* --- sources --- */

static int read_parts(void *user, uint64_t at, void *data, size_t n_byte, struct spot_err *err)
{
    (void)user;
    (void)err;
    for (int i = 0; i < PARTS; at -= part_byte(i), i++)
        if (at < part_byte(i)) {
            memcpy(data, raw[i] + at, n_byte);
            break;
        }
    return 0;
}

static void write_stream(enum from from, enum spot_codec codec, struct spot_buf *out)
{
    const struct spot_stream_options options = { .codec = codec, .chunk_byte = CHUNK };
    struct spot_part_source parts;
    struct spot_source source;
    struct spot_stream_writer *w;
    int rc = 1;

    out->n = 0;
    spot_part_source_init(&parts, part, PARTS);
    source = parts.source;
    if (from == READ) {
        source.point = NULL;
        source.read = read_parts;
    }
    w = spot_stream_writer_new(&options, source.header, source.n_header, out, NULL);
    while (rc > 0)
        rc = spot_stream_writer_next(w, &source, out, NULL);
    ck_assert_int_eq(rc, 0);
    spot_stream_writer_free(w);
    spot_part_source_release(&parts);
}

/* --- a port that plays bytes, `piece` at a time --- */

struct tape {
    struct spot_port port;
    const unsigned char *bytes;
    size_t n, at, piece;
};

static int play(struct spot_port *port, void *data, size_t n_byte, size_t *n_got,
                struct spot_err *err)
{
    struct tape *t = (struct tape *)port;
    const size_t left = t->n - t->at;

    (void)err;
    *n_got = n_byte < t->piece ? n_byte : t->piece;
    *n_got = *n_got < left ? *n_got : left;
    memcpy(data, t->bytes + t->at, *n_got);
    t->at += *n_got;
    return 0;
}

/* --- sinks --- */

struct target {
    struct spot_place_sink places;
    struct spot_stream_reader *reader;
    struct spot_partial *partial;
    struct spot_sink sink;
};

static int put(void *user, const struct spot_chunk *chunk, const void *bytes, struct spot_err *err)
{
    uint64_t at = chunk->raw_off;
    int i = 0;

    (void)user;
    (void)err;
    for (; at >= part_byte(i); i++)
        at -= part_byte(i);
    memcpy(got[i] + at, bytes, chunk->raw_byte);
    return 0;
}

static int open_file(void *user, const struct spot_st *st, const void *header, size_t n_header,
                     struct spot_err *err)
{
    const struct spot_partial_options options = { .sync_byte = 1 << 20, .sync_s = 1000 };
    struct target *t = user;

    (void)st;
    t->partial = spot_partial_open(path, spot_stream_reader_info(t->reader), header, n_header,
                                   &options, err);
    return t->partial ? 0 : -1;
}

static int put_file(void *user, const struct spot_chunk *chunk, const void *bytes,
                    struct spot_err *err)
{
    return spot_partial_put(((struct target *)user)->partial, chunk, bytes, err);
}

static int commit_file(void *user, const struct spot_hash128 *hash, struct spot_err *err)
{
    struct target *t = user;

    ck_assert(spot_partial_agrees(t->partial, hash));
    return spot_partial_commit(t->partial, err);
}

/* 0 when the stream came to its end, -1 with *err. */
static int read_stream(struct tape *tape, enum into into, uint64_t n_job, struct spot_err *err)
{
    struct target t = { .sink = { .put = put } };
    int rc = 0;

    spot_place_sink_init(&t.places, place, PARTS, true);
    if (into == A_FILE)
        t.sink = (struct spot_sink){ .begin = open_file, .put = put_file, .commit = commit_file };
    t.sink.user = &t;
    t.reader = spot_stream_reader_new(into == PLACES ? &t.places.sink : &t.sink, "s");
    spot_stream_reader_set_jobs(t.reader, n_job);
    while (!rc)
        rc = spot_stream_reader_pull(t.reader, &tape->port, err);
    spot_stream_reader_free(t.reader);
    spot_partial_free(t.partial);
    spot_place_sink_release(&t.places);
    return rc < 0 ? -1 : 0;
}

static void read_file(void)
{
    FILE *in = fopen(path, "rb");
    size_t n_data = 0;

    ck_assert_ptr_nonnull(in);
    for (int i = 0; i < PARTS; i++)
        n_data += part_byte(i);
    fseek(in, -(long)n_data, SEEK_END);
    for (int i = 0; i < PARTS; i++)
        ck_assert_uint_eq(fread(got[i], 1, part_byte(i), in), part_byte(i));
    fclose(in);
    remove(path);
}

static struct tape tape_of(const struct spot_buf *bytes, size_t n, size_t piece)
{
    return (struct tape){ .port = { .read = play }, .bytes = bytes->data, .n = n, .piece = piece };
}

START_TEST(every_source_reaches_every_sink)
{
    static const size_t piece[] = { 1, 7, 300, 1 << 20 };
    const enum spot_codec codec = (enum spot_codec)_i;
    struct spot_buf first = { 0 }, out = { 0 };

    snprintf(path, sizeof(path), "/tmp/test_range.%ld", (long)getpid());
    make_parts();
    write_stream(POINTED_AT, codec, &first);
    for (int k = 0; k < SOURCE_KINDS * INTOS * 4 * 2; k++) {
        const enum into into = (enum into)(k / SOURCE_KINDS % INTOS);
        struct tape tape;
        size_t n;
        struct spot_err err = { 0 };

        write_stream((enum from)(k % SOURCE_KINDS), codec, &out);
        ck_assert_uint_eq(out.n, first.n);
        ck_assert_mem_eq(out.data, first.data, out.n);
        n = out.n;
        spot_buf_add(&out, "another", 7);
        tape = tape_of(&out, out.n, piece[k / (SOURCE_KINDS * INTOS) % 4]);
        memset(got, 0, sizeof(got));
        ck_assert_msg(!read_stream(&tape, into, k % 2 ? 3 : 1, &err), "%s", err.msg);
        ck_assert_uint_eq(tape.at, n);
        if (into == A_FILE)
            read_file();
        check_parts();
    }
    spot_buf_release(&first);
    spot_buf_release(&out);
}
END_TEST

START_TEST(a_stream_cut_at_any_byte_is_an_error)
{
    struct spot_buf out = { 0 };

    make_parts();
    write_stream(POINTED_AT, SPOT_CODEC_RAW, &out);
    for (size_t n = 0; n < out.n; n++) {
        struct tape tape = tape_of(&out, n, 100);
        struct spot_err err = { 0 };

        ck_assert_int_eq(read_stream(&tape, n % 2 ? PLACES : PUTS, 1, &err), -1);
        ck_assert_int_eq(err.code, SPOT_EDATA);
    }
    spot_buf_release(&out);
}
END_TEST

START_TEST(any_flipped_bit_is_an_error)
{
    struct spot_buf out = { 0 };

    make_parts();
    write_stream(READ, SPOT_CODEC_RAW, &out);
    for (size_t bit = 0; bit < 8 * out.n; bit++) {
        struct tape tape = tape_of(&out, out.n, 500);
        struct spot_err err = { 0 };

        out.data[bit / 8] ^= (unsigned char)(1 << bit % 8);
        ck_assert_msg(read_stream(&tape, PLACES, 1, &err) == -1, "bit %zu", bit);
        ck_assert_int_eq(err.code, SPOT_EDATA);
        out.data[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
    spot_buf_release(&out);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    tcase_add_loop_test(tc, every_source_reaches_every_sink, 0, SPOT_CODECS);
    tcase_add_test(tc, a_stream_cut_at_any_byte_is_an_error);
    tcase_add_test(tc, any_flipped_bit_is_an_error);
    return run_suite("range", tc);
}
