/* SPDX-License-Identifier: MIT */
/* Goal: speeds of grids that were not measured are exact at those that were, ordered between them
 * as they are, and never above what is in proportion to them. */
#include <math.h>
#include <string.h>

#include "common/rng.h"
#include "model/throughput.h"
#include "suite.h"

enum { POINTS = 4, N_MAX = 64 };

static struct spot_job_doc job_of(struct spot_job_profile *profile, size_t n, int64_t batch)
{
    return (struct spot_job_doc){
        .name = "j",
        .global_batch = batch,
        .micro_batch = 1,
        .seq = 1,
        .profile = profile,
        .n_profile = n,
        .memory = { .p_min = 1, .p_max = 8, .d_min = 1, .state_byte_per_param = 16 },
        .cost = { .usd_per_h = -1 },
    };
}

/* Steps of D = 1, 2, 4, 8 that get shorter, by no more than in proportion, at random. */
static void draw(struct spot_rng *rng, struct spot_job_profile profile[POINTS])
{
    double step_s = 1 + (double)spot_rng_below(rng, 1000) / 100;

    for (int i = 0; i < POINTS; i++) {
        profile[i] = (struct spot_job_profile){ .grid = { 1 << i, 1, 1 },
                                                .micro_batch = 1,
                                                .step_s = step_s };
        step_s *= 0.5 + 0.5 * (double)spot_rng_below(rng, 1000) / 1000;
    }
}

static double speed(const struct spot_throughput *t, int d)
{
    return spot_throughput_at(t, d, 1);
}

START_TEST(between_measured_points_speeds_keep_their_order_and_beyond_them_proportion)
{
    struct spot_rng rng;

    spot_rng_init(&rng, 5, 0);
    for (int round = 0; round < 500; round++) {
        const int64_t batch = 8 + (int64_t)spot_rng_below(&rng, 120);
        struct spot_job_profile profile[POINTS];
        struct spot_throughput t;
        struct spot_err err = { 0 };
        struct spot_job_doc job;

        draw(&rng, profile);
        job = job_of(profile, POINTS, batch);
        ck_assert(!spot_throughput_init(&t, &job, N_MAX, SPOT_THROUGHPUT_BOTH, &err));
        for (int i = 0; i < POINTS; i++)
            ck_assert_double_eq(speed(&t, 1 << i), (double)batch / profile[i].step_s);
        for (int d = 2; d <= 8; d++) /* in the order of what was measured */
            ck_assert_double_ge(speed(&t, d) * (1 + 1e-12), speed(&t, d - 1));
        for (int d = 1; d <= N_MAX && d <= batch; d++)
            for (int i = 0; i < POINTS; i++)
                if (d > 1 << i) /* of no measured grid more than in proportion */
                    ck_assert_double_le(speed(&t, d), (double)batch / profile[i].step_s * d /
                                                          (1 << i) * (1 + 1e-12));
        for (int d = (int)batch + 1; d <= N_MAX; d++)
            ck_assert_double_lt(speed(&t, d), 0);
        spot_throughput_release(&t);
    }
}
END_TEST

/* Where a step is fixed + M * each, what lies between is that: a second way to reckon it. */
START_TEST(a_step_that_is_linear_in_its_microbatches_is_told_to_the_digit)
{
    static const int measured[POINTS] = { 1, 3, 8, 16 };
    struct spot_job_profile profile[POINTS];
    const struct spot_job_doc job = job_of(profile, POINTS, 48);
    struct spot_speed_between b;

    for (int i = 0; i < POINTS; i++)
        profile[i] = (struct spot_job_profile){ .grid = { measured[i], 2, 1 },
                                                .micro_batch = 1,
                                                .step_s = 0.5 + 0.25 * (48 / measured[i]) };
    spot_speed_between_init(&b, &job);
    for (int d = 1; d <= 48; d++) {
        enum spot_speed_from from;
        const double s = spot_speed_between_s(&b, d, 2, &from);

        ck_assert_double_le(fabs(s - (0.5 + 0.25 * ((48 + d - 1) / d))), 1e-12);
        ck_assert_int_eq(from, d == 1 || d == 3 || d == 8 || d == 16 ? SPOT_SPEED_PROFILE
                               : d < 16                              ? SPOT_SPEED_INTERPOLATED
                                                                     : SPOT_SPEED_EXTRAPOLATED);
        ck_assert_double_eq(spot_speed_between_s(&b, d, 1, &from), 0);
        ck_assert_int_eq(from, SPOT_SPEED_UNKNOWN);
    }
    spot_speed_between_release(&b);
}
END_TEST

START_TEST(a_stage_count_between_measured_ones_lies_between_them)
{
    struct spot_job_profile profile[] = { { .grid = { 2, 1, 1 }, .micro_batch = 1, .step_s = 9 },
                                          { .grid = { 2, 4, 1 }, .micro_batch = 1, .step_s = 3 },
                                          { .grid = { 2, 4, 1 }, .micro_batch = 1, .step_s = 6 } };
    const struct spot_job_doc job = job_of(profile, 3, 16);
    struct spot_speed_between b;
    enum spot_speed_from from;

    spot_speed_between_init(&b, &job);
    ck_assert_uint_eq(b.n_point, 2); /* the later of two entries counts */
    ck_assert_double_eq(spot_speed_between_s(&b, 2, 2, &from), 8);
    ck_assert_int_eq(from, SPOT_SPEED_EXTRAPOLATED);
    ck_assert_double_eq(spot_speed_between_s(&b, 2, 5, &from), 0);
    ck_assert_double_le(fabs(spot_speed_most(&b, 3) - 16. / 6), 1e-12);
    ck_assert_double_le(fabs(spot_speed_most(&b, 80) - 160. / 6), 1e-12);
    spot_speed_between_release(&b);
}
END_TEST

START_TEST(a_distribution_that_misses_what_was_measured_speaks_only_when_asked)
{
    struct spot_job_profile profile[] = { { .grid = { 1, 1, 1 }, .micro_batch = 1, .step_s = 16 },
                                          { .grid = { 2, 1, 1 }, .micro_batch = 1, .step_s = 12 },
                                          { .grid = { 4, 1, 1 }, .micro_batch = 1, .step_s = 20 } };
    const struct spot_job_doc job = job_of(profile, 3, 16);
    struct spot_err err = { 0 };
    struct spot_throughput t;

    ck_assert(!spot_throughput_init(&t, &job, 16, SPOT_THROUGHPUT_BOTH, &err));
    ck_assert(t.curve.n_point && !spot_step_curve_is_trusted(&t.curve));
    ck_assert_int_eq(spot_throughput_from(&t, 3, 1), SPOT_SPEED_INTERPOLATED);
    ck_assert_int_eq(spot_throughput_from(&t, 8, 1), SPOT_SPEED_EXTRAPOLATED);
    ck_assert_double_lt(speed(&t, 8), speed(&t, 4)); /* the more the slower: it stays so */
    spot_throughput_release(&t);
    ck_assert(!spot_throughput_init(&t, &job, 16, SPOT_THROUGHPUT_CURVE, &err));
    ck_assert_int_eq(spot_throughput_from(&t, 4, 1), SPOT_SPEED_CURVE);
    spot_throughput_release(&t);
}
END_TEST

int main(void)
{
    return run_suite("speed_between", add_tests(tcase_create("core")));
}
