/* SPDX-License-Identifier: MIT */
/* Goal: the time of a step is that of one layer, computed here, times the layers' worth of work
 * that a grid has to do, and longer where processes share cores; nothing is estimated for a device,
 * and nothing computed with a kernel that is not there. Oracle: ratios, which the machine's speed
 * does not change but for its noise; so they are far apart. */
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "suite.h"
#include "train/estimate.h"

static struct spot_job_config config;
static struct spot_err err;

static void set_up(void)
{
    config = (struct spot_job_config){ .shape = { 2, 32, 2, 32, 64, 2 },
                                       .micro_batch = 2,
                                       .global_batch = 8,
                                       .n_step = 1,
                                       .seed = 1,
                                       .kernel = "portable" };
}

/* The least of some: what disturbs a measurement makes it longer. */
static double step_s(int64_t D, int64_t P, int64_t n_sharing)
{
    const struct spot_estimate_options o = {
        .config = &config, .grid = { D, P, 1 }, .n_member = D * P, .n_thread = 1
    };
    double least = INFINITY;

    for (int k = 0; k < 5; k++) {
        double s = -1;

        ck_assert_msg(!spot_estimate_step(&o, n_sharing, &s, &err), "%s", err.msg);
        least = fmin(least, s);
    }
    return least;
}

START_TEST(more_work_takes_longer_and_more_pipelines_less)
{
    const double one = step_s(1, 1, 1);

    ck_assert(isfinite(one) && one > 0);
    ck_assert_double_gt(one, step_s(4, 1, 1)); /* four times as long */
    config.shape.n_layer = 200;
    ck_assert_double_gt(step_s(1, 1, 1), 4 * one); /* nearly a hundred times */
}
END_TEST

START_TEST(processes_that_share_cores_wait_for_each_other)
{
    const int64_t n_core = sysconf(_SC_NPROCESSORS_ONLN);

    ck_assert_double_gt(step_s(1, 1, 64 * n_core), 4 * step_s(1, 1, 1)); /* 64 times as long */
}
END_TEST

START_TEST(a_device_is_not_estimated_and_a_kernel_that_is_none_is_refused)
{
    const struct spot_estimate_options o = {
        .config = &config, .grid = { 1, 1, 1 }, .n_member = 1, .n_thread = 1
    };
    double s = -1;

    strcpy(config.kernel, "abacus");
    ck_assert_int_eq(spot_estimate_step(&o, 1, &s, &err), -1);
    ck_assert_msg(strstr(err.msg, "abacus") != NULL, "%s", err.msg);
    ck_assert_double_eq(s, 0);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    tcase_add_checked_fixture(tc, set_up, NULL);
    add_tests(tc);
    return run_suite("estimate_step", tc);
}
