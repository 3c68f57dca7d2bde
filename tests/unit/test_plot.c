/* SPDX-License-Identifier: MIT */
/* Goal: what is not finite is a gap in a drawing, in whichever edge it stands, and no number of its
 * script. */
#define _POSIX_C_SOURCE 200809L
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "cli/plot.h"
#include "suite.h"
#include "trace/trace_write.h"

enum { N = 4 };

/* The script of a figure of one series; free it. */
static char *script_of(const struct spot_series *series)
{
    const struct spot_figure figure = {
        .title = "t", .x_label = "x", .y_label = "y", .series = series, .n_series = 1
    };
    char dir[] = "/tmp/spot-plot-XXXXXX", path[64], *text = calloc(1 << 16, 1);
    struct spot_err err = { 0 };
    FILE *in;

    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/p.gp", dir);
    ck_assert_msg(!spot_plot(&figure, path, &err), "%s", err.msg);
    in = fopen(path, "r");
    ck_assert_ptr_nonnull(in);
    ck_assert_uint_gt(fread(text, 1, (1 << 16) - 1, in), 0);
    fclose(in);
    unlink(path);
    rmdir(dir);
    return text;
}

static size_t lines_of_data(const char *script)
{
    const char *at = strstr(script, "<< EOD\n"), *end = at ? strstr(at, "\nEOD\n") : NULL;
    size_t n = 0;

    ck_assert_ptr_nonnull(end);
    for (at += strlen("<< EOD\n"); at <= end; at = strchr(at, '\n') + 1)
        n += isdigit((unsigned char)*at) != 0;
    return n;
}

static void expect_finite(const char *script)
{
    for (const char *c = script; *c; c++)
        if ((c == script || !isalpha((unsigned char)c[-1])) && !isalpha((unsigned char)c[3]))
            ck_assert_msg(strncasecmp(c, "nan", 3) != 0 && strncasecmp(c, "inf", 3) != 0, "%.40s",
                          c);
}

START_TEST(what_is_not_finite_is_a_gap)
{
    static const double wrong[] = { NAN, INFINITY, -INFINITY };

    for (size_t i = 0; i < 3 * 3; i++) {
        double x[N] = { 1, 2, 3, 4 }, y[N] = { 1, 3, 2, 5 }, y2[N] = { 2, 4, 3, 6 };
        struct spot_series s = {
            .label = "s", .style = SPOT_SERIES_BAND, .n = N, .x = x, .y = y, .y2 = y2
        };
        char *script;

        (i % 3 == 0 ? x : i % 3 == 1 ? y : y2)[2] = wrong[i / 3];
        script = script_of(&s);
        ck_assert_uint_eq(lines_of_data(script), N - 1);
        expect_finite(script);
        free(script);
        for (size_t k = 0; k < N; k++) /* nothing at all is left */
            y[k] = wrong[i / 3];
        script = script_of(&s);
        expect_finite(script);
        ck_assert_ptr_nonnull(strstr(script, "no data"));
        free(script);
    }
}
END_TEST

START_TEST(a_cell_of_csv_that_is_not_finite_is_empty)
{
    static const double of[] = { NAN, 1, INFINITY, -INFINITY, 0.5 };
    char *text = NULL;
    size_t n;
    FILE *out = open_memstream(&text, &n);

    for (size_t i = 0; i < 5; i++) {
        spot_trace_put_real(out, of[i]);
        putc(',', out);
    }
    fclose(out);
    ck_assert_str_eq(text, ",1,,,0.5,");
    free(text);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("plot");

    tcase_add_test(tc, what_is_not_finite_is_a_gap);
    tcase_add_test(tc, a_cell_of_csv_that_is_not_finite_is_empty);
    return run_suite("plot", tc);
}
