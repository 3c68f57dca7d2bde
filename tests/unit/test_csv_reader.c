/* SPDX-License-Identifier: MIT */
#include "common/csv_reader.h"

#include "common/xalloc.h"
#include "doc_rig.h"

/* Goal: every malformed document is refused with its exact position. */
static const struct bad_case {
    const char *text;
    const char *message;
} bad_cases[] = {
    { "", "t: empty input, expected a CSV header" },
    { "a,c\n1,2\n", "t:1:1: header lacks the column b" },
    { "a,b\n1,x\n", "t:2:3: b: expected a number, got 'x'" },
    { "a,b\n\"1\",\"2,5\"\n", "t:2:5: b: expected a number, got '2,5'" },
    { "a,b\n1\n", "t:2:1: expected 2 fields, got 1" },
    { "a,b\n1,\"2\n", "t:2:1: quoted field is never closed" },
    { "a,b\n1,2\"\n", "t:2:4: stray quote" },
    { "a,b\n1,nan\n", "t:2:3: b: expected a number, got 'nan'" },
    { "a,b\n1,0x10\n", "t:2:3: b: expected a number, got '0x10'" },
    { "a,b\n1,+0x10\n", "t:2:3: b: expected a number, got '+0x10'" },
    { "a,b\n1,-0x1p3\n", "t:2:3: b: expected a number, got '-0x1p3'" },
    { "a,b\n\"x\ny\",z\n", "t:3:4: b: expected a number, got 'z'" },
    { "a,b,c\n1,z,\"x\ny\"\n", "t:2:1: b: expected a number, got 'z'" },
    { "a;b\n1;2\n",
      "t:1:1: header lacks the column a; are the columns separated by ';'? they must be "
      "by commas" },
    { "a\tb\n",
      "t:1:1: header lacks the column a; are the columns separated by tabs? they must be by "
      "commas" },
    { "a|b\n",
      "t:1:1: header lacks the column a; are the columns separated by '|'? they must be by "
      "commas" },
    { "x;y\n", "t:1:1: header lacks the column a" },
    { "{\"a\": 1}\n", "t:1:1: expected a CSV header, this is JSON" },
    { "[1]\n", "t:1:1: expected a CSV header, this is JSON" },
};

static int read_b(const struct spot_csv_row *row, void *user, struct spot_err *err)
{
    double *sum = user, x;

    if (spot_csv_real(row, 1, -1e9, 1e9, &x, err))
        return -1;
    *sum += x;
    return 0;
}

static int read_text(const char *text, size_t len, double *sum, struct spot_err *err)
{
    static const char *const want[] = { "a", "b" };
    /* fmemopen only reads here. NOLINTNEXTLINE(performance-no-int-to-ptr) */
    FILE *in = len ? fmemopen((void *)(uintptr_t)text, len, "r") : fopen("/dev/null", "r");
    int rc;

    ck_assert_ptr_nonnull(in);
    rc = spot_csv_read(in, "t", want, 2, read_b, sum, NULL, err);
    fclose(in);
    return rc;
}

START_TEST(refuses_malformed_with_position)
{
    const struct bad_case *c = &bad_cases[_i];
    struct spot_err err = { 0 };
    double sum = 0;

    ck_assert_int_eq(read_text(c->text, strlen(c->text), &sum, &err), -1);
    ck_assert_str_eq(err.msg, c->message);
    ck_assert_int_eq(err.code, SPOT_EDATA);
}
END_TEST

static int read_any(const struct spot_csv_row *row, void *user, struct spot_err *err)
{
    (void)row, (void)user, (void)err;
    return 0;
}

START_TEST(a_name_that_is_nearly_right_is_told)
{
    static const char *const want[] = { "time_s", "count" };
    static const struct {
        const char *text, *message;
    } wrong[] = {
        { "time,count\n", "t:1:1: header lacks the column time_s; did you mean 'time'?" },
        { "Time_s,counts\n", "t:1:1: header lacks the column time_s; did you mean 'Time_s'?" },
        { "time_s,cuont\n", "t:1:1: header lacks the column count; did you mean 'cuont'?" },
        { "time_s,kind\n", "t:1:1: header lacks the column count" },
        { "when,count\n", "t:1:1: header lacks the column time_s" },
    };

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        FILE *const in = opened(wrong[i].text);
        struct spot_err err = { 0 };

        expect_refused(spot_csv_read(in, "t", want, 2, read_any, NULL, NULL, &err), &err,
                       wrong[i].message);
        fclose(in);
    }
}
END_TEST

static char doubts[512];

static void note_doubt(const char *sentence)
{
    strcat(strcat(doubts, sentence), "\n");
}

START_TEST(a_column_with_nearly_the_name_of_an_optional_one_is_reported)
{
    static const char *const want[] = { "time_s", "?zone", "?quota", "?hazard_per_h" };
    static const struct {
        const char *text, *told;
    } file[] = {
        { "time_s,zone,quota,hazard_per_h,extra\n", "" },
        { "time_s,note\n", "" },
        { "time_s,zone,zones\n", "" }, /* the column itself is there */
        { "time_s,zon,qota,hazard_perh\n",
          "t:1: the column 'zon' is not read; did you mean 'zone'?\n"
          "t:1: the column 'qota' is not read; did you mean 'quota'?\n"
          "t:1: the column 'hazard_perh' is not read; did you mean 'hazard_per_h'?\n" },
    };

    for (size_t i = 0; i < sizeof(file) / sizeof(file[0]); i++)
        for (int is_set = 0; is_set < 2; is_set++) {
            FILE *const in = opened(file[i].text);
            struct spot_err err = { 0 };

            doubts[0] = '\0';
            spot_csv_doubts(is_set ? note_doubt : NULL);
            ck_assert_int_eq(spot_csv_read(in, "t", want, 4, read_any, NULL, NULL, &err), 0);
            ck_assert_str_eq(doubts, is_set ? file[i].told : "");
            fclose(in);
        }
    spot_csv_doubts(NULL);
}
END_TEST

START_TEST(columns_lines_and_bytes_have_their_limits)
{
    char text[512] = "a,b";
    char *const line = malloc(3 * SPOT_CSV_LINE_MAX + 64);
    struct spot_err err = { 0 };
    double sum;

    for (int i = 2; i < SPOT_CSV_COLUMNS_MAX; i++)
        strcat(text, ",c");
    ck_assert_int_eq(read_text(text, strlen(text), &sum, &err), 0);
    strcat(text, ",d\n");
    expect_refused(read_text(text, strlen(text), &sum, &err), &err, "t:1:129: too many columns");
    expect_refused(read_text("a,b\n1\0,2\n", 9, &sum, &err), &err, "t:2:1: NUL byte in field");
    memcpy(line, "a,b\n", 4);
    memset(line + 4, '1', 3 * SPOT_CSV_LINE_MAX);
    expect_refused(read_text(line, 3 * SPOT_CSV_LINE_MAX, &sum, &err), &err,
                   "t:2: line longer than 1048576 bytes");
    free(line);
}
END_TEST

START_TEST(accepts_bom_crlf_quotes_and_extra_columns)
{
    static const char text[] = "\xEF\xBB\xBFx,b,a\r\n\"multi\nline\",2,1\r\n,\"3\",4";
    struct spot_err err = { 0 };
    double sum = 0;

    ck_assert_msg(read_text(text, sizeof(text) - 1, &sum, &err) == 0, "%s", err.msg);
    ck_assert_double_eq(sum, 5);
}
END_TEST

START_TEST(a_file_without_header_has_the_columns_it_is_said_to_have)
{
    static const char *const want[] = { "a", "b" };
    static const char *const text[] = { "1,2\r\n3,4\n", "1,2\n3\n", "", "1,x" };
    static const char *const message[] = { "", "t:2:1: expected 2 fields, got 1",
                                           "t: empty input, expected rows",
                                           "t:1:3: b: expected a number, got 'x'" };

    for (size_t i = 0; i < 4; i++) {
        struct spot_err err = { 0 };
        double sum = 0;
        FILE *in = tmpfile();

        ck_assert_ptr_nonnull(in);
        fputs(text[i], in);
        rewind(in);
        ck_assert_int_eq(spot_csv_read_log(in, "t", want, 2, true, read_b, &sum, NULL, &err),
                         *message[i] ? -1 : 0);
        ck_assert_str_eq(err.msg, message[i]);
        if (!i)
            ck_assert_double_eq(sum, 6);
        fclose(in);
    }
}
END_TEST

/* Goal: of a log whatever can be read is, and the rest is counted: once for each record, the first
 * with its place. The good rows are worth 1, 2, 4, .. */
static const struct log_case {
    const char *text;
    double sum;
    size_t n;
    const char *first;
} log_case[] = {
    { "a,b\n0,1\n0,2\n", 3, 0, "" },
    { "a,b\n0,1\n0,x\n0,2\n9\n0,4\n", 7, 2, "t:3:3: b: expected a number, got 'x'" },
    { "a,b\n0,1\n0,\"9\"9\n0,2\n", 3, 1, "t:3:6: stray quote" },
    { "a,b\n0,1\n\xff,9\n\"\n\xff\",9\n0,2\n", 3, 3, "t:3:1: not valid UTF-8" },
    { "a,b\n0,1\n0,2\n0,\"9", 3, 1, "t:4:1: quoted field is never closed" },
    { "a,b\n0,1\n0,\"9\n0,2\n0,4\n", 7, 1, "t:3:1: quoted field is never closed" },
    { "a,b\n0,1\n0,\"9\n0,2\n\"0\",4\n0,\"x\ny\n\"\"0\",8\n", 7, 4,
      "t:3:1: quoted field is never closed" },
    { "a,b\n0,1\n\"x\ny\",2\n\"x\n0,4\n\",8,8\n", 7, 2, "t:5:1: quoted field is never closed" },
    { "a,b\n0,1\n0,9,9\n\n \t\n0,2\n,\n", 3, 2, "t:3:1: expected 2 fields, got 3" },
    { "a,b\r0,1\r0,x\r0,2\r", 3, 1, "t:1:7: b: expected a number, got '0'" }, /* old Macs */
};

static int read_as_log(const char *text, size_t n, double *sum, struct spot_bad_rows *bad,
                       struct spot_err *err)
{
    static const char *const want[] = { "a", "b" };
    FILE *in = tmpfile();
    int rc;

    ck_assert_ptr_nonnull(in);
    fwrite(text, 1, n, in);
    rewind(in);
    *sum = 0;
    rc = spot_csv_read_log(in, "t", want, 2, false, read_b, sum, bad, err);
    fclose(in);
    return rc;
}

START_TEST(what_of_a_log_can_be_read_is)
{
    const struct log_case *c = &log_case[_i];
    struct spot_bad_rows bad = { 0 }, strict = { .is_strict = true };
    struct spot_err err = { 0 };
    double sum;

    ck_assert_msg(!read_as_log(c->text, strlen(c->text), &sum, &bad, &err), "%s", err.msg);
    ck_assert_double_eq(sum, c->sum);
    ck_assert_uint_eq(bad.n, c->n);
    if (strchr(c->text, '\n')) /* else the place is that of the line, which is the file */
        ck_assert_str_eq(bad.first.msg, c->first);
    ck_assert_int_eq(read_as_log(c->text, strlen(c->text), &sum, &strict, &err), c->n ? -1 : 0);
}
END_TEST

START_TEST(a_log_without_a_row_is_another_file)
{
    static const char *const wrong[][2] = {
        { "a,b\n0,x\n0,y\n", "t:2:3: b: expected a number, got 'x'" },
        { "a,c\n0,1\n", "t:1:1: header lacks the column b" },
        { "", "t: empty input, expected a CSV header" },
    };
    struct spot_err err = { 0 };
    double sum;

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct spot_bad_rows bad = { 0 };

        expect_refused(read_as_log(wrong[i][0], strlen(wrong[i][0]), &sum, &bad, &err), &err,
                       wrong[i][1]);
    }
}
END_TEST

/* A line of 5 MiB in the middle, and at the end. */
START_TEST(a_line_that_is_too_long_is_one_row)
{
    enum { LONG = 5 << 20 };
    char *text = spot_xcalloc(2 * LONG + 64, 1);
    struct spot_bad_rows bad = { 0 };
    struct spot_err err = { 0 };
    size_t n = (size_t)sprintf(text, "a,b\n0,1\n");
    double sum;

    memset(text + n, 'x', LONG);
    n += LONG;
    n += (size_t)sprintf(text + n, "\n0,2\n0,z\n0,4\n");
    memset(text + n, 'y', LONG);
    ck_assert_msg(!read_as_log(text, n + LONG, &sum, &bad, &err), "%s", err.msg);
    ck_assert_double_eq(sum, 7);
    ck_assert_uint_eq(bad.n, 3);
    ck_assert_str_eq(bad.first.msg, "t:3: line longer than 1048576 bytes");
    free(text);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    tcase_add_loop_test(tc, refuses_malformed_with_position, 0,
                        sizeof(bad_cases) / sizeof(bad_cases[0]));
    tcase_add_loop_test(tc, what_of_a_log_can_be_read_is, 0,
                        sizeof(log_case) / sizeof(log_case[0]));
    add_tests(tc);
    return run_suite("csv_reader", tc);
}
