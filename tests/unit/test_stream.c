/* SPDX-License-Identifier: MIT */
/* Goal: however a stream is cut on its way, the bytes come out whole, in order, or not at all. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "common/le.h"
#include "common/rng.h"
#include "shard/lane.h"
#include "shard/stream.h"
#include "suite.h"

enum { CHUNK = 128 };

static const struct {
    char name[4];
    enum spot_dtype dtype;
    uint64_t n_elem;
} shape[] = { { "a", SPOT_DT_F32, 100 },
              { "e", SPOT_DT_U8, 0 },
              { "b", SPOT_DT_BF16, 333 },
              { "c", SPOT_DT_I64, 16 },
              { "z", SPOT_DT_F32, 0 } };
enum { TENSORS = sizeof(shape) / sizeof(shape[0]) };

/* A small safetensors file; free data. */
static void make_file(struct spot_buf *file, size_t *n_header)
{
    struct spot_st_tensor t[TENSORS] = { 0 };
    char name[TENSORS][4];
    struct spot_rng rng;
    uint64_t n;

    spot_rng_init(&rng, 3, 0);
    for (size_t i = 0; i < TENSORS; i++) {
        memcpy(name[i], shape[i].name, 4);
        t[i].name = name[i];
        t[i].dtype = shape[i].dtype;
        t[i].n_dim = 1;
        t[i].dim[0] = shape[i].n_elem;
    }
    n = spot_st_write(t, TENSORS, file);
    *n_header = file->n;
    for (uint64_t i = 0; i < n; i++) {
        const unsigned char byte = (unsigned char)(spot_rng_next(&rng) & (i % 4 == 3 ? 3 : 255));

        spot_buf_add(file, &byte, 1);
    }
}

/* A file in memory, maybe shorter than its header says, to be pointed at or to be read. */
struct memory {
    const unsigned char *data;
    size_t n;
};

static const void *point_at(void *user, const struct spot_chunk *chunk)
{
    const struct memory *m = user;

    return chunk->raw_off + chunk->raw_byte <= m->n ? m->data + chunk->raw_off : NULL;
}

static int read_at(void *user, uint64_t at, void *data, size_t n_byte, struct spot_err *err)
{
    const struct memory *m = user;

    if (at + n_byte > m->n)
        return spot_err_set(err, SPOT_EDATA, "data ends early");
    memcpy(data, m->data + at, n_byte);
    return 0;
}

enum from { POINTED_AT, READ };

static int write_stream(const struct spot_buf *file, size_t n_header, size_t n_file, enum from from,
                        enum spot_codec codec, struct spot_buf *out, struct spot_err *err)
{
    const struct spot_stream_options options = { .codec = codec,
                                                 .chunk_byte = CHUNK,
                                                 .source = "a \"test\"" };
    struct memory memory = { file->data + n_header, n_file - n_header };
    const struct spot_source source = { file->data, n_header, from == READ ? NULL : point_at,
                                        read_at, &memory };
    struct spot_stream_writer *w = spot_stream_writer_new(&options, file->data, n_header, out, err);
    int rc = w ? 1 : -1;

    while (rc > 0)
        rc = spot_stream_writer_next(w, &source, out, err);
    spot_stream_writer_free(w);
    return rc;
}

static int keep_header(void *user, const struct spot_st *st, const void *header, size_t n_header,
                       struct spot_err *err)
{
    (void)st;
    (void)err;
    spot_buf_add(user, header, n_header);
    return 0;
}

static int keep_chunk(void *user, const struct spot_chunk *chunk, const void *raw,
                      struct spot_err *err)
{
    (void)err;
    spot_buf_add(user, raw, chunk->raw_byte);
    return 0;
}

/* Reads of at most `piece` bytes, straight into the reader's room. */
static int read_into(struct spot_stream_reader *r, const unsigned char *bytes, size_t n,
                     size_t piece, struct spot_err *err)
{
    size_t room, take;

    for (size_t at = 0; at < n; at += take) {
        void *to = spot_stream_reader_room(r, &room);

        take = piece < room ? piece : room;
        take = take < n - at ? take : n - at;
        ck_assert_uint_gt(take, 0);
        memcpy(to, bytes + at, take);
        if (spot_stream_reader_took(r, take, err))
            return -1;
    }
    return 0;
}

enum how { FED, READ_INTO };
static uint64_t n_job = 1;

static int read_how(enum how how, const unsigned char *bytes, size_t n, size_t piece,
                    struct spot_buf *got, struct spot_err *err)
{
    const struct spot_sink sink = { .begin = keep_header, .on_chunk = keep_chunk, .user = got };
    struct spot_stream_reader *r = spot_stream_reader_new(&sink, "s");
    int rc = 0;

    spot_stream_reader_set_jobs(r, n_job);
    got->n = 0;
    if (how == READ_INTO)
        rc = read_into(r, bytes, n, piece, err);
    for (size_t at = 0; how == FED && at < n && !rc; at += piece)
        rc = spot_stream_reader_feed(r, bytes + at, n - at < piece ? n - at : piece, err);
    if (!rc)
        rc = spot_stream_reader_finish(r, err);
    if (!rc) {
        ck_assert_str_eq(spot_stream_reader_info(r)->source, "a \"test\"");
    }
    spot_stream_reader_free(r);
    return rc;
}

/* Both ways have to come to the same end. */
static int read_stream(const unsigned char *bytes, size_t n, size_t piece, struct spot_buf *got,
                       struct spot_err *err)
{
    struct spot_buf other = { 0 };
    const int rc = read_how(FED, bytes, n, piece, got, err);

    ck_assert_int_eq(read_how(READ_INTO, bytes, n, piece, &other, NULL), rc);
    if (!rc) {
        ck_assert_uint_eq(other.n, got->n);
        ck_assert_mem_eq(other.data, got->data, got->n);
    }
    spot_buf_release(&other);
    return rc;
}

START_TEST(any_source_and_any_cut_of_a_stream_give_the_same_bytes)
{
    struct spot_buf file = { 0 }, whole = { 0 }, out = { 0 }, got = { 0 };
    struct spot_err err = { 0 };
    size_t n_header;

    make_file(&file, &n_header);
    ck_assert_msg(
        !write_stream(&file, n_header, file.n, POINTED_AT, SPOT_CODEC_PLANES, &whole, &err), "%s",
        err.msg);
    ck_assert_int_eq(write_stream(&file, n_header, file.n, READ, SPOT_CODEC_PLANES, &out, &err), 0);
    ck_assert_uint_eq(out.n, whole.n);
    ck_assert_mem_eq(out.data, whole.data, out.n);
    for (size_t piece = 1; piece <= whole.n; piece++) {
        ck_assert_msg(!read_stream(whole.data, whole.n, piece, &got, &err), "%s", err.msg);
        ck_assert_uint_eq(got.n, file.n);
        ck_assert_mem_eq(got.data, file.data, got.n);
    }
    spot_buf_release(&file);
    spot_buf_release(&whole);
    spot_buf_release(&out);
    spot_buf_release(&got);
}
END_TEST

/* 100 MB, the limit of the format's own reader: blanks, as files pad with them. */
START_TEST(the_largest_header_of_the_format_travels)
{
    const size_t n_header = SPOT_ST_PREFIX_BYTE + SPOT_ST_HEADER_MAX;
    struct spot_buf file = { 0 }, out = { 0 }, got = { 0 };
    struct spot_err err = { 0 };

    memset(spot_buf_more(&file, n_header), ' ', n_header);
    file.n = n_header;
    spot_le_put(file.data, SPOT_ST_HEADER_MAX, SPOT_ST_PREFIX_BYTE);
    memcpy(file.data + SPOT_ST_PREFIX_BYTE, "{}", 2);
    ck_assert_msg(!write_stream(&file, n_header, n_header, READ, SPOT_CODEC_PLANES, &out, &err),
                  "%s", err.msg);
    ck_assert_msg(!read_how(READ_INTO, out.data, out.n, out.n, &got, &err), "%s", err.msg);
    ck_assert_uint_eq(got.n, file.n);
    ck_assert(!memcmp(got.data, file.data, got.n));
    spot_buf_release(&file);
    spot_buf_release(&out);
    spot_buf_release(&got);
}
END_TEST

START_TEST(too_little_data_is_refused)
{
    struct spot_buf file = { 0 }, out = { 0 };
    struct spot_err err = { 0 };
    size_t n_header;

    make_file(&file, &n_header);
    ck_assert_int_eq(write_stream(&file, n_header, file.n - 1, READ, SPOT_CODEC_RAW, &out, &err),
                     -1);
    ck_assert_ptr_nonnull(strstr(err.msg, "data ends early"));
    ck_assert_int_eq(write_stream(&file, n_header - 1, file.n, READ, SPOT_CODEC_RAW, &out, &err),
                     -1);
    ck_assert_ptr_nonnull(strstr(err.msg, "cut short"));
    spot_buf_release(&file);
    spot_buf_release(&out);
}
END_TEST

/* Chunks of another stream, chunks in another order: valid each for itself, wrong together. */
START_TEST(a_chunk_at_the_wrong_place_is_refused)
{
    struct spot_buf file = { 0 }, out = { 0 }, got = { 0 };
    struct spot_err err = { 0 };
    struct spot_buf header = { 0 };
    struct spot_coder coder;
    struct spot_stream_info info;
    size_t n_header, head, need, one;
    unsigned char first[512];

    make_file(&file, &n_header);
    ck_assert_int_eq(write_stream(&file, n_header, file.n, READ, SPOT_CODEC_RAW, &out, &err), 0);
    spot_coder_init(&coder);
    ck_assert_int_eq(
        spot_stream_get_head(&coder, out.data, out.n, &info, &header, &head, &need, &err), 0);
    one = SPOT_CHUNK_HEAD_BYTE + spot_zframe_stored_byte(CHUNK, true);
    memcpy(first, out.data + head, one);
    memmove(out.data + head, out.data + head + one, one);
    memcpy(out.data + head + one, first, one);
    ck_assert_int_eq(read_stream(out.data, out.n, 100, &got, &err), -1);
    ck_assert_ptr_nonnull(strstr(err.msg, "chunk 1, expected chunk 0"));
    spot_coder_release(&coder);
    spot_buf_release(&header);
    spot_buf_release(&file);
    spot_buf_release(&out);
    spot_buf_release(&got);
}
END_TEST

START_TEST(the_seek_table_leads_to_every_chunk)
{
    struct spot_buf file = { 0 }, out = { 0 };
    struct spot_err err = { 0 };
    size_t n_header, n, at = 0;
    const unsigned char *table;

    make_file(&file, &n_header);
    ck_assert_int_eq(write_stream(&file, n_header, file.n, READ, SPOT_CODEC_PLANES, &out, &err), 0);
    n = spot_le_get(out.data + out.n - 9, 4);
    table = out.data + out.n - 9 - 8 * n;
    ck_assert_uint_eq(spot_le_get(table - 8, 4), 0x184D2A5E);
    ck_assert_uint_eq(spot_le_get(table - 4, 4), 8 * n + 9);
    for (size_t i = 0; i < n; i++) {
        ck_assert_uint_eq(spot_le_get(out.data + at, 4), i == 0       ? 0x184D2A50
                                                         : i == n - 1 ? 0x184D2A52
                                                                      : 0x184D2A51);
        at += spot_le_get(table + 8 * i, 4);
    }
    ck_assert_ptr_eq(out.data + at, table - 8);
    spot_buf_release(&file);
    spot_buf_release(&out);
}
END_TEST

enum { SLOTS = 5, JOBS = 2000 };

static int square(void *slot, struct spot_err *err)
{
    uint64_t *value = slot;

    *value *= *value;
    return *value == 1234321 ? spot_err_set(err, SPOT_EDATA, "palindrome") : 0;
}

START_TEST(a_lane_gives_results_in_order_from_any_number_of_threads)
{
    uint64_t value[SLOTS];
    void *slot[SLOTS];
    struct spot_err err = { 0 };
    struct spot_lane *lane;
    uint64_t given = 0, n_failed = 0;

    for (int i = 0; i < SLOTS; i++)
        slot[i] = &value[i];
    lane = spot_lane_new(_i, slot, SLOTS, square, &err);
    ck_assert_ptr_nonnull(lane);
    for (uint64_t done = 0; done < JOBS;) {
        uint64_t *s = given < JOBS ? spot_lane_free_slot(lane) : NULL;
        int rc;

        if (s) {
            *s = given++;
            spot_lane_submit(lane);
            continue;
        }
        s = spot_lane_reap(lane, &rc, &err);
        ck_assert_uint_eq(*s, done * done);
        ck_assert_int_eq(rc, done == 1111 ? -1 : 0);
        n_failed += rc != 0;
        done++;
    }
    ck_assert_uint_eq(n_failed, 1);
    ck_assert_str_eq(err.msg, "palindrome");
    spot_lane_free(lane);
}
END_TEST

/* One thread and several: the same bytes handed out, the same error told. */
static void compare_jobs(const unsigned char *bytes, size_t n)
{
    struct spot_buf one = { 0 }, many = { 0 };
    struct spot_err first = { 0 }, other = { 0 };
    const int rc = read_how(FED, bytes, n, 97, &one, &first);

    n_job = 3;
    ck_assert_int_eq(read_how(FED, bytes, n, 97, &many, &other), rc);
    n_job = 1;
    ck_assert_str_eq(first.msg, other.msg);
    ck_assert_int_eq(first.code, other.code);
    ck_assert_uint_eq(one.n, many.n);
    ck_assert(!one.n || !memcmp(one.data, many.data, one.n));
    spot_buf_release(&one);
    spot_buf_release(&many);
}

START_TEST(threads_hand_out_the_same_bytes_and_name_the_same_first_damage)
{
    struct spot_buf file = { 0 }, out = { 0 };
    struct spot_err err = { 0 };
    struct spot_rng rng;
    size_t n_header;

    make_file(&file, &n_header);
    spot_rng_init(&rng, 5, 0);
    ck_assert_int_eq(write_stream(&file, n_header, file.n, READ, SPOT_CODEC_PLANES, &out, &err), 0);
    compare_jobs(out.data, out.n);
    for (size_t at = 0; at < out.n; at++) {
        const size_t second = (size_t)spot_rng_below(&rng, out.n);
        const unsigned char bit = (unsigned char)(1U << (at & 7));

        out.data[at] ^= bit;
        out.data[second] ^= 1;
        compare_jobs(out.data, out.n);
        out.data[second] ^= 1;
        out.data[at] ^= bit;
        compare_jobs(out.data, at);
    }
    spot_buf_release(&file);
    spot_buf_release(&out);
}
END_TEST

/* A sink that has no more room after two chunks. */
struct narrow {
    struct spot_buf got;
    int n_left;
};

static int keep_two(void *user, const struct spot_chunk *chunk, const void *raw,
                    struct spot_err *err)
{
    struct narrow *narrow = user;

    if (!narrow->n_left--)
        return spot_err_set(err, SPOT_ESYS, "no room for chunk %u", chunk->seq);
    spot_buf_add(&narrow->got, raw, chunk->raw_byte);
    return 0;
}

START_TEST(after_a_sink_has_failed_nothing_more_is_handed_out)
{
    struct spot_buf file = { 0 }, out = { 0 };
    struct spot_err err = { 0 };
    size_t n_header;

    make_file(&file, &n_header);
    ck_assert_int_eq(write_stream(&file, n_header, file.n, READ, SPOT_CODEC_PLANES, &out, &err), 0);
    for (uint64_t jobs = 1; jobs < 5; jobs++) {
        struct narrow narrow = { .n_left = 2 };
        const struct spot_sink sink = { .on_chunk = keep_two, .user = &narrow };
        struct spot_stream_reader *r = spot_stream_reader_new(&sink, "s");

        spot_stream_reader_set_jobs(r, jobs);
        ck_assert_int_eq(spot_stream_reader_feed(r, out.data, out.n, &err), -1);
        ck_assert_str_eq(err.msg, "no room for chunk 2");
        ck_assert_int_eq(spot_stream_reader_finish(r, &err), -1);
        ck_assert_uint_eq(narrow.got.n, 2 * CHUNK);
        spot_stream_reader_free(r);
        spot_buf_release(&narrow.got);
    }
    spot_buf_release(&file);
    spot_buf_release(&out);
}
END_TEST

/* Where threads store: a file's data, and a chunk that cannot be stored. */
struct shelf {
    unsigned char data[1 << 16];
    atomic_int n_stored;
    uint32_t bad_seq;
};

static int shelve(void *user, const struct spot_chunk *chunk, const void *raw, struct spot_err *err)
{
    struct shelf *shelf = user;

    if (chunk->seq == shelf->bad_seq)
        return spot_err_set(err, SPOT_ESYS, "no shelf for chunk %u", chunk->seq);
    ck_assert_uint_le(chunk->raw_off + chunk->raw_byte, sizeof(shelf->data));
    memcpy(shelf->data + chunk->raw_off, raw, chunk->raw_byte);
    shelf->n_stored++;
    return 0;
}

START_TEST(every_chunk_is_stored_once_by_any_number_of_threads)
{
    const uint64_t jobs = (uint64_t)_i;
    struct spot_buf file = { 0 }, out = { 0 };
    struct shelf *shelf = calloc(1, sizeof(*shelf));
    const struct spot_sink sink = { .put = shelve, .user = shelf };
    struct spot_err err = { 0 };
    size_t n_header;

    make_file(&file, &n_header);
    ck_assert_int_eq(write_stream(&file, n_header, file.n, READ, SPOT_CODEC_PLANES, &out, &err), 0);
    for (int is_whole = 0; is_whole < 2; is_whole++) {
        struct spot_stream_reader *r = spot_stream_reader_new(&sink, "s");
        int rc;

        memset(shelf, 0, sizeof(*shelf));
        shelf->bad_seq = is_whole ? UINT32_MAX : 3;
        spot_stream_reader_set_jobs(r, jobs);
        rc = read_into(r, out.data, out.n, 1000, &err);
        rc = rc ? rc : spot_stream_reader_finish(r, &err);
        ck_assert_int_eq(rc, is_whole - 1);
        if (!is_whole)
            ck_assert_str_eq(err.msg, "no shelf for chunk 3");
        ck_assert_int_ge(shelf->n_stored, 3);
        spot_stream_reader_free(r);
    }
    ck_assert_int_eq(memcmp(shelf->data, file.data + n_header, file.n - n_header), 0);
    free(shelf);
    spot_buf_release(&file);
    spot_buf_release(&out);
}
END_TEST

START_TEST(a_lane_takes_no_more_memory_than_it_may)
{
    for (uint64_t jobs = 1; jobs <= 64; jobs++)
        for (uint64_t byte = 256; byte <= UINT64_C(256) << 20; byte *= 2) {
            size_t n_slot;
            int n_worker;

            spot_lane_size(jobs, byte, &n_worker, &n_slot);
            ck_assert_uint_ge(n_slot, 1);
            ck_assert(n_worker >= 1 && (uint64_t)n_worker <= jobs && (size_t)n_worker <= n_slot);
            ck_assert(n_slot == 1 || n_slot * byte <= SPOT_LANE_BYTE);
            ck_assert(jobs == 1 || 2 * jobs * byte > SPOT_LANE_BYTE || n_slot == 2 * jobs);
        }
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    tcase_add_loop_test(tc, every_chunk_is_stored_once_by_any_number_of_threads, 1, 5);
    tcase_add_loop_test(tc, a_lane_gives_results_in_order_from_any_number_of_threads, 1, 5);
    add_tests(tc);
    return run_suite("stream", tc);
}
