/* SPDX-License-Identifier: MIT */
/* Goal: the generator follows its model: rates, sizes and levels against closed
 * forms, zones that do not disturb each other, regions that fall together. */
#include <math.h>
#include <stdlib.h>

#include "suite.h"
#include "trace/generate.h"

enum { CAP = 20, N = 400000 };

/* No bursts, no shocks, no outages: a plain birth-death model. */
static const struct spot_trace_model plain = { .loss_per_h = 6,
                                               .loss_mean = 1,
                                               .gain_per_h = 12,
                                               .gain_mean = 1,
                                               .burst = 1,
                                               .busy_mean_s = 1800,
                                               .tail = 2 };

START_TEST(one_machine_is_there_for_the_share_of_its_rates)
{
    struct spot_generator gen;
    double there = 0, lost = 0;
    /* Steps are a minute, so the chain leaves a state with 1 - exp(-rate/60). */
    const double down = -expm1(-6 / 60.0), up = -expm1(-12 / 60.0);

    spot_generator_init(&gen, &plain, 1, 1, 1, 5);
    for (int i = 0; i < N; i++) {
        struct spot_gen_net net;

        spot_generator_step(&gen, 60, &net);
        there += gen.zone[0].available;
        lost += net.lost;
    }
    ck_assert_double_eq_tol(there / N, up / (up + down), 0.005);
    ck_assert_double_eq_tol(lost / N, up * down / (up + down), 0.002);
    spot_generator_release(&gen);
}
END_TEST

START_TEST(batches_have_the_mean_that_the_model_states)
{
    struct spot_trace_model model = plain;
    struct spot_generator gen;
    double size = 0, n = 0;

    model.loss_mean = 3;
    model.loss_per_h = 1;
    model.gain_per_h = 3600;
    model.gain_all = 1;
    spot_generator_init(&gen, &model, 1, 1, 10000, 6); /* no loss meets the floor */
    for (int i = 0; i < N; i++) {
        struct spot_gen_net net;

        spot_generator_step(&gen, 60, &net);
        size += net.lost;
        n += net.lost > 0;
    }
    ck_assert_double_eq_tol(size / n, 3, 0.1);
    ck_assert_double_eq_tol(n / N, -expm1(-1 / 60.0), 0.001);
    spot_generator_release(&gen);
}
END_TEST

START_TEST(bursts_leave_the_mean_rate_and_spread_the_counts)
{
    struct spot_trace_model model = plain;
    struct spot_generator gen;
    double mean = 0, square = 0;
    const int n_hour = 8000;

    model.gain_per_h = 3600;
    model.gain_all = 1;
    model.loss_per_h = 1.5;
    model.burst = 10;
    model.busy_share = 0.2;
    model.tail = 3;
    spot_generator_init(&gen, &model, 1, 1, 10000, 8);
    for (int h = 0; h < n_hour; h++) {
        struct spot_gen_net net;

        spot_generator_step(&gen, 3600, &net);
        mean += net.lost;
        square += (double)net.lost * net.lost;
    }
    mean /= n_hour;
    square /= n_hour;
    ck_assert_double_eq_tol(mean, 1.5, 0.12);
    ck_assert_double_gt((square - mean * mean) / mean, 1.5); /* Poisson has 1 */
    spot_generator_release(&gen);
}
END_TEST

START_TEST(a_zone_does_not_depend_on_how_many_others_there_are)
{
    struct spot_trace_model model;
    struct spot_generator one, many;

    ck_assert_int_eq(spot_trace_model_profile("stormy", CAP, &model, NULL), 0);
    spot_generator_init(&one, &model, 1, 1, CAP, 9);
    spot_generator_init(&many, &model, 5, 1, CAP, 9);
    for (int i = 0; i < 5000; i++) {
        spot_generator_step(&one, 60, NULL);
        spot_generator_step(&many, 60, NULL);
        ck_assert_int_eq(one.zone[0].available, many.zone[0].available);
    }
    spot_generator_release(&one);
    spot_generator_release(&many);
}
END_TEST

START_TEST(a_coarser_interval_sees_the_same_history)
{
    struct spot_trace_model model;
    struct spot_generator fine, coarse;

    ck_assert_int_eq(spot_trace_model_profile("typical", CAP, &model, NULL), 0);
    spot_generator_init(&fine, &model, 2, 2, CAP, 10);
    spot_generator_init(&coarse, &model, 2, 2, CAP, 10);
    for (int i = 0; i < 2000; i++) {
        struct spot_gen_net net[2];
        const int32_t before = coarse.zone[1].available;

        for (int k = 0; k < 5; k++)
            spot_generator_step(&fine, 60, NULL);
        spot_generator_step(&coarse, 300, net);
        ck_assert_int_eq(fine.zone[1].available, coarse.zone[1].available);
        ck_assert_int_eq(before - net[1].lost + net[1].gained, coarse.zone[1].available);
    }
    spot_generator_release(&fine);
    spot_generator_release(&coarse);
}
END_TEST

static double correlation(const double *x, const double *y, int n)
{
    double sx = 0, sy = 0, sxx = 0, syy = 0, sxy = 0;

    for (int i = 0; i < n; i++) {
        sx += x[i];
        sy += y[i];
        sxx += x[i] * x[i];
        syy += y[i] * y[i];
        sxy += x[i] * y[i];
    }
    return (n * sxy - sx * sy) / sqrt((n * sxx - sx * sx) * (n * syy - sy * sy));
}

START_TEST(zones_of_one_region_fall_together)
{
    enum { HOURS = 4000 };
    static double level[3][HOURS];
    struct spot_trace_model model;
    struct spot_generator gen;

    ck_assert_int_eq(spot_trace_model_profile("stormy", CAP, &model, NULL), 0);
    spot_generator_init(&gen, &model, 4, 2, CAP, 11); /* zones 0, 1 in one, 2, 3 in the other */
    for (int h = 0; h < HOURS; h++) {
        spot_generator_step(&gen, 3600, NULL);
        for (int k = 0; k < 3; k++)
            level[k][h] = gen.zone[k].available;
    }
    ck_assert_double_gt(correlation(level[0], level[1], HOURS), 0.25);
    ck_assert_double_lt(fabs(correlation(level[0], level[2], HOURS)), 0.07);
    spot_generator_release(&gen);
}
END_TEST

START_TEST(heavy_tails_make_the_longest_pauses_longer)
{
    struct spot_trace_model model = plain;
    int longest[2];

    model.loss_all = 1;
    model.outage_mean_s = 3600;
    model.gain_per_h = 3600;
    for (int k = 0; k < 2; k++) {
        struct spot_generator gen;
        int run = 0;

        model.tail = k ? 1.3 : 20;
        longest[k] = 0;
        spot_generator_init(&gen, &model, 1, 1, CAP, 12);
        for (int i = 0; i < N / 4; i++) {
            spot_generator_step(&gen, 60, NULL);
            run = gen.zone[0].available ? 0 : run + 1;
            longest[k] = run > longest[k] ? run : longest[k];
        }
        spot_generator_release(&gen);
    }
    ck_assert_int_lt(longest[0], 100); /* a tail of 20 is nearly constant, 60 minutes */
    ck_assert_int_gt(longest[1], 600);
}
END_TEST

START_TEST(refuses_models_out_of_range)
{
    struct spot_err err = { 0 };
    struct spot_trace_model model = plain;

    ck_assert_int_eq(spot_trace_model_check(&model, &err), 0);
    model.busy_share = NAN;
    ck_assert_int_eq(spot_trace_model_check(&model, &err), -1);
    ck_assert_int_eq(err.code, SPOT_EUSAGE);
    model = plain;
    model.tail = 1;
    ck_assert_int_eq(spot_trace_model_check(&model, &err), -1);
    ck_assert_int_eq(spot_trace_model_profile("mild", CAP, &model, &err), -1);
    ck_assert_str_eq(err.msg, "unknown profile 'mild': calm, typical or stormy");
}
END_TEST

int main(void)
{
    return run_suite("generate", add_tests(tcase_create("core")));
}
