/* SPDX-License-Identifier: MIT */
/* Goal: arrivals and their dispersion are those of a count of every request. */
#include "trace/load_seen.h"

#include <math.h>

#include "common/rng.h"
#include "suite.h"

enum { REQUESTS = 400 };

static size_t recount(const double *time_s, size_t n, double from_s, double to_s)
{
    size_t sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += time_s[i] > from_s && time_s[i] <= to_s;
    return sum;
}

/* Of whole minutes back from to_s, an hour at most; drawn towards 1 by five of them. */
static double dispersion(const double *time_s, size_t n, double from_s, double to_s)
{
    double sum = 0, square = 0, bins = 0;

    for (double end_s = to_s; bins < 60 && end_s - 60 >= from_s; end_s -= 60, bins++)
        sum += (double)recount(time_s, n, end_s - 60, end_s);
    for (int b = 0; b < (int)bins; b++) {
        const double x = (double)recount(time_s, n, to_s - 60 * (b + 1), to_s - 60 * b);

        square += (x - sum / bins) * (x - sum / bins);
    }
    return bins < 2 || sum <= 0 ? 1 : (bins * square / (bins - 1) / (sum / bins) + 5) / (bins + 5);
}

START_TEST(arrivals_are_those_of_a_count_of_all)
{
    double time_s[REQUESTS];
    struct spot_rng rng;

    spot_rng_init(&rng, 3, (uint64_t)_i);
    for (size_t n = 0; n <= REQUESTS; n += n < 4 ? 1 : 99) {
        const struct spot_load load = { .n = n, .time_s = time_s };
        double now_s = 0;

        for (size_t i = 0; i < n; i++) /* bursts, some at one second, and gaps */
            time_s[i] = now_s +=
                (double)spot_rng_below(&rng, 4) * (double)spot_rng_below(&rng, 4) * (_i + 1);
        for (int k = 0; k < 200; k++) {
            const double to_s = (double)spot_rng_below(&rng, (uint64_t)now_s + 200) - 50;
            const double from_s = to_s - (double)spot_rng_below(&rng, 5000);

            ck_assert_uint_eq(spot_load_arrivals(&load, from_s, to_s),
                              recount(time_s, n, from_s, to_s));
            ck_assert_double_eq_tol(spot_load_dispersion_seen(&load, from_s, to_s),
                                    dispersion(time_s, n, from_s, to_s), 1e-9);
        }
        ck_assert_uint_eq(spot_load_arrivals(&load, now_s, now_s - 1), 0);
    }
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    tcase_add_loop_test(tc, arrivals_are_those_of_a_count_of_all, 0, 5);
    return run_case("load_seen", tc);
}
