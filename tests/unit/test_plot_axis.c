/* SPDX-License-Identifier: MIT */
/* Goal: axes of counts have whole numbers only, and every axis covers its range with few marks. */
#include "cli/plot_axis.h"

#include <math.h>

#include "suite.h"

START_TEST(counts_have_whole_steps_from_0)
{
    for (int high = 0; high <= 3000; high++)
        for (int most = 3; most <= 12; most++) {
            const struct spot_axis a = spot_axis_over(1, high, true, most);

            ck_assert(a.low == 0 && a.n >= 1 && a.n <= most);
            ck_assert(a.step >= 1 && a.step == rint(a.step));
            ck_assert(a.low + a.n * a.step >= high);
            ck_assert(a.low + (a.n - 1) * a.step < fmax(high, 1));
            if (high <= most)
                ck_assert(a.step == 1);
        }
}
END_TEST

START_TEST(any_range_is_covered)
{
    for (int i = 0; i < 2000; i++) {
        const double low = (i % 7 - 3) * pow(10, i % 11 - 3), width = pow(1.03, i % 900);
        const struct spot_axis a = spot_axis_over(low, low + width, false, 6);

        ck_assert(a.n >= 1 && a.n <= 6);
        ck_assert(a.low <= low && a.low + a.step > low);
        ck_assert(a.low + a.n * a.step >= low + width - 1e-12 * (fabs(low) + width));
    }
    ck_assert(spot_axis_over(5, 5, false, 6).n >= 1);
}
END_TEST

START_TEST(large_numbers_have_a_prefix)
{
    char text[SPOT_AXIS_TEXT];

    ck_assert_str_eq(spot_axis_text(0, true, text), "0");
    ck_assert_str_eq(spot_axis_text(500000, true, text), "500k");
    ck_assert_str_eq(spot_axis_text(1500000, true, text), "1.5M");
    ck_assert_str_eq(spot_axis_text(-4e6, true, text), "-4M");
    ck_assert_str_eq(spot_axis_text(2e16, true, text), "20000T");
    ck_assert_str_eq(spot_axis_text(20000, false, text), "20000");
    ck_assert_str_eq(spot_axis_text(0.25, false, text), "0.25");
}
END_TEST

int main(void)
{
    return run_suite("plot_axis", add_tests(tcase_create("plot_axis")));
}
