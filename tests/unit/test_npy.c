/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "common/npy.h"
#include "doc_rig.h"

/* Goal: a matrix is the numbers that NumPy saved, whatever their type and order; anything else is
 * refused before memory is taken for it. */

/* One array: a header of version 1, then n bytes. */
static size_t save(unsigned char *to, const char *header, const void *data, size_t n)
{
    const size_t length = strlen(header);

    memcpy(to, "\x93NUMPY\1\0", 8);
    to[8] = (unsigned char)(length & 0xff);
    to[9] = (unsigned char)(length >> 8);
    memcpy(to + 10, header, length);
    memcpy(to + 10 + length, data, n);
    return 10 + length + n;
}

static int read_one(const unsigned char *byte, size_t n, struct spot_npy *m, struct spot_err *err)
{
    FILE *const in = fmemopen((void *)(uintptr_t)byte, n, "r");
    int rc;

    ck_assert(spot_npy_begins(in) == (byte[0] == 0x93));
    rc = spot_npy_read(m, in, "a.npy", 16, err);
    fclose(in);
    return rc;
}

/* The matrix [[1, -2, 3], [-4, 5, -6]] in each form; unsigned without the signs. */
static const struct {
    const char *type;
    int byte;
    bool is_big, is_unsigned, is_fortran;
} form[] = {
    { "|i1", 1, 0, 0, 0 }, { "<i2", 2, 0, 0, 0 }, { ">i2", 2, 1, 0, 1 }, { "<i4", 4, 0, 0, 1 },
    { "<i8", 8, 0, 0, 0 }, { ">i8", 8, 1, 0, 0 }, { "|u1", 1, 0, 1, 1 }, { "<u8", 8, 0, 1, 0 },
};

START_TEST(numbers_are_those_that_were_saved)
{
    static const int64_t want[] = { 1, -2, 3, -4, 5, -6 };
    const bool is_fortran = form[_i].is_fortran;
    unsigned char data[6 * 8], file[256];
    char header[128];
    struct spot_err err;
    struct spot_npy m;

    for (int k = 0; k < 6; k++) {
        const int64_t at = is_fortran ? k % 2 * 3 + k / 2 : k;
        const int64_t x = form[_i].is_unsigned ? llabs(want[at]) : want[at];

        for (int b = 0; b < form[_i].byte; b++)
            data[k * form[_i].byte + (form[_i].is_big ? form[_i].byte - 1 - b : b)] =
                (unsigned char)((uint64_t)x >> (8 * b));
    }
    snprintf(header, sizeof header, "{'descr': '%s', 'fortran_order': %s, 'shape': (2, 3), }   \n",
             form[_i].type, is_fortran ? "True" : "False");
    const size_t n = save(file, header, data, 6 * (size_t)form[_i].byte);

    ck_assert_int_eq(read_one(file, n, &m, &err), 0);
    ck_assert(m.n_row == 2 && m.n_col == 3);
    spot_npy_widen(&m);
    for (int k = 0; k < 6; k++)
        ck_assert_int_eq(m.cell[k], form[_i].is_unsigned ? llabs(want[k]) : want[k]);
    spot_npy_release(&m);
    for (size_t cut = 0; cut < n; cut++)
        ck_assert_int_eq(read_one(file, cut ? cut : 1, &m, &err), -1);
}
END_TEST

/* Whatever is no matrix of integers, or has too many. */
static const char *const bad[] = {
    "{'descr': '<f8', 'fortran_order': False, 'shape': (2, 3), }",
    "{'descr': '<i3', 'fortran_order': False, 'shape': (2, 3), }",
    "{'descr': [('a', '<i8')], 'fortran_order': False, 'shape': (2, 3), }",
    "{'descr': '<i8', 'fortran_order': False, 'shape': (6,), }",
    "{'descr': '<i8', 'fortran_order': False, 'shape': (1, 2, 3), }",
    "{'descr': '<i8', 'fortran_order': False, 'shape': (-2, 3), }",
    "{'descr': '<i8', 'fortran_order': False, 'shape': (17, 1), }",
    "{'descr': '<i8', 'fortran_order': False, 'shape': (1, 999999999999999), }",
    "{'descr': '<i8', 'shape': (2, 3), }",
    "",
};

START_TEST(what_is_no_matrix_of_integers_is_refused)
{
    static const unsigned char zero[8 * 300];
    unsigned char file[4096];
    struct spot_err err;
    struct spot_npy m;
    const size_t n = save(file, bad[_i], zero, sizeof zero);

    ck_assert_int_eq(read_one(file, n, &m, &err), -1);
    ck_assert_int_eq(err.code, SPOT_EDATA);
    file[6] = 4; /* a version to come */
    ck_assert_int_eq(read_one(file, n, &m, &err), -1);
}
END_TEST

START_TEST(sides_may_be_empty_and_what_follows_stays)
{
    static const char header[] = "{'descr': '<i8', 'fortran_order': False, 'shape': (0, 3), }";
    unsigned char file[256];
    const size_t n = save(file, header, "next", 4);
    FILE *const in = fmemopen(file, n, "r");
    struct spot_err err;
    struct spot_npy m;
    char rest[5] = "";

    ck_assert_int_eq(spot_npy_read(&m, in, "a.npy", 16, &err), 0);
    ck_assert(m.n_row == 0 && m.n_col == 3);
    ck_assert_int_eq(fread(rest, 1, 4, in), 4);
    ck_assert_str_eq(rest, "next");
    spot_npy_release(&m);
    fclose(in);
}
END_TEST

int main(void)
{
    TCase *const tc = tcase_create("npy");

    tcase_add_loop_test(tc, numbers_are_those_that_were_saved, 0, sizeof form / sizeof form[0]);
    tcase_add_loop_test(tc, what_is_no_matrix_of_integers_is_refused, 0,
                        sizeof bad / sizeof bad[0]);
    tcase_add_test(tc, sides_may_be_empty_and_what_follows_stays);
    return run_suite("npy", tc);
}
