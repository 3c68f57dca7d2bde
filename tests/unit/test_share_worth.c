/* SPDX-License-Identifier: MIT */
/* Goal: members pay together what the cluster costs, alone they pay the cheapest that they can wait
 * for, and who waits or pays too much leaves, until none does. Oracle: cases worked by hand. */
#define _POSIX_C_SOURCE 200809L /* strdup */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/share_worth.h"
#include "suite.h"

enum { N_MAX = 4 };

struct world {
    struct spot_share_jobs jobs;
    struct spot_share_type type;
    struct spot_share_cluster cluster;
    struct spot_share_play play;
    struct spot_share_offer offer;
    int64_t reserved;
    double rate[N_MAX];
};

/* Jobs of so many hours on one worker that come at once, each of another user; a worker is 1 usd/h.
 */
static void init(struct world *w, const double *hours, size_t n, int64_t reserved, int64_t burst)
{
    static char name[] = "a";

    *w = (struct world){ .reserved = reserved };
    for (size_t i = 0; i < n; i++) {
        const char id[] = { (char)('a' + i), '\0' };
        struct spot_share_job *job = spot_share_jobs_add(&w->jobs, id, "k", "");

        job->steps = hours[i] * 3600;
        job->scale = job->scale_min = job->scale_max = 1;
        w->rate[i] = 1;
    }
    w->type = (struct spot_share_type){ .name = name, .count = reserved + burst, .usd_per_h = 1 };
    w->cluster = (struct spot_share_cluster){ .type = &w->type, .n = 1 };
    w->play = (struct spot_share_play){
        .jobs = &w->jobs, .cluster = &w->cluster, .rate = w->rate, .round_s = 360, .reset_s = 1920
    };
    w->offer = (struct spot_share_offer){
        .reserved = &w->reserved, .reserved_price = 0.6, .spot_price = 1, .patience = 0.5
    };
}

static struct spot_share_worth study(const struct world *w, enum spot_share_tariff tariff)
{
    struct spot_share_worth worth;
    struct spot_err err;

    ck_assert_msg(!spot_share_worth_run(&w->play, SPOT_SHARE_SPOT, tariff, &w->offer, &worth, &err),
                  "%s", err.msg);
    return worth;
}

static void near(double x, double want)
{
    ck_assert_msg(fabs(x - want) <= 1e-9 * fmax(1, fabs(want)), "%.12g, not %.12g", x, want);
}

START_TEST(members_pay_what_it_costs)
{
    const double hours[] = { 1, 10 };
    struct spot_share_worth x;
    struct world w;

    init(&w, hours, 2, 1, 1); /* 10 h of one at 0.6, 1 h of the other at 1 */
    x = study(&w, SPOT_SHARE_USAGE);
    ck_assert_uint_eq(x.n_turn, 1);
    ck_assert_uint_eq(x.n_gain, 2);
    near(x.turn[0].reserved_usd, 6);
    near(x.turn[0].burst_usd, 1);
    near(x.turn[0].index, 7.0 / 11);
    near(x.user[0].usd, 7.0 / 11);
    near(x.user[1].usd, 70.0 / 11);
    near(x.own_usd, 11);
    near(x.usd, 7);
    spot_share_worth_release(&x);
    spot_share_jobs_release(&w.jobs);
}
END_TEST

START_TEST(who_uses_little_leaves_a_subscription)
{
    const double hours[] = { 1, 10 };
    struct spot_share_worth x;
    struct world w;

    init(&w, hours, 2, 1, 1);
    x = study(&w, SPOT_SHARE_SUBSCRIPTION); /* 3.5 each; then the other has it for 6 */
    ck_assert_uint_eq(x.n_turn, 2);
    ck_assert_uint_eq(x.n_gain_first, 1);
    ck_assert_uint_eq(x.n_gain, 1);
    ck_assert_int_eq(x.user[0].stand, SPOT_SHARE_TOO_DEAR);
    ck_assert_uint_eq(x.user[0].turn, 1);
    near(x.user[0].usd, 3.5);
    ck_assert_int_eq(x.user[1].stand, SPOT_SHARE_STAYS);
    near(x.user[1].usd, 6);
    near(x.user[1].first_usd, 3.5);
    near(x.usd, 7);
    spot_share_worth_release(&x);
    spot_share_jobs_release(&w.jobs);
}
END_TEST

START_TEST(who_waits_too_long_leaves_and_prices_rise_for_the_rest)
{
    const double hours[] = { 10, 10 };
    struct spot_share_worth x;
    struct world w;

    init(&w, hours, 2, 1, 0); /* one after the other, or by turns: the last ends after 20 h */
    x = study(&w, SPOT_SHARE_USAGE);
    ck_assert_uint_eq(x.n_turn, 2);
    near(x.turn[0].index, 0.6);
    ck_assert_uint_eq(x.turn[0].too_slow, 1);
    ck_assert_uint_eq(x.turn[1].n_member, 1);
    ck_assert_uint_eq(x.turn[1].too_dear, 1);
    near(x.turn[1].reserved_usd, 12); /* reserved for 20 h, whoever leaves */
    near(x.turn[1].index, 1.2);
    ck_assert_uint_eq(x.n_member + x.n_gain, 0);
    near(x.usd, 20);
    spot_share_worth_release(&x);

    w.offer.patience = 2;
    x = study(&w, SPOT_SHARE_USAGE);
    ck_assert_uint_eq(x.n_gain, 2);
    near(x.usd, 12);
    spot_share_worth_release(&x);
    spot_share_jobs_release(&w.jobs);
}
END_TEST

START_TEST(spot_machines_of_ones_own_cost_what_losses_add)
{
    const double hours[] = { 10 };
    struct spot_share_worth x;
    struct world w;

    init(&w, hours, 1, 1, 0);
    w.type.hazard_per_h = 0.5; /* 5 losses, each of 60 s and half of 360 s */
    w.play.switch_s = 60;
    w.play.checkpoint_s = 360;
    w.offer.spot_price = 0.25;
    w.offer.spot_wait_s = 600; /* at the start and after each */
    x = study(&w, SPOT_SHARE_USAGE);
    near(x.user[0].run_s, 36060);
    near(x.user[0].on_demand_usd, 36060.0 / 3600);
    near(x.user[0].spot_usd, (36060 + 5 * 240.0) / 3600 / 4);
    near(x.user[0].spot_wait_s, 5 * 240 + 6 * 600);
    ck_assert(x.user[0].takes_spot);
    ck_assert_int_eq(x.user[0].stand, SPOT_SHARE_TOO_DEAR); /* 0.6, not 0.25 */
    spot_share_worth_release(&x);

    w.offer.patience = 0.1; /* 1.0 h at most, and the wait is 1.3 h */
    x = study(&w, SPOT_SHARE_USAGE);
    ck_assert(!x.user[0].takes_spot);
    ck_assert_int_eq(x.user[0].stand, SPOT_SHARE_STAYS);
    spot_share_worth_release(&x);
    spot_share_jobs_release(&w.jobs);
}
END_TEST

START_TEST(jobs_of_one_user_are_counted_together)
{
    const double hours[] = { 1, 10, 2 };
    struct spot_share_worth x;
    struct world w;

    init(&w, hours, 3, 2, 1);
    for (size_t i = 0; i < 3; i += 2) {
        free(w.jobs.job[i].user);
        w.jobs.job[i].user = strdup("z");
    }
    x = study(&w, SPOT_SHARE_SUBSCRIPTION);
    ck_assert_uint_eq(x.n_user, 2);
    ck_assert_str_eq(x.user[0].name, "b"); /* it has none: the job itself */
    ck_assert_str_eq(x.user[1].name, "z");
    ck_assert_uint_eq(x.user[1].n_job, 2);
    near(x.user[1].on_demand_usd, 3);
    near(x.user[1].first_usd, x.user[0].first_usd);
    spot_share_worth_release(&x);
    spot_share_jobs_release(&w.jobs);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("share_worth");

    tcase_add_test(tc, members_pay_what_it_costs);
    tcase_add_test(tc, who_uses_little_leaves_a_subscription);
    tcase_add_test(tc, who_waits_too_long_leaves_and_prices_rise_for_the_rest);
    tcase_add_test(tc, spot_machines_of_ones_own_cost_what_losses_add);
    tcase_add_test(tc, jobs_of_one_user_are_counted_together);
    return run_suite("share_worth", tc);
}
