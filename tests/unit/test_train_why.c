/* SPDX-License-Identifier: MIT */
/* Goal: the sentences of a plan to train say what is so: each question here is made to have one
 * reason, which must be there, and the same question without the cause, where it must not. */
#include <math.h>

#include "train_rig.h"

enum { BATCH = 24 };

/* A job by hand: steps of one second each, of these grids. */
static void ask(struct rig *r, const struct spot_job_profile *profile, size_t n, int now, int n_max,
                enum spot_throughput_source source)
{
    memset(r, 0, sizeof(*r));
    r->job = (struct spot_job_doc){ .name = "j",
                                    .global_batch = BATCH,
                                    .micro_batch = 1,
                                    .seq = 1,
                                    .memory = { .p_min = 1, .p_max = 8, .d_min = 1 },
                                    .cost = { .is_given = true, .usd_per_h = -1, .process_s = 5 } };
    r->job.profile = spot_xcalloc(n, sizeof(*profile));
    memcpy(r->job.profile, profile, n * sizeof(*profile));
    r->job.n_profile = n;
    pose(r, now, n_max, source, SPOT_SOLVER_LIVEPUT);
}

static struct spot_job_profile of(int d, int p, double step_s)
{
    return (struct spot_job_profile){ .grid = { d, p, 1 }, .micro_batch = 1, .step_s = step_s };
}

/* The whole sentence, and how often it is there. */
static int said(const struct rig *r, const char *sentence)
{
    int n = 0;

    for (size_t i = 0; i < r->plan.doc.n_why; i++)
        n += !strcmp(r->plan.doc.why[i], sentence);
    return n;
}

static void expect_said(struct rig *r, const char *sentence, int times)
{
    make(r);
    if (said(r, sentence) == times)
        return;
    for (size_t i = 0; i < r->plan.doc.n_why; i++)
        fprintf(stderr, "# %s\n", r->plan.doc.why[i]);
    ck_abort_msg("'%s' was said %d times", sentence, said(r, sentence));
}

START_TEST(machines_beyond_the_profile_are_told_of)
{
    static const char table[] = "the profile ends at 2 instances: no larger grid is looked at";
    static const char both[] = "the profile ends at 2 instances: the speed of 4 x 1 goes on from "
                               "measured ones, at most in proportion";
    static const char few[] = "speeds that were not measured rest on 2 profile entries";
    const struct spot_job_profile profile[] = { of(1, 1, 4), of(2, 1, 2) };
    struct rig r;

    ask(&r, profile, 2, 4, 8, SPOT_THROUGHPUT_TABLE);
    expect_said(&r, table, 1);
    unload(&r);
    ask(&r, profile, 2, 2, 8, SPOT_THROUGHPUT_TABLE);
    expect_said(&r, table, 0);
    unload(&r);
    ask(&r, profile, 2, 4, 8, SPOT_THROUGHPUT_BOTH);
    expect_said(&r, both, 1);
    expect_said(&r, few, 1);
    ck_assert_str_eq(r.plan.caveat, few);
    unload(&r);
}
END_TEST

/* 24 microbatches take 24 / D and a second; one entry takes a third more. */
START_TEST(a_curve_that_misses_a_measured_grid_is_not_used_and_that_is_said)
{
    static const int d[] = { 1, 2, 3, 4, 5, 6, 7, 8, 12 };
    struct spot_job_profile profile[9];
    struct rig r;
    char missed[200];

    for (int i = 0; i < 9; i++)
        profile[i] = of(d[i], 1, (1 + ceil(24.0 / d[i])) * (d[i] == 5 ? 1.39 : 1));
    ask(&r, profile, 9, 10, 24, SPOT_THROUGHPUT_BOTH);
    ck_assert_uint_eq(r.throughput.curve.n_outlier, 0);
    ck_assert_double_gt(r.throughput.curve.miss_max, 0.2);
    snprintf(missed, sizeof(missed),
             "the fitted curve misses a measured grid by %.0f %%: it is not used, speeds that were "
             "not measured lie between those that were or go on from them",
             100 * r.throughput.curve.miss_max);
    expect_said(&r, missed, 1);
    ck_assert_str_eq(r.plan.caveat, missed);
    unload(&r);
    profile[4].step_s /= 1.39;
    ask(&r, profile, 9, 10, 24, SPOT_THROUGHPUT_BOTH);
    make(&r);
    ck_assert_ptr_null(r.plan.caveat);
    unload(&r);
}
END_TEST

START_TEST(machines_that_no_grid_can_use_are_told_with_the_limit_that_they_meet)
{
    struct spot_job_layer layer[3] = { { .params = 1 }, { .params = 1 }, { .params = 1 } };
    const struct spot_job_profile profile[] = { of(1, 3, 1) };
    struct spot_err err = { 0 };
    struct rig r;

    ask(&r, profile, 1, 5, 8, SPOT_THROUGHPUT_TABLE);
    r.job.layer = layer;
    r.job.n_layer = 3;
    spot_throughput_release(&r.throughput);
    ck_assert(!spot_throughput_init(&r.throughput, &r.job, 8, SPOT_THROUGHPUT_TABLE, &err));
    expect_said(&r, "2 machines would idle: the job has 3 bundles, one for each stage", 1);
    r.dist.now = 3;
    spot_change_dist_release(&r.dist);
    spot_change_dist_still(&r.dist, 3, 60, 12);
    make(&r);
    ck_assert_ptr_null(strstr(r.plan.doc.why[1], "would idle"));
    r.job.layer = NULL;
    unload(&r);
}
END_TEST

START_TEST(gains_alone_lose_nothing)
{
    static const char none[] = "the next 60 s are expected to lose nothing";
    const struct spot_job_profile profile[] = { of(1, 1, 4), of(2, 1, 2) };
    struct rig r;

    ask(&r, profile, 2, 2, 4, SPOT_THROUGHPUT_TABLE);
    unrest(&r, 4, 0, 0.1);
    expect_said(&r, none, 1);
    unrest(&r, 4, 0.1, 0.1);
    expect_said(&r, none, 0);
    unload(&r);
}
END_TEST

START_TEST(a_grid_that_lost_some_is_priced_as_at_that_loss)
{
    const struct spot_job_profile profile[] = { of(1, 1, 4), of(2, 1, 2), of(3, 1, 1.5) };
    struct rig r;
    char want[160];

    ask(&r, profile, 3, 2, 4, SPOT_THROUGHPUT_TABLE);
    r.q.solver = SPOT_SOLVER_DP;
    r.q.current_d = 3;
    r.q.current_p = 1;
    make(&r);
    snprintf(want, sizeof(want),
             "coming from 3 x 1 with 1 of its 3 instances lost, any of them, costs %.3g s, %.4g "
             "samples",
             r.plan.choice[0].cost_s, r.plan.choice[0].cost_s * r.plan.choice[0].raw);
    ck_assert_double_ge(r.plan.choice[0].cost_s, 5); /* a restart at least */
    expect_said(&r, want, 1);
    unload(&r);
}
END_TEST

/* bert on all it has: none is left; with one left, a link too slow for what it would be sent. */
START_TEST(warm_spares_that_cannot_be_are_told_why)
{
    struct rig r;

    load(&r, "bert", 8, 8, SPOT_THROUGHPUT_TABLE);
    r.q.warm = 1;
    make(&r);
    if (!r.plan.choice[0].spares)
        ck_assert_int_eq(said(&r, "no spare is left to mirror stages"), 1);
    r.q.spares_min = 1;
    for (size_t i = 0; i < r.job.cost.n_p2p; i++)
        r.job.cost.p2p[i].y *= 1e4;
    make(&r);
    ck_assert_int_ge(r.plan.choice[0].spares, 1);
    ck_assert_int_eq(r.plan.choice[0].warm, 0);
    ck_assert_int_eq(said(&r,
                          "no spare mirrors a stage: what it would be sent takes more than half "
                          "of a step"),
                     1);
    unload(&r);
}
END_TEST

START_TEST(a_limit_of_risk_that_no_grid_keeps_suspends_and_says_so)
{
    const struct spot_job_profile profile[] = { of(1, 1, 4), of(2, 1, 2) };
    struct rig r;

    ask(&r, profile, 2, 2, 4, SPOT_THROUGHPUT_TABLE);
    unrest(&r, 4, 0.5, 0);
    r.q.max_loss_prob = 1e-9;
    expect_said(&r, "and none loses a whole stage with probability below 1e-09", 1);
    ck_assert_int_eq(r.plan.doc.next.D, 0);
    unload(&r);
}
END_TEST

int main(void)
{
    return run_suite("train_why", add_tests(tcase_create("core")));
}
