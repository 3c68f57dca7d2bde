/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "suite.h"
#include "text/token_weights.h"

/* Goal: one number for each token, in any layout of white space; what is not one is named with its
 * line. */

static char path[64];

static void setup(void)
{
    const int fd = mkstemp(strcpy(path, "/tmp/spot-weights-XXXXXX"));

    ck_assert_int_ge(fd, 0);
    close(fd);
}

static void teardown(void)
{
    unlink(path);
}

static int reads(const char *text, size_t n, float **weight, uint64_t *xxh3, struct spot_err *err)
{
    FILE *const out = fopen(path, "w");

    ck_assert_ptr_nonnull(out);
    fputs(text, out);
    ck_assert_int_eq(fclose(out), 0);
    return spot_token_weights_read(path, n, weight, xxh3, err);
}

START_TEST(numbers_are_read_in_any_layout)
{
    static const float want[] = { 0, 1, -0.5F, 1e-3F, 0.1F };
    static const char *const text[] = { "0 1 -.5 1e-3 0.1\n", "0\n1\n-0.5\n0.001\n.1",
                                        "\t0 1\r\n\n  -0.5 1E-3  \n0.10\n\n" };
    uint64_t first = 0;

    for (size_t i = 0; i < sizeof(text) / sizeof(text[0]); i++) {
        struct spot_err err = { 0 };
        uint64_t xxh3 = 0;
        float *weight;

        ck_assert_msg(!reads(text[i], 5, &weight, &xxh3, &err), "%s", err.msg);
        ck_assert_mem_eq(weight, want, sizeof(want));
        ck_assert_uint_ne(xxh3, 0);
        first = first ? first : xxh3;
        ck_assert_uint_eq(xxh3, first);
        free(weight);
    }
}
END_TEST

START_TEST(another_number_is_another_hash)
{
    uint64_t a, b;
    float *weight;

    ck_assert_int_eq(reads("1 2 3", 3, &weight, &a, NULL), 0);
    free(weight);
    ck_assert_int_eq(reads("1 2 3.0000002", 3, &weight, &b, NULL), 0);
    free(weight);
    ck_assert_uint_ne(a, b);
}
END_TEST

START_TEST(what_is_wrong_is_named)
{
    static const struct {
        const char *text, *named;
    } wrong[] = {
        { "1 2\n3 x4 5", ":2: expected a number, got 'x4'" },
        { "1 2 nan", ":1: expected a number, got 'nan'" },
        { "1 2 3 4 1e39", ":1: expected a number, got '1e39'" },
        { "1 2 3 4", "4 weights for 5 tokens" },
        { "", "0 weights for 5 tokens" },
        { "1 2 3\n4 5\n6", ":3: more weights than the data's 5 tokens" },
        { "1,2,3,4,5", "expected a number" },
    };

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct spot_err err = { 0 };
        uint64_t xxh3;
        float *weight;

        ck_assert_int_eq(reads(wrong[i].text, 5, &weight, &xxh3, &err), -1);
        ck_assert_int_eq(err.code, SPOT_EDATA);
        ck_assert_msg(strstr(err.msg, wrong[i].named) != NULL, "%s", err.msg);
        ck_assert_ptr_null(weight);
    }
}
END_TEST

int main(void)
{
    TCase *const c = tcase_create("token_weights");

    tcase_add_checked_fixture(c, setup, teardown);
    add_tests(c);
    return run_case("token_weights", c);
}
