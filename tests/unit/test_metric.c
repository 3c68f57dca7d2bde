/* SPDX-License-Identifier: MIT */
#include <math.h>
#include <string.h>

#include "common/metric.h"
#include "suite.h"

/* Goal: a table of metrics becomes the text that Prometheus reads: what a name is stands once,
 * before its first sample; what is not known is not told; no number loses a bit. */

static const char *text_of(const struct spot_metric *metric, size_t n)
{
    static struct spot_buf out;

    out.n = 0;
    spot_metric_put(metric, n, &out);
    spot_buf_add(&out, "", 1);
    return (char *)out.data;
}

START_TEST(a_name_is_described_once_before_all_its_samples)
{
    const struct spot_metric metric[] = {
        { "a_total", SPOT_COUNTER, "How often.", "kind=\"x\"", 3, NULL },
        { "a_total", SPOT_COUNTER, "How often.", "kind=\"y\"", 0, NULL },
        { "b_bytes", SPOT_GAUGE, "How much.", NULL, -0.5, NULL },
    };

    ck_assert_str_eq(text_of(metric, 3), "# HELP a_total How often.\n# TYPE a_total counter\n"
                                         "a_total{kind=\"x\"} 3\na_total{kind=\"y\"} 0\n"
                                         "# HELP b_bytes How much.\n# TYPE b_bytes gauge\n"
                                         "b_bytes -0.5\n");
}
END_TEST

START_TEST(what_is_not_known_is_not_told)
{
    const struct spot_metric metric[] = {
        { "a", SPOT_GAUGE, "None.", NULL, NAN, NULL },
        { "b", SPOT_GAUGE, "Some.", "k=\"1\"", NAN, NULL },
        { "b", SPOT_GAUGE, "Some.", "k=\"2\"", 2, NULL },
    };

    ck_assert_str_eq(text_of(metric, 3), "# HELP b Some.\n# TYPE b gauge\nb{k=\"2\"} 2\n");
    ck_assert_str_eq(text_of(metric, 1), "");
}
END_TEST

START_TEST(numbers_come_back_as_they_were)
{
    static const double value[] = { 0, 1e-300, 0.1, 1.0 / 3, 9007199254740991.0, 1e300 };

    for (size_t i = 0; i < sizeof(value) / sizeof(*value); i++) {
        const struct spot_metric m = { "a", SPOT_GAUGE, "It.", NULL, value[i], NULL };
        const char *const text = text_of(&m, 1);

        ck_assert_double_eq(strtod(strrchr(text, ' '), NULL), value[i]);
    }
    ck_assert_str_eq(
        strrchr(text_of(&(struct spot_metric){ "a", SPOT_GAUGE, "It.", NULL, INFINITY, NULL }, 1),
                ' '),
        " +Inf\n");
}
END_TEST

START_TEST(a_histogram_has_its_description_and_its_label)
{
    struct spot_histogram h = { 0 };
    const struct spot_metric m = { "t_seconds", SPOT_HISTOGRAM, "How long.", "k=\"1\"", 0, &h };
    const char *text;

    spot_histogram_add(&h, 0.0004);
    text = text_of(&m, 1);
    ck_assert_ptr_eq(strstr(text, "# HELP t_seconds How long.\n# TYPE t_seconds histogram\n"
                                  "t_seconds_bucket{k=\"1\",le=\"0.00025\"} 0\n"
                                  "t_seconds_bucket{k=\"1\",le=\"0.0005\"} 1\n"),
                     text);
    ck_assert_ptr_nonnull(strstr(text, "\nt_seconds_sum{k=\"1\"} 0.0004"));
    ck_assert_ptr_nonnull(strstr(text, "\nt_seconds_count{k=\"1\"} 1\n"));
}
END_TEST

int main(void)
{
    return run_suite("metric", add_tests(tcase_create("metric")));
}
