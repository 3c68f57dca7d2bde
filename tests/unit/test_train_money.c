/* SPDX-License-Identifier: MIT */
/* Goal: an objective in money holds the machines that pay, and no others. Oracles: every number of
 * spares asked for, and questions with one possible answer. */
#include <math.h>
#include <string.h>

#include "train_rig.h"

START_TEST(the_cheapest_sample_lets_machines_go_that_do_not_pay)
{
    struct rig r;
    double most, cheap;

    load(&r, "resnet152", 32, 32, SPOT_THROUGHPUT_TABLE);
    make(&r);
    most = r.plan.doc.expected.samples_per_s;
    cheap = r.plan.doc.expected.usd_per_sample;
    r.q.objective = SPOT_OBJECTIVE_USD_PER_SAMPLE;
    make(&r);
    ck_assert_double_le(r.plan.doc.expected.usd_per_sample, cheap);
    ck_assert_double_le(r.plan.doc.expected.samples_per_s, most * (1 + 1e-12));
    r.q.objective = SPOT_OBJECTIVE_MIX;
    r.q.usd_per_sample = 1e9; /* samples are worth anything: as many as possible */
    make(&r);
    ck_assert_double_le(fabs(r.plan.doc.expected.samples_per_s / most - 1), 1e-9);
    unload(&r);
}
END_TEST

static double worth(const struct rig *r)
{
    return r->plan.doc.expected.samples_per_s * r->q.usd_per_sample -
           r->plan.doc.expected.usd_per_h / 3600;
}

START_TEST(as_many_spares_are_kept_as_pay)
{
    struct rig r;
    int last = 0;

    load(&r, job_name[_i], 28, 32, SPOT_THROUGHPUT_TABLE);
    unrest(&r, 32, 0.3, 0.1);
    spot_throughput_best(&r.throughput, 26, &r.q.current_d, &r.q.current_p);
    r.q.objective = SPOT_OBJECTIVE_MIX;
    for (double price = 1e-6; price < 2; price *= 1e3) { /* the costlier a sample, the more */
        double best = -INFINITY, chosen;
        int held;

        r.q.usd_per_sample = price;
        r.q.spares_min = 0;
        make(&r);
        chosen = worth(&r);
        held = (int)(r.plan.doc.next.D * r.plan.doc.next.P + r.plan.doc.spares);
        ck_assert_int_ge(held, last);
        last = held;
        for (r.q.spares_min = 0; r.q.spares_min <= 4; r.q.spares_min++) {
            make(&r);
            if (r.plan.n_choice)
                best = fmax(best, worth(&r));
        }
        ck_assert_double_le(fabs(chosen - fmax(best, 0)), 1e-12 + 1e-9 * fabs(chosen));
    }
    ck_assert_int_eq(last, 28); /* a sample worth a dollar pays for every machine */
    unload(&r);
}
END_TEST

START_TEST(in_a_still_world_no_spare_pays)
{
    struct rig r;

    load(&r, job_name[_i], 28, 32, SPOT_THROUGHPUT_TABLE);
    r.q.objective = SPOT_OBJECTIVE_MIX;
    r.q.usd_per_sample = 1;
    make(&r);
    ck_assert_int_gt(r.plan.doc.next.D, 0);
    ck_assert_int_eq(r.plan.doc.spares, 0);
    ck_assert_double_eq_tol(r.plan.doc.expected.usd_per_h,
                            r.job.cost.usd_per_h * (double)(r.plan.doc.next.D * r.plan.doc.next.P),
                            1e-9);
    unload(&r);
}
END_TEST

START_TEST(a_job_that_earns_less_than_its_machines_cost_is_suspended)
{
    struct rig r;

    load(&r, "gpt-6.7b", 28, 32, SPOT_THROUGHPUT_TABLE);
    unrest(&r, 32, 0.2, 0.2);
    r.q.objective = SPOT_OBJECTIVE_MIX;
    r.q.usd_per_sample = 1e-6;
    make(&r);
    ck_assert_int_eq(r.plan.doc.next.D, 0);
    ck_assert_int_eq(r.plan.doc.spares, 0);
    ck_assert_double_eq(r.plan.doc.expected.usd_per_h, 0);
    ck_assert_ptr_nonnull(strstr(r.plan.doc.why[0], "suspend: the best grid"));
    unload(&r);
}
END_TEST

START_TEST(an_objective_in_money_needs_a_price)
{
    struct spot_err err = { 0 };
    struct rig r;

    load(&r, "bert", 16, 32, SPOT_THROUGHPUT_TABLE);
    r.job.cost.usd_per_h = -1;
    r.q.objective = SPOT_OBJECTIVE_USD_PER_SAMPLE;
    ck_assert_int_eq(spot_train_plan_make(&r.plan, &r.q, &err), -1);
    ck_assert_int_eq(err.code, SPOT_EDATA);
    ck_assert_ptr_nonnull(strstr(err.msg, "usd_per_h"));
    unload(&r);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    /* in the short run the job that is quickest to plan */
    tcase_add_loop_test(tc, as_many_spares_are_kept_as_pay, is_long() ? 0 : 1, is_long() ? 5 : 2);
    tcase_add_loop_test(tc, in_a_still_world_no_spare_pays, 0, 5);
    add_tests(tc);
    return run_suite("train_money", tc);
}
