/* SPDX-License-Identifier: MIT */
/* Goal: what is compressed is read as what it stands for, in any number of frames; input that is
 * damaged, cut or grows beyond all measure is told as such. */
#include <zlib.h>
#include <zstd.h>

#include "common/unpack.h"
#include "doc_rig.h"

enum { N = 300000, ROOM = N + 100000 };

static char text[N];
static unsigned char packed[ROOM];

/* Lines that compress well, and are told apart. */
static void fill(void)
{
    for (int i = 0; i < N; i++)
        text[i] = (char)(i % 61 ? 'a' + i / 1000 % 26 : '\n');
}

static size_t pack(const char *from, size_t n, unsigned char *to, bool is_zstd)
{
    z_stream z = { .next_in = (unsigned char *)(uintptr_t)from,
                   .avail_in = (unsigned)n,
                   .next_out = to,
                   .avail_out = ROOM };
    size_t got;

    if (is_zstd) {
        got = ZSTD_compress(to, ROOM, from, n, 3);
        ck_assert(!ZSTD_isError(got));
        return got;
    }
    ck_assert_int_eq(deflateInit2(&z, 6, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY), Z_OK);
    ck_assert_int_eq(deflate(&z, Z_FINISH), Z_STREAM_END);
    deflateEnd(&z);
    return z.total_out;
}

static FILE *in_of(const void *data, size_t n)
{
    FILE *const in = tmpfile();

    ck_assert_ptr_nonnull(in);
    ck_assert_uint_eq(fwrite(data, 1, n, in), n);
    rewind(in);
    return in;
}

/* Reads all; returns what closing said. *got: bytes. */
static int read_all(const void *data, size_t n, char *out, size_t *got, uint64_t n_free,
                    uint64_t n_times, struct spot_err *err)
{
    FILE *const in = in_of(data, n);
    struct spot_unpack u;
    int rc;

    *err = (struct spot_err){ 0 };
    ck_assert_int_eq(spot_unpack_open(&u, in, "t", err), 0);
    if (n_times)
        spot_unpack_limit(&u, n_free, n_times);
    *got = fread(out, 1, 2 * N, u.in);
    rc = spot_unpack_close(&u, 0, err);
    fclose(in);
    return rc;
}

START_TEST(several_frames_are_one_text)
{
    char *const out = malloc(2 * N);
    struct spot_err err;
    size_t n, got;

    fill();
    n = pack(text, N / 3, packed, _i);
    n += pack(text + N / 3, N - N / 3, packed + n, _i);
    ck_assert_msg(!read_all(packed, n, out, &got, 0, 0, &err), "%s", err.msg);
    ck_assert_uint_eq(got, N);
    ck_assert_mem_eq(out, text, N);
    free(out);
}
END_TEST

START_TEST(what_is_not_compressed_is_left_as_it_is)
{
    static const char *const plain[] = { "", "\x1f", "\x1f\x8b", "\x28\xb5\x2f", "time_s\n" };
    char *const out = malloc(2 * N);
    struct spot_err err;
    size_t got;

    for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); i++) {
        ck_assert_int_eq(read_all(plain[i], strlen(plain[i]), out, &got, 1, 1, &err), 0);
        ck_assert_uint_eq(got, strlen(plain[i]));
        ck_assert(!got || !memcmp(out, plain[i], got));
    }
    free(out);
}
END_TEST

/* "t: bad KIND data after N bytes of text: WHY" */
static void expect_bad(int rc, const struct spot_err *err, bool is_zstd, size_t n, const char *why)
{
    char want[160];

    snprintf(want, sizeof(want), "t: bad %s data after %zu bytes of text: %s",
             is_zstd ? "zstd" : "gzip", n, why);
    expect_refused(rc, err, want);
}

START_TEST(damage_and_a_cut_are_told)
{
    char *const out = malloc(2 * N);
    struct spot_err err;
    size_t n, got;
    int rc;

    fill();
    n = pack(text, N, packed, _i);
    for (size_t cut = 1; cut < n - 8; cut = 3 * cut + 7) {
        rc = read_all(packed, n - cut, out, &got, 0, 0, &err);
        expect_bad(rc, &err, _i, got, "cut short");
        ck_assert(!got || !memcmp(out, text, got));
    }
    memset(packed + n / 2, 0xFF, n / 4);
    ck_assert_int_eq(read_all(packed, n, out, &got, 0, 0, &err), -1);
    ck_assert_int_eq(err.code, SPOT_EDATA);
    ck_assert_ptr_nonnull(strstr(err.msg, _i ? "t: bad zstd data" : "t: bad gzip data"));
    ck_assert_ptr_null(strstr(err.msg, "cut short"));
    free(out);
}
END_TEST

START_TEST(what_was_small_and_is_large_is_refused_beyond_the_limit)
{
    char *const out = malloc(2 * N);
    struct spot_err err;
    size_t n, got;
    int rc;

    memset(text, 'x', N);
    n = pack(text, N, packed, _i);
    ck_assert_uint_lt(n, N / 100);
    ck_assert_int_eq(read_all(packed, n, out, &got, N, 1, &err), 0); /* so much is free */
    ck_assert_int_eq(read_all(packed, n, out, &got, 0, N / n + 1, &err), 0);
    rc = read_all(packed, n, out, &got, 0, 20, &err);
    ck_assert_int_eq(rc, -1);
    ck_assert_int_eq(err.code, SPOT_EDATA);
    ck_assert_ptr_nonnull(strstr(err.msg, ": more than 0 MiB and 20 times its compressed size"));
    free(out);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    tcase_add_loop_test(tc, several_frames_are_one_text, 0, 2);
    tcase_add_test(tc, what_is_not_compressed_is_left_as_it_is);
    tcase_add_loop_test(tc, damage_and_a_cut_are_told, 0, 2);
    tcase_add_loop_test(tc, what_was_small_and_is_large_is_refused_beyond_the_limit, 0, 2);
    return run_suite("unpack", tc);
}
