/* SPDX-License-Identifier: MIT */
/* Goal: the numbers that describe a trace equal those of a walk over every
 * second of it, and the published ones of known traces. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/rng.h"
#include "suite.h"
#include "trace/trace_stats.h"

static void load_good(struct spot_trace *trace, const char *text)
{
    struct spot_err err = { 0 };
    FILE *in = tmpfile();

    ck_assert_ptr_nonnull(in);
    fputs(text, in);
    rewind(in);
    ck_assert_msg(!spot_trace_load(trace, in, "t", &err), "%s", err.msg);
    fclose(in);
}

/* Random counts of some zones at whole seconds. */
static void load_random(struct spot_trace *trace, struct spot_rng *rng, unsigned n_zone)
{
    char text[4096];
    size_t len = (size_t)sprintf(text, "time_s,available,zone\n");
    unsigned time_s = (unsigned)spot_rng_below(rng, 20);

    for (uint64_t i = 6 + spot_rng_below(rng, 80); i; i--) {
        time_s += (unsigned)spot_rng_below(rng, 6);
        len += (size_t)sprintf(text + len, "%u,%u,%c\n", time_s, (unsigned)spot_rng_below(rng, 4),
                               'a' + (int)spot_rng_below(rng, n_zone));
    }
    load_good(trace, text);
}

static void check_series(const struct spot_trace_series *s, double end_s)
{
    struct spot_trace_stats stats;
    double sum = 0, there = 0, lost = 0, gained = 0, run = 0, longest = 0, n_run = 0, last_s = -1;
    int n = 0;

    spot_trace_stats(s, end_s, &stats);
    for (long i = (long)s->time_s[0]; i < (long)end_s; i++, n++) {
        const double t = (double)i;

        sum += spot_trace_at(s, t);
        there += spot_trace_at(s, t) > 0;
    }
    for (long i = (long)s->time_s[0] + 1; i <= (long)end_s; i++) {
        const double t = (double)i;
        const int32_t move = spot_trace_at(s, t) - spot_trace_at(s, t - 1);

        lost += move < 0 ? -move : 0;
        gained += move > 0 ? move : 0;
        if (!move)
            continue;
        if (last_s >= 0) {
            run += t - last_s;
            longest = fmax(longest, t - last_s);
            n_run++;
        }
        last_s = t;
    }
    if (n) {
        ck_assert_double_eq_tol(stats.mean, sum / n, 1e-12);
        ck_assert_double_eq_tol(stats.there_share, there / n, 1e-12);
    }
    ck_assert_double_eq((double)stats.lost.machines, lost);
    ck_assert_double_eq((double)stats.gained.machines, gained);
    ck_assert_double_eq((double)stats.n_run, n_run);
    if (n_run > 0) {
        ck_assert_double_eq_tol(stats.run_mean_s, run / n_run, 1e-9);
        ck_assert_double_eq(stats.run_max_s, longest);
    }
}

START_TEST(stats_equal_a_walk_over_every_second)
{
    struct spot_rng rng;

    spot_rng_init(&rng, 17, (uint64_t)_i);
    for (int round = 0; round < 50; round++) {
        struct spot_trace trace;

        load_random(&trace, &rng, 3);
        for (size_t k = 0; k < trace.n_series; k++)
            check_series(&trace.series[k], trace.end_s);
        spot_trace_release(&trace);
    }
}
END_TEST

START_TEST(correlation_and_absence_equal_a_walk_over_every_second)
{
    struct spot_rng rng;

    spot_rng_init(&rng, 18, (uint64_t)_i);
    for (int round = 0; round < 50; round++) {
        struct spot_trace trace;
        struct spot_trace_together together;
        double n = 0, x = 0, y = 0, xx = 0, yy = 0, xy = 0, none = 0, r, start_s = 0;

        load_random(&trace, &rng, 2);
        if (trace.n_series != 2) {
            spot_trace_release(&trace);
            continue;
        }
        for (size_t k = 0; k < 2; k++)
            start_s = fmax(start_s, trace.series[k].time_s[0]);
        for (long i = (long)start_s; i < (long)trace.end_s; i++, n++) {
            const double t = (double)i;
            const double a = spot_trace_at(&trace.series[0], t);
            const double b = spot_trace_at(&trace.series[1], t);

            x += a, y += b, xx += a * a, yy += b * b, xy += a * b;
            none += a + b == 0;
        }
        r = spot_trace_correlation(&trace.series[0], &trace.series[1], trace.end_s);
        if (n * xx > x * x && n * yy > y * y)
            ck_assert_double_eq_tol(r, (n * xy - x * y) / sqrt((n * xx - x * x) * (n * yy - y * y)),
                                    1e-9);
        else
            ck_assert(isnan(r));
        spot_trace_together(&trace, &together);
        ck_assert_double_eq(together.start_s, start_s);
        if (n > 0)
            ck_assert_double_eq_tol(together.none_share, none / n, 1e-12);
        spot_trace_release(&trace);
    }
}
END_TEST

START_TEST(slices_keep_the_total)
{
    struct spot_rng rng;

    spot_rng_init(&rng, 19, 0);
    for (int round = 0; round < 50; round++) {
        struct spot_trace trace;
        double mean[7], sum = 0, want = 0, slice_s;

        load_random(&trace, &rng, 3);
        slice_s = (trace.end_s - trace.start_s) / 7;
        for (size_t k = 0; k < trace.n_series && slice_s > 0; k++) {
            spot_trace_slices(&trace.series[k], trace.start_s, trace.end_s, 7, mean);
            for (int i = 0; i < 7; i++)
                sum += mean[i] * slice_s;
            for (long i = (long)trace.start_s; i < (long)trace.end_s; i++)
                want += spot_trace_at(&trace.series[k], (double)i);
        }
        ck_assert_double_eq_tol(sum, want, 1e-9);
        spot_trace_release(&trace);
    }
}
END_TEST

START_TEST(sizes_and_prices_of_a_trace_by_hand)
{
    struct spot_trace trace;
    struct spot_trace_stats s;

    load_good(&trace, "time_s,available,price_usd_per_h\n"
                      "0,10,1\n60,9,\n120,7,3\n180,0,3\n240,8,\n300,8,2\n");
    spot_trace_stats(&trace.series[0], trace.end_s, &s);
    ck_assert_uint_eq(s.lost.n, 3);
    ck_assert_int_eq(s.lost.machines, 10);
    ck_assert_double_eq(s.lost.per_h, 36);
    ck_assert_double_eq(s.lost.size_p50, 2);
    ck_assert_double_eq(s.lost.size_p90, 7);
    ck_assert_double_eq(s.lost.size_max, 7);
    ck_assert_uint_eq(s.gained.n, 1);
    ck_assert_double_eq(s.mean, 34.0 / 5);
    ck_assert_double_eq(s.there_share, 0.8);
    ck_assert_double_eq_tol(s.lost_per_machine_h, 10 * 3600 / (34.0 * 60), 1e-12);
    ck_assert_double_eq_tol(s.price_mean_usd_per_h, 7.0 / 3, 1e-12);
    ck_assert_double_eq(s.run_cv, 0);
    spot_trace_release(&trace);
}
END_TEST

START_TEST(a_single_row_has_no_rates)
{
    struct spot_trace trace;
    struct spot_trace_stats s;
    struct spot_trace_together together;
    double mean[3];

    load_good(&trace, "time_s,available\n7,4\n");
    spot_trace_stats(&trace.series[0], trace.end_s, &s);
    ck_assert_double_eq(s.mean, 4);
    ck_assert_double_eq(s.there_share, 1);
    ck_assert(isnan(s.lost.per_h) && isnan(s.lost.size_max) && isnan(s.run_mean_s));
    spot_trace_together(&trace, &together);
    ck_assert_double_eq(together.none_share, 0);
    spot_trace_slices(&trace.series[0], 7, 7, 3, mean);
    ck_assert_double_eq(mean[2], 4);
    spot_trace_release(&trace);
}
END_TEST

/* Published: 683 rows, mean 24.0, 79 losses of 2.11, 83 gains, hold 120 s, .611 per hour. */
START_TEST(the_p3_trace_has_its_known_numbers)
{
    static const char path[] = "../shared/data/traces/parcae/p3trace.csv";
    FILE *in = fopen(path, "r");
    struct spot_trace trace;
    struct spot_trace_stats s;

    if (!in)
        return;
    fclose(in);
    ck_assert_int_eq(spot_trace_load_path(&trace, path, NULL), 0);
    spot_trace_stats(&trace.series[0], trace.end_s, &s);
    ck_assert_uint_eq(s.n_row, 683);
    ck_assert_double_eq_tol(s.mean, 24.0, 0.05);
    ck_assert_uint_eq(s.lost.n, 79);
    ck_assert_uint_eq(s.gained.n, 83);
    ck_assert_int_eq(s.lost.machines, 167);
    ck_assert_int_eq(s.gained.machines, 159);
    ck_assert_double_eq(s.run_median_s, 120);
    ck_assert_double_eq_tol(s.lost_per_machine_h, 0.611, 0.0006);
    spot_trace_release(&trace);
}
END_TEST

/* Is q the nearest rank of x [n]: at least that many are at or below, and fewer are below? */
static bool is_rank(const double *x, int n, double p, double q)
{
    int below = 0, until = 0;

    for (int i = 0; i < n; i++) {
        below += x[i] < q;
        until += x[i] <= q;
    }
    return below < ceil(p * n) && until >= ceil(p * n);
}

/* So many that they are sorted otherwise; runs of a part of a second to days. */
START_TEST(ranks_of_many_runs_and_moves_are_those_of_a_count)
{
    enum { ROWS = 4000 };
    static double time_s[ROWS], run_s[ROWS], lost[ROWS];
    static int32_t available[ROWS];
    const struct spot_trace_series s = { .time_s = time_s, .available = available, .n = ROWS };
    struct spot_trace_stats stats;
    struct spot_rng rng;
    int n_lost = 0;

    spot_rng_init(&rng, 7, (uint64_t)_i);
    for (int i = 1; i < ROWS; i++) {
        time_s[i] = time_s[i - 1] + exp(14 * spot_rng_unit(&rng) - 2);
        available[i] = (available[i - 1] + 1 + (int32_t)spot_rng_below(&rng, 900)) % 1000;
        if (available[i] < available[i - 1])
            lost[n_lost++] = available[i - 1] - available[i];
        if (i > 1)
            run_s[i - 2] = time_s[i] - time_s[i - 1];
    }
    spot_trace_stats(&s, time_s[ROWS - 1], &stats);
    ck_assert_int_eq((int)stats.n_run, ROWS - 2);
    ck_assert_int_eq((int)stats.lost.n, n_lost);
    ck_assert(is_rank(run_s, ROWS - 2, 0.5, stats.run_median_s));
    ck_assert(is_rank(run_s, ROWS - 2, 1, stats.run_max_s));
    ck_assert(is_rank(lost, n_lost, 0.5, stats.lost.size_p50));
    ck_assert(is_rank(lost, n_lost, 0.9, stats.lost.size_p90));
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    tcase_add_loop_test(tc, stats_equal_a_walk_over_every_second, 0, 4);
    tcase_add_loop_test(tc, correlation_and_absence_equal_a_walk_over_every_second, 0, 4);
    tcase_add_loop_test(tc, ranks_of_many_runs_and_moves_are_those_of_a_count, 0, 3);
    add_tests(tc);
    return run_suite("trace_stats", tc);
}
