/* SPDX-License-Identifier: MIT */
/* Goal: the fit finds the model that a trace was made by, and says so when there
 * is nothing to find. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "suite.h"
#include "trace/generate_fit.h"

static void make(struct spot_trace *trace, const struct spot_trace_model *model, int n_zone,
                 int32_t cap, int hours, uint64_t seed)
{
    struct spot_trace_builder b = { .trace = trace, .source = "made" };
    struct spot_generator gen;

    *trace = (struct spot_trace){ 0 };
    spot_generator_init(&gen, model, (size_t)n_zone, 1, cap, seed);
    for (int i = 0; i <= hours * 60; i++) {
        for (int k = 0; k < n_zone; k++) {
            char zone[16];

            snprintf(zone, sizeof(zone), "z%d", k);
            ck_assert_int_eq(
                spot_trace_build(&b,
                                 &(struct spot_trace_row){ .series = (size_t)k,
                                                           .zone = zone,
                                                           .instance_type = "",
                                                           .time_s = 60.0 * i,
                                                           .available = gen.zone[k].available,
                                                           .requested = -1,
                                                           .price_usd_per_h = NAN },
                                 NULL),
                0);
        }
        spot_generator_step(&gen, 60, NULL);
    }
    spot_trace_find_span(trace);
    spot_generator_release(&gen);
}

static void check_near(const char *what, double got, double want, double share)
{
    ck_assert_msg(fabs(got - want) <= share * want, "%s: %g, made with %g", what, got, want);
}

START_TEST(finds_the_distribution_of_a_profile)
{
    static const char *const profile[] = { "typical", "stormy" };
    struct spot_trace_model made, found;
    struct spot_trace trace;
    int32_t cap;

    ck_assert_int_eq(spot_trace_model_profile(profile[_i], 32, &made, NULL), 0);
    made.shock_per_h = 0; /* the fit takes shocks for losses */
    make(&trace, &made, 2, 32, 500, 31);
    ck_assert_int_eq(spot_trace_model_fit(&trace, 60, &found, &cap, NULL), 0);
    ck_assert_int_eq(cap, 32);
    check_near("loss_per_h", found.loss_per_h, made.loss_per_h, 0.15);
    check_near("gain_per_h", found.gain_per_h, made.gain_per_h, 0.15);
    check_near("loss_mean", found.loss_mean, made.loss_mean, 0.1);
    check_near("gain_mean", found.gain_mean, made.gain_mean, 0.1);
    check_near("burst", found.burst, made.burst, 0.25);
    check_near("busy_share", found.busy_share, made.busy_share, 0.35);
    ck_assert_double_eq_tol(found.loss_all, made.loss_all, 0.015);
    ck_assert_double_eq_tol(found.gain_all, made.gain_all, 0.03);
    spot_trace_release(&trace);
}
END_TEST

START_TEST(finds_no_bursts_where_there_are_none)
{
    struct spot_trace_model model, found;
    struct spot_trace trace;
    int32_t cap;

    ck_assert_int_eq(spot_trace_model_profile("typical", 16, &model, NULL), 0);
    model.burst = 1;
    model.busy_share = model.shock_per_h = 0;
    make(&trace, &model, 1, 16, 400, 32);
    ck_assert_int_eq(spot_trace_model_fit(&trace, 60, &found, &cap, NULL), 0);
    ck_assert_double_eq(found.burst, 1);
    ck_assert_double_lt(found.busy_share, 1e-6);
    check_near("loss_per_h", found.loss_per_h, model.loss_per_h, 0.1);
    spot_trace_release(&trace);
}
END_TEST

START_TEST(a_trace_that_never_changes_fits_no_model)
{
    struct spot_trace_model model, found;
    struct spot_trace trace;
    struct spot_err err = { 0 };
    int32_t cap;

    ck_assert_int_eq(spot_trace_model_profile("calm", 4, &model, NULL), 0);
    model.loss_per_h = model.shock_per_h = 0;
    make(&trace, &model, 1, 4, 10, 33);
    ck_assert_int_eq(spot_trace_model_fit(&trace, 60, &found, &cap, &err), -1);
    ck_assert_int_eq(err.code, SPOT_EINFEASIBLE);
    spot_trace_release(&trace);
}
END_TEST

/* Whatever the trace, a model in range comes out. */
START_TEST(odd_traces_fit_models_in_range)
{
    static const int32_t odd[][6] = { { 1, 0, 1, 0, 1, 0 },
                                      { 0, 0, 0, 0, 0, 1 },
                                      { 9, 0, 0, 0, 0, 0 },
                                      { 0, 1 << 20, 0, 1 << 20, 5, 5 },
                                      { 3, 2, 1, 0, 1, 2 } };
    struct spot_trace trace = { 0 };
    struct spot_trace_builder b = { .trace = &trace, .source = "made" };
    struct spot_trace_model found;
    int32_t cap;

    for (int i = 0; i < 6; i++)
        ck_assert_int_eq(spot_trace_build(&b,
                                          &(struct spot_trace_row){ .zone = "",
                                                                    .instance_type = "",
                                                                    .time_s = 60.0 * i,
                                                                    .available = odd[_i][i],
                                                                    .requested = -1,
                                                                    .price_usd_per_h = NAN },
                                          NULL),
                         0);
    spot_trace_find_span(&trace);
    ck_assert_int_eq(spot_trace_model_fit(&trace, 60, &found, &cap, NULL), 0);
    ck_assert_int_eq(spot_trace_model_check(&found, NULL), 0);
    spot_trace_release(&trace);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    tcase_add_loop_test(tc, finds_the_distribution_of_a_profile, 0, 2);
    tcase_add_test(tc, finds_no_bursts_where_there_are_none);
    tcase_add_test(tc, a_trace_that_never_changes_fits_no_model);
    tcase_add_loop_test(tc, odd_traces_fit_models_in_range, 0, 5);
    return run_suite("generate_fit", tc);
}
