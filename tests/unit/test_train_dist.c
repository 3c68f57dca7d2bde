/* SPDX-License-Identifier: MIT */
/* Goal: what a forecast tells of losses and gains reaches the program whole. Oracles: every set of
 * victims, means of the distribution, and plans that must differ. */
#include <math.h>

#include "model/count_chain.h"
#include "plan/train/train_score.h"
#include "train_rig.h"

/* P[net change] of `held` of 6 instances, every set of victims counted. */
static double by_subsets(const struct spot_change_dist *dist, int held, int net)
{
    double sum = 0;

    for (size_t i = 0; i < dist->n_change; i++) {
        int hit = 0, all = 0;

        for (int set = 0; set < 1 << 6; set++) {
            if (__builtin_popcount((unsigned)set) != dist->change[i].lost)
                continue;
            all++;
            hit +=
                dist->change[i].gained - __builtin_popcount((unsigned)set & ((1U << held) - 1)) ==
                net;
        }
        sum += dist->change[i].prob * hit / all;
    }
    return sum;
}

/* Four zones of six: each loses three at once with 4 %. */
static void four_zones(struct rig *r, struct spot_forecast_region *shock)
{
    static const char *const name[] = { "eu-1a", "eu-1b", "eu-1c", "eu-1d" };
    struct spot_forecast_change change[2] = { { 0, 0, 0.96 }, { 3, 0, 0.04 } };
    struct spot_forecast_series series[4];
    struct spot_forecast forecast = { .interval_s = 60,
                                      .horizon = 12,
                                      .series = series,
                                      .n_series = 4,
                                      .region = shock,
                                      .n_region = shock ? 1 : 0 };
    double prob[12][9] = { { 0 } };
    struct spot_err err = { 0 };

    for (int h = 0; h < 12; h++)
        prob[h][6] = 1;
    for (int z = 0; z < 4; z++)
        series[z] = (struct spot_forecast_series){ .zone = name[z],
                                                   .instance_type = "",
                                                   .now = 6,
                                                   .cap = 8,
                                                   .prob = prob[0],
                                                   .change = change,
                                                   .n_change = 2 };
    spot_change_dist_release(&r->dist);
    ck_assert_msg(!spot_change_dist_init(&r->dist, &forecast, -1, &err), "%s", err.msg);
}

START_TEST(zones_that_go_down_together_get_more_replicas)
{
    struct spot_forecast_region shock = { "eu-1", "", 4, 0.05, 12, 0.4 / 0.95 };
    int d[2];
    struct rig r;

    load(&r, "gpt-1.5b", 24, 32, SPOT_THROUGHPUT_TABLE);
    r.q.max_loss_prob = 0.002;
    r.q.current_d = 2;
    r.q.current_p = 12;
    four_zones(&r, NULL);
    make(&r);
    d[0] = (int)r.plan.doc.next.D;
    four_zones(&r, &shock);
    make(&r);
    d[1] = (int)r.plan.doc.next.D;
    ck_assert_int_gt(d[0], 0);
    ck_assert_int_gt(d[1], d[0]);
    unload(&r);
}
END_TEST

/* 20 of 24 vanish now and then, or as many as eight: what was counted as eight before. */
START_TEST(large_losses_are_not_taken_for_small_ones)
{
    double told[2];
    struct rig r;

    for (int i = 0; i < 2; i++) {
        load(&r, "bert", 24, 32, SPOT_THROUGHPUT_TABLE);
        unrest(&r, 32, 0, 0);
        r.dist.horizon = 0; /* the chain alone */
        r.dist.n_change = 2;
        r.dist.change[0] = (struct spot_change){ 0, 0, 0.9 };
        r.dist.change[1] = (struct spot_change){ i ? 20 : 8, 0, 0.1 };
        make(&r);
        told[i] = r.plan.doc.expected.samples_per_s;
        unload(&r);
    }
    ck_assert_double_lt(told[1], 0.9 * told[0]);
}
END_TEST

START_TEST(sizes_that_stand_for_others_keep_the_mean)
{
    struct rig r;

    load(&r, "bert", 60, 64, SPOT_THROUGHPUT_CURVE);
    unrest(&r, 64, 0.4, 0.2);
    for (int lost = 1; lost <= 60; lost++) {
        struct spot_count_chain chain;
        struct spot_count_step step;
        double mean = 0, sum = 0;

        r.dist.change[5].lost = lost;
        spot_train_chain(&r.dist, 64, 64, &chain);
        spot_count_chain_step(&chain, 60, 0, &step);
        for (int k = 1; k <= SPOT_CHAIN_SIZE_MAX; k++) {
            mean += k * step.lost[k];
            sum += step.lost[k];
        }
        ck_assert_double_eq_tol(sum, 0.4, 1e-6);
        ck_assert_double_eq_tol(mean, 0.4 * (0.6 + 0.3 * 2 + 0.1 * lost), 2e-5);
    }
    unload(&r);
}
END_TEST

START_TEST(what_is_held_is_hit_by_its_share)
{
    struct rig r;

    load(&r, "bert", 6, 32, SPOT_THROUGHPUT_TABLE);
    unrest(&r, 8, 0.4, 0.3);
    for (int held = 1; held <= 6; held++) {
        struct spot_count_chain chain;
        struct spot_count_step step;

        spot_train_chain(&r.dist, held, 8, &chain);
        chain.cap = 8; /* as if gains were not refused */
        spot_count_chain_step(&chain, held, 0, &step);
        ck_assert_double_eq_tol(step.still, by_subsets(&r.dist, held, 0), 1e-6);
        for (int k = 1; k <= 2; k++) {
            ck_assert_double_eq_tol(step.gained[k], by_subsets(&r.dist, held, k), 1e-6);
            ck_assert_double_eq_tol(step.lost[k], by_subsets(&r.dist, held, -k), 1e-6);
        }
    }
    unload(&r);
}
END_TEST

int main(void)
{
    return run_suite("train_law", add_tests(tcase_create("core")));
}
