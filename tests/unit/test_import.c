/* SPDX-License-Identifier: MIT */
/* Goal: an import does not depend on how its input was cut into overlapping
 * windows, nor on how often it is read. */
#include <stdlib.h>
#include <string.h>

#include "common/rng.h"
#include "suite.h"
#include "trace/import.h"

static void read_text(struct spot_import *imp, const char *format, const char *text)
{
    struct spot_err err = { 0 };
    FILE *in = tmpfile();

    ck_assert_ptr_nonnull(in);
    fputs(text, in);
    rewind(in);
    ck_assert_msg(!spot_import_read(imp, spot_import_find(format), in, "t", &err), "%s", err.msg);
    fclose(in);
}

static void check_equal(struct spot_import *a, struct spot_import *b)
{
    struct spot_trace x, y;
    struct spot_err err = { 0 };

    spot_import_sort(a);
    spot_import_sort(b);
    ck_assert_msg(!spot_import_trace(a, &x, &err), "%s", err.msg);
    ck_assert_msg(!spot_import_trace(b, &y, &err), "%s", err.msg);
    ck_assert_uint_eq(x.n_series, y.n_series);
    ck_assert_uint_eq(x.n_node, y.n_node);
    for (size_t k = 0; k < x.n_series; k++) {
        const struct spot_trace_series *s = &x.series[k], *t = &y.series[k];

        ck_assert_uint_eq(s->n, t->n);
        ck_assert_mem_eq(s->time_s, t->time_s, s->n * sizeof(*s->time_s));
        ck_assert_mem_eq(s->available, t->available, s->n * sizeof(*s->available));
        ck_assert_uint_eq(s->n_event, t->n_event);
    }
    spot_trace_release(&x);
    spot_trace_release(&y);
    spot_import_release(a);
    spot_import_release(b);
}

/* Events of nodes that come and go at random, one line each. */
static size_t random_events(struct spot_rng *rng, char line[][32], size_t n)
{
    bool is_there[6] = { false };
    unsigned time_ms = 0;

    for (size_t i = 0; i < n; i++) {
        const size_t node = (size_t)spot_rng_below(rng, 6);

        time_ms += 1 + (unsigned)spot_rng_below(rng, 3000); /* no two at one moment */
        is_there[node] = !is_there[node];
        sprintf(line[i], "%u,%s,n%zu\n", time_ms, is_there[node] ? "add" : "remove", node);
    }
    return n;
}

static void join(char *text, char line[][32], size_t begin, size_t end)
{
    *text = '\0';
    for (size_t i = begin; i < end; i++)
        text += sprintf(text, "%s", line[i]);
}

START_TEST(windows_that_overlap_import_as_the_whole)
{
    struct spot_rng rng;
    static char line[60][32];

    spot_rng_init(&rng, 21, (uint64_t)_i);
    for (int round = 0; round < 50; round++) {
        const size_t n = random_events(&rng, line, 2 + spot_rng_below(&rng, 58));
        struct spot_import whole = { 0 }, windows = { 0 };
        char text[4096];

        join(text, line, 0, n);
        read_text(&whole, "events", text);
        for (size_t begin = 0, end = 0; end < n; begin = spot_rng_below(&rng, end + 1)) {
            end = end + 1 + spot_rng_below(&rng, n - end);
            join(text, line, begin, end);
            read_text(&windows, "events", text);
            if (end == n)
                break;
        }
        check_equal(&whole, &windows);
    }
}
END_TEST

/* One node at few moments, each of which windows may cut and say again. */
START_TEST(a_flap_within_a_moment_stays_however_often_it_is_said)
{
    struct spot_rng rng;

    spot_rng_init(&rng, 23, (uint64_t)_i);
    for (int round = 0; round < 50; round++) {
        struct spot_import whole = { 0 }, windows = { 0 };
        const size_t n = 3 + spot_rng_below(&rng, 20);
        static char line[60][32];
        struct spot_trace trace;
        struct spot_err err = { 0 };
        unsigned time_ms = 0;
        char text[4096];

        for (size_t i = 0; i < n; i++) {
            time_ms += 1000 * (unsigned)(spot_rng_below(&rng, 4) == 0);
            sprintf(line[i], "%u,%s,n\n", time_ms, i % 2 ? "remove" : "add");
        }
        join(text, line, 0, n);
        read_text(&whole, "events", text);
        for (size_t begin = 0, end = 0; end < n; begin = spot_rng_below(&rng, end + 1)) {
            end = end + 1 + spot_rng_below(&rng, n - end);
            join(text, line, begin, end);
            read_text(&windows, "events", text);
        }
        spot_import_sort(&whole);
        ck_assert_msg(!spot_import_trace(&whole, &trace, &err), "%s", err.msg);
        ck_assert_uint_eq(trace.series[0].n_event, n);
        spot_trace_release(&trace);
        spot_import_sort(&windows); /* it leaves as it left, and came as often or more */
        ck_assert_msg(!spot_import_trace(&windows, &trace, &err), "%s", err.msg);
        ck_assert_int_eq(trace.series[0].available[trace.series[0].n - 1], (int)(n % 2));
        spot_trace_release(&trace);
        spot_import_release(&whole);
        spot_import_release(&windows);
    }
}
END_TEST

/* The rule for logs that restate themselves, by brute force: a record counts only
 * if its time lies before all later ones. */
START_TEST(a_log_that_goes_back_keeps_what_was_said_last)
{
    struct spot_rng rng;

    spot_rng_init(&rng, 22, (uint64_t)_i);
    for (int round = 0; round < 50; round++) {
        const size_t n = 1 + spot_rng_below(&rng, 40);
        unsigned time_s[40], count[40];
        char log[4096], clean[4096], line[64];
        size_t log_len = 0, clean_len = 0;
        struct spot_import a = { 0 }, b = { 0 };

        for (size_t i = 0; i < n; i++) {
            time_s[i] = (unsigned)(5 * i + spot_rng_below(&rng, 30));
            count[i] = (unsigned)spot_rng_below(&rng, 9);
        }
        for (size_t i = 0; i < n; i++) {
            bool is_kept = true;

            for (size_t k = i + 1; k < n; k++)
                is_kept &= time_s[i] < time_s[k];
            sprintf(line, "2021-12-11, 10:%02u:%02u, %u\n", time_s[i] / 60, time_s[i] % 60,
                    count[i]);
            log_len += (size_t)sprintf(log + log_len, "%s", line);
            if (is_kept)
                clean_len += (size_t)sprintf(clean + clean_len, "%s", line);
        }
        read_text(&a, "count-log", log);
        read_text(&b, "count-log", clean);
        check_equal(&a, &b);
    }
}
END_TEST

START_TEST(formats_are_found_by_name)
{
    ck_assert_ptr_nonnull(spot_import_find("aws-price"));
    ck_assert_ptr_null(spot_import_find("aws"));
    ck_assert_ptr_null(spot_import_find(""));
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    tcase_add_loop_test(tc, windows_that_overlap_import_as_the_whole, 0, 4);
    tcase_add_loop_test(tc, a_flap_within_a_moment_stays_however_often_it_is_said, 0, 4);
    tcase_add_loop_test(tc, a_log_that_goes_back_keeps_what_was_said_last, 0, 4);
    tcase_add_test(tc, formats_are_found_by_name);
    return run_suite("import", tc);
}
