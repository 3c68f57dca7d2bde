/* SPDX-License-Identifier: MIT */
#define _XOPEN_SOURCE 700
#include <unistd.h>

#include "checkpoint/bundle_file.h"
#include "store_rig.h"

/* Goal: what holders of bundles write to the directory themselves makes one generation with what
 * came as bytes. Word of another generation, of a file that is not whole or of one that was changed
 * afterwards makes none. */

/* As a worker would: the same bytes as put() in its file, by hand. */
static struct spot_written write_bundle(const char *at, int64_t step, int bundle)
{
    struct spot_written w = { .n_byte = BYTES };
    uint8_t data[BYTES];
    char path[SPOT_STORE_PATH + 32];
    FILE *out;

    for (size_t i = 0; i < BYTES; i++)
        data[i] = byte_of(step, bundle, i);
    snprintf(path, sizeof(path), "%s/bundle-%04d", at, bundle);
    out = fopen(path, "wb");
    ck_assert_ptr_nonnull(out);
    ck_assert_uint_eq(fwrite(data, 1, BYTES, out), BYTES);
    ck_assert_int_eq(fclose(out), 0);
    w.hash = spot_hash128(data, BYTES);
    return w;
}

START_TEST(a_generation_of_files_and_of_bytes_is_one)
{
    struct spot_store *s;
    char at[SPOT_STORE_PATH];
    struct spot_written w;
    uint64_t nonce;
    int64_t step;

    make_dir();
    s = open_store(dir, 1, NULL);
    spot_store_begin(s, 7, "");
    ck_assert(spot_store_share(s, at, &nonce));
    ck_assert(spot_store_is_shared(s));
    ck_assert(spot_bundle_file_sees(at, nonce));
    ck_assert(!spot_bundle_file_sees(at, nonce ^ 2));
    ck_assert(!spot_bundle_file_sees(dir, nonce));
    ck_assert(!spot_bundle_file_sees("", nonce));
    ck_assert_int_eq(spot_store_collecting(s), 7);
    w = write_bundle(at, 7, 2);
    spot_store_put_written(s, 7, nonce, 2, &w);
    ck_assert(!spot_store_lacks(s, 2));
    ck_assert(spot_store_lacks(s, 0));
    put(s, 7, 0);
    w = write_bundle(at, 7, 1);
    spot_store_put_written(s, 7, nonce, 1, &w);
    ck_assert_int_eq(result(s, &step, NULL), 1);
    check_content(s, 7);
    spot_store_close(s);
    ck_assert_int_eq(count("tmp"), 0);
    s = open_store(dir, 1, NULL);
    ck_assert_int_eq(spot_store_verify(s, NULL), 0);
    check_content(s, 7);
    spot_store_begin(s, 7, "");
    ck_assert(!spot_store_share(s, at, &nonce)); /* a step has one state */
    spot_store_close(s);
    drop_dir();
}
END_TEST

START_TEST(word_of_another_generation_or_of_a_file_that_is_not_whole_makes_none)
{
    struct spot_store *s;
    struct spot_written w;
    struct spot_err err;
    char at[SPOT_STORE_PATH], old[SPOT_STORE_PATH];
    uint64_t nonce, before;
    int64_t step;

    make_dir();
    s = open_store(dir, 1, NULL);
    save(s, 5);
    spot_store_begin(s, 7, "");
    ck_assert(spot_store_share(s, old, &before));
    spot_store_cancel(s); /* a writer died */
    ck_assert(!spot_store_is_shared(s));
    spot_store_begin(s, 7, "");
    ck_assert(spot_store_share(s, at, &nonce));
    ck_assert_str_ne(at, old);
    ck_assert_int_ne(access(old, F_OK), 0); /* what it left goes with the next */
    for (int b = 0; b < BUNDLES; b++) {
        w = write_bundle(at, 7, b);
        spot_store_put_written(s, 7, before, b, &w); /* late word */
        spot_store_put_written(s, 6, nonce, b, &w);
        ck_assert(spot_store_lacks(s, b));
    }
    w.n_byte++; /* a file that is shorter than was told */
    for (int b = 0; b < BUNDLES; b++)
        spot_store_put_written(s, 7, nonce, b, &w);
    ck_assert_int_eq(result(s, &step, &err), -1);
    ck_assert_int_eq(step, 7);
    ck_assert_ptr_nonnull(strstr(err.msg, "bundle-0000' has 300 bytes, 301 were written"));
    check_content(s, 5);
    ck_assert_int_eq(count("tmp"), 0);
    spot_store_begin(s, 8, "");
    ck_assert(spot_store_share(s, at, &nonce));
    spot_store_close(s);
    ck_assert_int_eq(count("tmp"), 0);
    s = open_store(NULL, 1, NULL);
    spot_store_begin(s, 1, "");
    ck_assert(spot_store_share(s, at, &nonce)); /* in a directory that goes with the store */
    ck_assert_ptr_null(strstr(at, dir));
    ck_assert(spot_bundle_file_sees(at, nonce));
    spot_store_close(s);
    ck_assert_int_ne(access(at, F_OK), 0);
    drop_dir();
}
END_TEST

START_TEST(a_file_that_was_changed_after_it_was_told_of_is_found_damaged)
{
    struct spot_store *s;
    struct spot_err err = { 0 };
    char at[SPOT_STORE_PATH];
    uint64_t nonce;
    int64_t step;

    make_dir();
    s = open_store(dir, 1, NULL);
    save(s, 5);
    spot_store_begin(s, 7, "");
    ck_assert(spot_store_share(s, at, &nonce));
    for (int b = 0; b < BUNDLES; b++) {
        const struct spot_written w = write_bundle(at, 7, b);

        if (b == 1)
            (void)write_bundle(at, 8, b);
        spot_store_put_written(s, 7, nonce, b, &w);
    }
    ck_assert_int_eq(result(s, &step, NULL), 1);
    ck_assert_int_eq(spot_store_verify(s, &err), 1);
    ck_assert_ptr_nonnull(strstr(err.msg, "is damaged"));
    check_content(s, 5);
    spot_store_close(s);
    drop_dir();
}
END_TEST

int main(void)
{
    return run_suite("store_written", add_tests(tcase_create("core")));
}
