/* SPDX-License-Identifier: MIT */
#include <math.h>
#include <string.h>

#include "common/rng.h"
#include "suite.h"
#include "train/microbatch_split.h"

/* Goal: shares cover the microbatches without gap or overlap, no pipeline is left without, and no
 * other shares end earlier: held against every composition of G into D parts. */

enum { D_MAX = 5 };

static void check_cover(int64_t G, uint32_t D, const uint32_t *share)
{
    ck_assert_uint_eq(share[0], 0);
    ck_assert_uint_eq(share[D], G);
    for (uint32_t d = 0; d < D; d++)
        ck_assert_uint_lt(share[d], share[d + 1]);
}

START_TEST(an_even_split_differs_by_one_at_most)
{
    for (uint32_t D = 1; D <= 9; D++)
        for (int64_t G = D; G <= 40; G++) {
            uint32_t share[10], least = (uint32_t)G, most = 0;

            spot_split_even(G, D, share);
            check_cover(G, D, share);
            for (uint32_t d = 0; d < D; d++) {
                const uint32_t m = share[d + 1] - share[d];

                least = m < least ? m : least;
                most = m > most ? m : most;
            }
            ck_assert_uint_le(most - least, 1);
        }
}
END_TEST

/* The least makespan of all compositions of `left` over pipelines d.., each with at least one. */
static double brute(int64_t left, uint32_t d, uint32_t D, const double *time)
{
    double best = INFINITY;

    if (d + 1 >= D || d + 1 >= D_MAX)
        return (double)left * time[d];
    for (int64_t m = 1; m <= left - (int64_t)(D - d - 1); m++)
        best = fmin(best, fmax((double)m * time[d], brute(left - m, d + 1, D, time)));
    return best;
}

START_TEST(no_other_split_ends_earlier)
{
    struct spot_rng rng;

    spot_rng_init(&rng, 5, 0);
    for (int k = 0; k < 3000; k++) {
        const uint32_t D = 1 + (uint32_t)spot_rng_below(&rng, D_MAX);
        const int64_t G = D + (int64_t)spot_rng_below(&rng, 12);
        uint32_t share[D_MAX + 1];
        double time[D_MAX];

        for (uint32_t d = 0; d < D; d++)
            time[d] = 1 + (double)spot_rng_below(&rng, k % 2 ? 4 : 1000);
        spot_split_by_time(G, D, time, share);
        check_cover(G, D, share);
        ck_assert_double_eq(spot_split_makespan(D, share, time), brute(G, 0, D, time));
    }
}
END_TEST

START_TEST(a_machine_four_times_as_slow_gets_a_fourth)
{
    const double time[] = { 4, 1 };
    uint32_t share[3];

    spot_split_by_time(10, 2, time, share);
    ck_assert_uint_eq(share[1], 2);
    ck_assert_uint_eq(share[2], 10);
}
END_TEST

START_TEST(policies_are_read_and_others_refused)
{
    static const char *const bad[] = {
        "",    "evn",  "0,1",        "1,0",
        "-1",  "1,,2", ",1",         "1,",
        "nan", "1e7",  "1 2",        "1,2,",
        "inf", "1e-9", "measured,1", "1,0.00000000000000000000000000000000000000000000000001"
    };
    struct spot_split_policy policy;
    char long_list[2 * SPOT_SPLIT_MAX + 2];

    ck_assert_int_eq(spot_split_parse("even", &policy, NULL), 0);
    ck_assert_int_eq(policy.kind, SPOT_SPLIT_EVEN);
    ck_assert_int_eq(spot_split_parse("measured", &policy, NULL), 0);
    ck_assert_int_eq(policy.kind, SPOT_SPLIT_MEASURED);
    ck_assert_int_eq(spot_split_parse("1,2.5", &policy, NULL), 0);
    ck_assert_int_eq(policy.kind, SPOT_SPLIT_GIVEN);
    ck_assert_uint_eq(policy.n_weight, 2);
    ck_assert_double_eq(policy.weight[1], 2.5);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct spot_err err = { 0 };

        ck_assert_msg(spot_split_parse(bad[i], &policy, &err) == -1, "'%s' was taken", bad[i]);
        ck_assert_int_eq(err.code, SPOT_EUSAGE);
    }
    for (int i = 0; i <= SPOT_SPLIT_MAX; i++)
        memcpy(long_list + 2 * (size_t)i, "1,", 2);
    long_list[2 * SPOT_SPLIT_MAX + 1] = '\0'; /* one too many */
    ck_assert_int_eq(spot_split_parse(long_list, &policy, NULL), -1);
    long_list[2 * SPOT_SPLIT_MAX - 1] = '\0';
    ck_assert_int_eq(spot_split_parse(long_list, &policy, NULL), 0);
}
END_TEST

int main(void)
{
    return run_suite("shares", add_tests(tcase_create("core")));
}
