/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "common/histogram.h"
#include "common/rng.h"
#include "suite.h"

/* Goal: a histogram counts each time once, below its bound, and its quantiles are those of the
 * sorted times to within their bucket. */

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

START_TEST(quantiles_are_in_the_bucket_of_the_sorted_times)
{
    enum { N = 1000 };
    static const double q[] = { 0.01, 0.5, 0.9, 0.99, 1 };
    double time_s[N];
    struct spot_histogram h = { 0 };
    struct spot_rng rng;

    spot_rng_init(&rng, 3, 0);
    for (int i = 0; i < N; i++) {
        time_s[i] = 0.0001 + spot_rng_unit(&rng) * spot_rng_unit(&rng) * 10;
        spot_histogram_add(&h, time_s[i]);
    }
    qsort(time_s, N, sizeof(double), by_value);
    for (size_t i = 0; i < sizeof(q) / sizeof(*q); i++) {
        const double exact_s = time_s[(int)(q[i] * N + 0.5) - 1];
        const double got_s = spot_histogram_quantile_s(&h, q[i]);
        int bucket = 0;

        while (exact_s > spot_histogram_bound_s(bucket))
            bucket++;
        ck_assert_double_le(got_s, spot_histogram_bound_s(bucket) * (1 + 1e-12));
        ck_assert_double_ge(got_s, bucket ? spot_histogram_bound_s(bucket - 1) : 0);
    }
}
END_TEST

START_TEST(nothing_and_times_beyond_all_bounds_have_quantiles_too)
{
    struct spot_histogram h = { 0 };

    ck_assert_double_eq(spot_histogram_quantile_s(&h, 0.5), 0);
    spot_histogram_add(&h, 1e9);
    ck_assert_double_eq(spot_histogram_quantile_s(&h, 0.5),
                        spot_histogram_bound_s(SPOT_HISTOGRAM_BUCKETS - 1));
}
END_TEST

START_TEST(prometheus_reads_cumulative_counts_that_end_in_all)
{
    struct spot_histogram h = { 0 };
    struct spot_buf out = { 0 };

    spot_histogram_add(&h, 0.0002);
    spot_histogram_add(&h, 0.0003);
    spot_histogram_add(&h, 1e9);
    spot_histogram_put(&h, "x_seconds", NULL, &out);
    spot_histogram_put(&h, "y_seconds", "kind=\"z\"", &out);
    spot_buf_add(&out, "", 1);
    ck_assert_ptr_eq(strstr((char *)out.data, "x_seconds_bucket{le=\"0.00025\"} 1\n"
                                              "x_seconds_bucket{le=\"0.0005\"} 2\n"),
                     out.data);
    ck_assert_ptr_nonnull(
        strstr((char *)out.data, "\ny_seconds_bucket{kind=\"z\",le=\"0.0005\"} 2\n"));
    ck_assert_ptr_nonnull(strstr((char *)out.data, "\ny_seconds_count{kind=\"z\"} 3\n"));
    ck_assert_ptr_nonnull(strstr((char *)out.data, "x_seconds_bucket{le=\"+Inf\"} 3\n"));
    ck_assert_ptr_nonnull(strstr((char *)out.data, "x_seconds_count 3\n"));
    spot_buf_release(&out);
}
END_TEST

int main(void)
{
    return run_suite("histogram", add_tests(tcase_create("histogram")));
}
