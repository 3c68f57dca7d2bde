/* SPDX-License-Identifier: MIT */
/* Goal: lines are counted, bounded and told from what is no text. */
#include "common/line.h"
#include "doc_rig.h"

static FILE *in_of(const char *data, size_t n)
{
    FILE *const in = tmpfile();

    ck_assert_ptr_nonnull(in);
    ck_assert_uint_eq(fwrite(data, 1, n, in), n);
    rewind(in);
    return in;
}

START_TEST(lines_have_numbers_and_an_empty_input_has_none)
{
    static const char text[] = "one\n\n \t\r\nlast";
    static const char *const want[] = { "one", "", " \t\r", "last" };
    FILE *in = in_of(text, sizeof(text) - 1);
    struct spot_line line = { 0 };
    struct spot_err err = { 0 };

    for (unsigned long i = 0; i < 4; i++) {
        ck_assert_int_eq(spot_line_read(&line, in, 8, "t", &err), 1);
        ck_assert_str_eq(line.text, want[i]);
        ck_assert_uint_eq(line.n, strlen(want[i]));
        ck_assert_uint_eq(line.number, i + 1);
        ck_assert_int_eq(spot_line_is_blank(line.text, line.n), i == 1 || i == 2);
    }
    ck_assert_int_eq(spot_line_read(&line, in, 8, "t", &err), 0);
    ck_assert_uint_eq(line.number, 4);
    spot_line_release(&line);
    fclose(in);
    in = in_of("", 0);
    ck_assert_int_eq(spot_line_read(&line, in, 8, "t", &err), 0);
    ck_assert_uint_eq(line.number, 0);
    fclose(in);
}
END_TEST

START_TEST(a_line_that_is_too_long_is_refused_by_its_number)
{
    FILE *const in = in_of("12345678\n123456789\n", 19);
    struct spot_line line = { 0 };
    struct spot_err err = { 0 };

    ck_assert_int_eq(spot_line_read(&line, in, 8, "t", &err), 1);
    expect_refused(spot_line_read(&line, in, 8, "t", &err), &err,
                   "t:2: a line of more than 8 bytes");
    spot_line_release(&line);
    fclose(in);
}
END_TEST

START_TEST(a_line_of_text_ends_before_its_carriage_returns_and_has_no_nul)
{
    static const char text[] = "a\r\r\n\r\nb\0c\n\0";
    FILE *const in = in_of(text, sizeof(text) - 1);
    struct spot_line line = { 0 };
    struct spot_err err = { 0 };

    ck_assert_int_eq(spot_line_read(&line, in, 8, "t", &err), 1);
    ck_assert_int_eq(spot_line_trim(&line, "t", &err), 0);
    ck_assert_str_eq(line.text, "a");
    ck_assert_uint_eq(line.n, 1);
    ck_assert_int_eq(spot_line_read(&line, in, 8, "t", &err), 1);
    ck_assert_int_eq(spot_line_trim(&line, "t", &err), 0);
    ck_assert_uint_eq(line.n, 0);
    ck_assert_int_eq(spot_line_read(&line, in, 8, "t", &err), 1);
    expect_refused(spot_line_trim(&line, "t", &err), &err, "t:3:2: NUL byte");
    ck_assert_int_eq(spot_line_read(&line, in, 8, "t", &err), 1);
    ck_assert(!spot_line_is_blank(line.text, line.n));
    expect_refused(spot_line_trim(&line, "t", &err), &err, "t:4:1: NUL byte");
    spot_line_release(&line);
    fclose(in);
}
END_TEST

START_TEST(an_input_that_cannot_be_read_is_named)
{
    FILE *const in = fopen("/tmp", "r"); /* a folder opens, and does not read */
    struct spot_line line = { 0 };
    struct spot_err err = { 0 };

    ck_assert_ptr_nonnull(in);
    expect_fail(spot_line_read(&line, in, 8, "t", &err), &err, SPOT_ESYS,
                "cannot read t: Is a directory");
    spot_line_release(&line);
    fclose(in);
}
END_TEST

int main(void)
{
    return run_suite("line", add_tests(tcase_create("core")));
}
