/* SPDX-License-Identifier: MIT */
/* Goal: dates mean what the C library says they mean; other text is refused. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "common/elapsed.h"
#include "common/rng.h"
#include "common/timestamp.h"
#include "suite.h"

static const struct good_case {
    const char *text;
    double unix_s;
} good_cases[] = {
    { "1970-01-01T00:00:00Z", 0 },
    { "2026-03-01T06:12:09+00:00", 1772345529 },
    { "2026-03-01T06:12:09.000Z", 1772345529 },
    { "2026-03-01T06:12:09.125Z", 1772345529.125 },
    { "2026-03-01T06:12:09-08:00", 1772374329 },
    { "2026-03-01T06:12:09+0530", 1772325729 },
    { "2026-03-01t06:12:09z", 1772345529 },
    { "2021-12-11, 23:59:30", 1639267170 },
    { "2021-12-11 23:59:30", 1639267170 },
    { "2024-02-29", 1709164800 },
    { "2016-12-31T23:59:60Z", 1483228800 },
};

static const char *const bad_cases[] = {
    "",
    "now",
    "2026-13-01",
    "2026-00-01",
    "2026-02-29",
    "1900-02-29",
    "2026-03-01T",
    "2026-03-01T24:00:00Z",
    "2026-03-01T06:60:00Z",
    "2026-03-01T06:12",
    "2026-03-01T06:12:09.",
    "2026-03-01T06:12:09.5x",
    "2026-03-01T06:12:09+25:00",
    "2026-03-01T06:12:09Zz",
    "26-03-01",
    "2026-3-1",
    "-026-03-01",
    "2026-03-0106:12:09",
};

START_TEST(a_time_without_a_zone_is_of_the_zone_that_was_given)
{
    double offset_s, unix_s;

    ck_assert_int_eq(spot_timestamp_zone("+05:30", &offset_s), 0);
    ck_assert(offset_s == 19800);
    ck_assert_int_eq(spot_timestamp_parse_in("2026-03-01 06:12:09", offset_s, &unix_s), 0);
    ck_assert(unix_s == 1772325729);
    ck_assert_int_eq(spot_timestamp_parse_in("2026-03-01T06:12:09Z", offset_s, &unix_s), 0);
    ck_assert(unix_s == 1772345529);
    ck_assert_int_eq(spot_timestamp_parse_in("2024-02-29", offset_s, &unix_s), 0);
    ck_assert(unix_s == 1709164800 - 19800);
    ck_assert_int_eq(spot_timestamp_zone("-0800", &offset_s), 0);
    ck_assert(offset_s == -28800);
    ck_assert_int_eq(spot_timestamp_zone("Z", &offset_s), 0);
    ck_assert_int_eq(spot_timestamp_zone("", &offset_s), -1);
    ck_assert_int_eq(spot_timestamp_zone("Europe/Berlin", &offset_s), -1);
    ck_assert_int_eq(spot_timestamp_zone("+01:00x", &offset_s), -1);
}
END_TEST

START_TEST(reads_what_clouds_write)
{
    double unix_s;

    ck_assert_int_eq(spot_timestamp_parse(good_cases[_i].text, &unix_s), 0);
    ck_assert_double_eq(unix_s, good_cases[_i].unix_s);
}
END_TEST

START_TEST(refuses_what_is_no_date)
{
    double unix_s;

    ck_assert_msg(spot_timestamp_parse(bad_cases[_i], &unix_s) == -1, "%s", bad_cases[_i]);
}
END_TEST

START_TEST(every_day_agrees_with_the_c_library)
{
    struct spot_rng rng;

    spot_rng_init(&rng, 3, 0);
    for (int i = 0; i < 20000; i++) {
        const time_t want = (time_t)spot_rng_below(&rng, 8000000000ULL);
        struct tm tm;
        char text[64];
        double got;

        ck_assert_ptr_nonnull(gmtime_r(&want, &tm));
        ck_assert_uint_gt(strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &tm), 0);
        ck_assert_int_eq(spot_timestamp_parse(text, &got), 0);
        ck_assert_double_eq(got, (double)want);
    }
}
END_TEST

START_TEST(every_second_agrees_with_the_c_library_in_the_form_of_http_too)
{
    struct spot_rng rng;

    spot_rng_init(&rng, 4, 0);
    for (int i = 0; i < 20000; i++) {
        const time_t want = (time_t)spot_rng_below(&rng, 8000000000ULL);
        struct tm tm;
        char text[64], form[SPOT_TIMESTAMP_TEXT];
        double got;

        ck_assert_ptr_nonnull(gmtime_r(&want, &tm));
        ck_assert_uint_gt(strftime(text, sizeof(text), "%a, %d %b %Y %H:%M:%S GMT", &tm), 0);
        ck_assert_int_eq(spot_timestamp_parse_http(text, &got), 0);
        ck_assert_double_eq(got, (double)want);
        ck_assert_uint_gt(strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S.250Z", &tm), 0);
        ck_assert_str_eq(spot_timestamp_format((double)want + 0.25, form), text);
    }
}
END_TEST

START_TEST(what_is_no_date_of_http_is_refused_and_what_is_no_year_is_cut)
{
    static const char *const wrong[] = {
        "",
        "Tue",
        "Tue, 09 Aug 2022 17:07:32",
        "Tue, 09 Aug 2022 17:07:32 CET",
        "Tue, 9 Aug 2022 17:07:32 GMT",
        "Tue, 30 Feb 2022 17:07:32 GMT",
        "Tue, 09 Agu 2022 17:07:32 GMT",
        "Tue, 09 Aug 22 17:07:32 GMT",
        "Tue, 09 Aug 2022 24:07:32 GMT",
        "Xue, 09 Aug 2022 17:07:32 GMT",
        "Tue, 09 Aug 2022 17:07:32 GMT ",
        "Tuesday, 09-Aug-22 17:07:32 GMT",
    };
    char form[SPOT_TIMESTAMP_TEXT];
    double got;

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        ck_assert_msg(spot_timestamp_parse_http(wrong[i], &got) == -1, "%s", wrong[i]);
    ck_assert_str_eq(spot_timestamp_format(-1e300, form), "1970-01-01T00:00:00.000Z");
    ck_assert_str_eq(spot_timestamp_format(1e300, form), "9999-12-31T23:59:59.999Z");
    ck_assert_str_eq(spot_timestamp_format(1772345529.9996, form), "2026-03-01T06:12:10.000Z");
}
END_TEST

START_TEST(a_wait_is_read_at_a_glance_and_told_of_seldom)
{
    static const struct {
        double s;
        const char *text;
    } want[] = {
        { -1, "0 s" },      { 0.25, "0.25 s" },   { 5, "5 s" },        { 45.4, "45 s" },
        { 99.4, "99 s" },   { 100, "1:40 min" },  { 185, "3:05 min" }, { 7199, "119:59 min" },
        { 7200, "2:00 h" }, { 93784, "26:03 h" }, { 1e300, "0 s" },
    };
    struct spot_wait wait = { 0 };
    char text[SPOT_ELAPSED_TEXT];

    for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++)
        ck_assert_str_eq(spot_elapsed_text(want[i].s, text), want[i].text);
    ck_assert_double_eq(spot_wait_s(&wait), 0);
    ck_assert(!spot_wait_is_due(&wait, 1e9));
    wait = (struct spot_wait){ 0 };
    ck_assert(spot_wait_is_due(&wait, 0));
    ck_assert(!spot_wait_is_due(&wait, 0));
    wait.since_s -= 100; /* it is due, and then not for as long as it has been */
    wait.next_s = wait.since_s + 1;
    ck_assert(spot_wait_is_due(&wait, 0));
    ck_assert_double_ge(wait.next_s - wait.since_s, 200);
    ck_assert_double_ge(spot_wait_s(&wait), 100);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    tcase_add_loop_test(tc, reads_what_clouds_write, 0, sizeof(good_cases) / sizeof(good_cases[0]));
    tcase_add_loop_test(tc, refuses_what_is_no_date, 0, sizeof(bad_cases) / sizeof(bad_cases[0]));
    add_tests(tc);
    return run_suite("timestamp", tc);
}
