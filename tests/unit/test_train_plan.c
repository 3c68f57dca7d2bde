/* SPDX-License-Identifier: MIT */
/* Goal: a plan says the best it can defend, for any number of instances. Oracles: the full program
 * where the window runs as well, sums over the law done again here, and questions with one
 * possible answer. */
#include "plan/train_plan.h"

#include <math.h>
#include <string.h>

#include "common/rng.h"
#include "common/xalloc.h"
#include "plan/count_chain.h"
#include "plan/liveput.h"
#include "plan/train_score.h"
#include "suite.h"

static const char *const job_name[] = { "gpt-1.5b", "gpt-6.7b", "bert", "resnet152", "vgg19" };

struct rig {
    struct spot_job_doc job;
    struct spot_throughput throughput;
    struct spot_change_law law;
    struct spot_train_question q;
    struct spot_train_plan plan;
};

static void load(struct rig *r, const char *name, int now, int n_max,
                 enum spot_throughput_source source)
{
    struct spot_err err = { 0 };
    char path[96];

    memset(r, 0, sizeof(*r));
    snprintf(path, sizeof(path), "examples/jobs/%s.json", name);
    ck_assert_msg(!spot_job_doc_load(&r->job, path, &err), "%s", err.msg);
    ck_assert_msg(!spot_throughput_init(&r->throughput, &r->job, n_max, source, &err), "%s",
                  err.msg);
    spot_change_law_still(&r->law, now, 60, 12);
    r->q = (struct spot_train_question){ .job = &r->job,
                                         .throughput = &r->throughput,
                                         .law = &r->law,
                                         .max_loss_prob = 1,
                                         .solver = SPOT_SOLVER_DP,
                                         .horizon = 12 };
}

/* Losses of 1..3 and gains of 1..2, with these probabilities. */
static void unrest(struct rig *r, int n_max, double lose, double gain)
{
    const int now = r->law.now;

    spot_change_law_release(&r->law);
    spot_change_law_still(&r->law, now, 60, 12);
    r->law.cap = n_max;
    free(r->law.count);
    r->law.count = spot_xcalloc(12 * ((size_t)n_max + 1), sizeof(double));
    for (int h = 0; h < 12; h++)
        r->law.count[(size_t)h * ((size_t)n_max + 1) + (size_t)now] = 1;
    free(r->law.change);
    r->law.change = spot_xcalloc(6, sizeof(*r->law.change));
    r->law.change[0] = (struct spot_change){ 0, 0, 1 - lose - gain };
    r->law.change[1] = (struct spot_change){ 0, 1, gain * 0.7 };
    r->law.change[2] = (struct spot_change){ 0, 2, gain * 0.3 };
    r->law.change[3] = (struct spot_change){ 1, 0, lose * 0.6 };
    r->law.change[4] = (struct spot_change){ 2, 0, lose * 0.3 };
    r->law.change[5] = (struct spot_change){ 3, 0, lose * 0.1 };
    r->law.n_change = 6;
}

static void make(struct rig *r)
{
    struct spot_err err = { 0 };

    spot_train_plan_release(&r->plan);
    ck_assert_msg(!spot_train_plan_make(&r->plan, &r->q, &err), "%s", err.msg);
}

static void unload(struct rig *r)
{
    spot_train_plan_release(&r->plan);
    spot_change_law_release(&r->law);
    spot_throughput_release(&r->throughput);
    spot_job_doc_release(&r->job);
}

static const struct spot_train_choice *choice_of(const struct spot_train_plan *plan, int d, int p)
{
    for (size_t i = 0; i < plan->n_choice; i++)
        if (plan->choice[i].d == d && plan->choice[i].p == p)
            return &plan->choice[i];
    return NULL;
}

/* Net changes of up to 4 either way with random shares; something happens with up to 60 %. */
static void random_unrest(struct rig *r, struct spot_rng *rng, int n_max)
{
    const double busy = 0.02 + 0.58 * spot_rng_unit(rng);
    struct spot_change *c;
    double sum = 0;

    unrest(r, n_max, 0.1, 0.1);
    free(r->law.change);
    r->law.change = c = spot_xcalloc(9, sizeof(*c));
    r->law.n_change = 0;
    for (int k = -4; k <= 4; k++)
        if (r->law.now + k >= 0 && r->law.now + k <= n_max) {
            c->lost = k < 0 ? -k : 0;
            c->gained = k > 0 ? k : 0;
            sum += c->prob = k ? pow(0.6, abs(k)) * spot_rng_unit(rng) : 0;
            r->law.n_change++;
            c++;
        }
    for (size_t i = 0; i < r->law.n_change; i++) {
        c = &r->law.change[i];
        c->prob = c->lost || c->gained ? busy * c->prob / sum : 1 - busy;
    }
    qsort(r->law.change, r->law.n_change, sizeof(*r->law.change), spot_change_compare);
}

/* A seeded job, forecast and cluster: changes of a quarter to four times the price, batches of one
 * to eight times the size, something running or nothing, some of it leaving or not. */
static void random_question(struct rig *r, const char *name, struct spot_rng *rng, int n_most)
{
    const int batches = 1 << spot_rng_below(rng, 4);
    const double dear = pow(4, 2 * spot_rng_unit(rng) - 1);
    struct spot_err err = { 0 };
    int n_max, now;

    load(r, name, 1, 64, SPOT_THROUGHPUT_LAW);
    n_max = (int)r->job.memory.p_min + 2;
    n_max = 8 > n_max ? 8 : n_max;
    n_max += (int)spot_rng_below(rng, (uint64_t)(n_most - n_max + 1));
    now = n_max - (int)spot_rng_below(rng, (uint64_t)n_max / 2);
    r->job.global_batch *= batches;
    r->job.cost.rendezvous_s *= dear;
    r->job.cost.add_per_group_s *= dear;
    r->job.cost.remove_per_group_s *= dear;
    for (size_t i = 0; i < r->job.cost.n_p2p; i++)
        r->job.cost.p2p[i].y *= dear;
    spot_throughput_release(&r->throughput);
    ck_assert_msg(!spot_throughput_init(&r->throughput, &r->job, n_max, SPOT_THROUGHPUT_LAW, &err),
                  "%s", err.msg);
    r->law.now = now;
    random_unrest(r, rng, n_max);
    if (spot_rng_below(rng, 4))
        spot_throughput_best(&r->throughput, now - (int)spot_rng_below(rng, 4), &r->q.current_d,
                             &r->q.current_p);
    r->q.leaving = spot_rng_below(rng, 2) ? (int)spot_rng_below(rng, 4) : 0;
}

/* `make bench` (bench_window) draws larger families up to 64 instances and prints the law of what
 * is lost. The first draws of every job are here. */
START_TEST(the_window_comes_within_half_a_percent_of_the_full_program)
{
    struct spot_rng rng;
    struct rig r;

    spot_rng_init(&rng, 11, (uint64_t)_i);
    random_question(&r, job_name[_i % 5], &rng, 40);
    r.q.exact_max = 1;
    make(&r);
    if (r.plan.n_choice) {
        const int d = r.plan.choice[0].d, p = r.plan.choice[0].p;
        const struct spot_train_choice *chosen;

        r.q.exact_max = 0;
        make(&r);
        chosen = choice_of(&r.plan, d, p);
        ck_assert_ptr_nonnull(chosen);
        /* what the window's choice loses, in samples, of what the horizon gives */
        ck_assert_msg(r.plan.choice[0].score - chosen->score <=
                          0.005 * r.plan.choice[0].samples_per_s * 12 * 60,
                      "%s, %d instances: %dx%d loses %g of %g samples", job_name[_i % 5], r.law.now,
                      d, p, r.plan.choice[0].score - chosen->score,
                      r.plan.choice[0].samples_per_s * 12 * 60);
    } else {
        r.q.exact_max = 0;
        make(&r);
        ck_assert_uint_eq(r.plan.n_choice, 0);
    }
    unload(&r);
}
END_TEST

START_TEST(a_thousand_instances_get_a_grid_that_fits_and_bears_its_price)
{
    struct rig r;

    load(&r, "bert", 1000, 1024, SPOT_THROUGHPUT_LAW);
    r.job.global_batch = 32768;
    unrest(&r, 1024, 0.2, 0.2);
    make(&r);
    ck_assert_int_gt(r.plan.doc.next.d * r.plan.doc.next.p, 0);
    ck_assert_int_le(r.plan.doc.next.d * r.plan.doc.next.p, 1000);
    r.q.current_d = (int)r.plan.doc.next.d;
    r.q.current_p = (int)r.plan.doc.next.p;
    make(&r); /* what runs and was best a moment ago, at no price now, stays */
    ck_assert_int_eq(r.plan.doc.next.d, r.q.current_d);
    ck_assert_int_eq(r.plan.doc.next.p, r.q.current_p);
    r.q.leaving = SPOT_COST_LOST_MAX;
    make(&r);
    ck_assert_int_le(r.plan.doc.next.d * r.plan.doc.next.p, 1000 - SPOT_COST_LOST_MAX);
    unload(&r);
}
END_TEST

START_TEST(more_leaving_at_once_than_a_window_holds_is_refused)
{
    struct spot_err err = { 0 };
    struct rig r;

    load(&r, "bert", 1000, 1024, SPOT_THROUGHPUT_LAW);
    r.q.leaving = SPOT_COST_LOST_MAX + 1;
    ck_assert_int_eq(spot_train_plan_make(&r.plan, &r.q, &err), -1);
    ck_assert_int_eq(err.code, SPOT_EDATA);
    ck_assert_ptr_nonnull(strstr(err.msg, "--solver liveput"));
    r.q.solver = SPOT_SOLVER_LIVEPUT;
    make(&r);
    unload(&r);
}
END_TEST

/* The law of M, keep by keep. */
static void recoverable(const struct spot_liveput *g, double *pmf)
{
    double above = 0;

    for (int keep = g->d; keep >= 0; keep--) {
        const double hold = spot_liveput_hold(g, keep);

        pmf[keep] = hold > above ? hold - above : 0;
        above = hold;
    }
}

/* Expected surviving throughput, summed again from the law. */
static double by_hand(const struct rig *r, int d, int p)
{
    double pmf[65], sum = 0;

    for (size_t i = 0; i < r->law.n_change; i++) {
        const struct spot_liveput g = { d, p, r->law.now - d * p, r->law.change[i].lost };

        recoverable(&g, pmf);
        for (int m = 1; m <= d; m++)
            sum +=
                r->law.change[i].prob * pmf[m] * fmax(spot_throughput_at(&r->throughput, m, p), 0);
    }
    return sum;
}

START_TEST(liveput_picks_the_grid_with_the_most_expected_throughput)
{
    struct rig r;
    double best = 0;

    load(&r, job_name[_i], 30, 32, SPOT_THROUGHPUT_TABLE);
    unrest(&r, 32, 0.3, 0.1);
    r.q.solver = SPOT_SOLVER_LIVEPUT;
    make(&r);
    for (int d = 1; d <= 30; d++)
        for (int p = 1; d * p <= 30 && p <= r.throughput.p_max; p++)
            if (spot_throughput_at(&r.throughput, d, p) > 0)
                best = fmax(best, by_hand(&r, d, p));
    ck_assert_double_gt(best, 0);
    ck_assert_double_le(fabs(r.plan.choice[0].samples_per_s / best - 1), 1e-12);
    unload(&r);
}
END_TEST

START_TEST(too_few_instances_are_a_plan_to_suspend)
{
    struct rig r;

    load(&r, "gpt-6.7b", 11, 32, SPOT_THROUGHPUT_TABLE); /* it needs 12 */
    for (int solver = 0; solver < 3; solver++) {
        r.q.solver = (enum spot_train_solver)solver;
        make(&r);
        ck_assert_int_eq(r.plan.doc.next.d, 0);
        ck_assert_int_eq(r.plan.doc.spares, 11);
        ck_assert_ptr_nonnull(strstr(r.plan.doc.why[0], "suspend"));
    }
    unload(&r);
}
END_TEST

START_TEST(spares_and_risk_limits_are_kept)
{
    struct rig r;

    load(&r, "bert", 32, 32, SPOT_THROUGHPUT_TABLE);
    unrest(&r, 32, 0.4, 0);
    r.q.spares_min = 5;
    make(&r);
    ck_assert_int_le(r.plan.doc.next.d * r.plan.doc.next.p, 27);
    r.q.max_loss_prob = 1e-6;
    make(&r);
    for (size_t i = 0; i < r.plan.n_choice; i++)
        ck_assert(r.plan.choice[i].loss_prob <= 1e-6 && r.plan.choice[i].spares >= 5);
    unload(&r);
}
END_TEST

START_TEST(instances_under_notice_are_not_used)
{
    struct rig r;

    load(&r, "vgg19", 20, 32, SPOT_THROUGHPUT_TABLE);
    r.q.leaving = 6;
    for (int solver = 0; solver < 3; solver++) {
        r.q.solver = (enum spot_train_solver)solver;
        make(&r);
        ck_assert_int_gt(r.plan.doc.next.d, 0);
        ck_assert_int_le(r.plan.doc.next.d * r.plan.doc.next.p, 14);
    }
    unload(&r);
}
END_TEST

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
    for (double price = 1e-6; price < 2; price *= 1e3) { /* the dearer a sample, the more */
        double best = -INFINITY, chosen;
        int held;

        r.q.usd_per_sample = price;
        r.q.spares_min = 0;
        make(&r);
        chosen = worth(&r);
        held = (int)(r.plan.doc.next.d * r.plan.doc.next.p + r.plan.doc.spares);
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
    ck_assert_int_gt(r.plan.doc.next.d, 0);
    ck_assert_int_eq(r.plan.doc.spares, 0);
    ck_assert_double_eq_tol(r.plan.doc.expected.usd_per_h,
                            r.job.cost.usd_per_h * (double)(r.plan.doc.next.d * r.plan.doc.next.p),
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
    ck_assert_int_eq(r.plan.doc.next.d, 0);
    ck_assert_int_eq(r.plan.doc.spares, 0);
    ck_assert_double_eq(r.plan.doc.expected.usd_per_h, 0);
    ck_assert_ptr_nonnull(strstr(r.plan.doc.why[0], "suspend: the best grid"));
    unload(&r);
}
END_TEST

START_TEST(a_change_that_never_pays_is_not_made)
{
    struct rig r;

    load(&r, "gpt-6.7b", 24, 32, SPOT_THROUGHPUT_TABLE);
    r.job.cost.restart_s = r.job.cost.process_s = 1e5; /* a day; every minute something is lost */
    unrest(&r, 32, 0.9, 0.05);
    r.q.current_d = 2;
    r.q.current_p = 12;
    r.q.leaving = 1;
    make(&r);
    ck_assert_int_eq(r.plan.doc.next.d, 0);
    ck_assert_int_eq(r.plan.doc.spares, 23);
    ck_assert_ptr_nonnull(strstr(r.plan.doc.why[0], "to wait for the next change costs less"));
    unload(&r);
}
END_TEST

/* P[net change] of `held` of 6 instances, every set of victims counted. */
static double by_subsets(const struct spot_change_law *law, int held, int net)
{
    double sum = 0;

    for (size_t i = 0; i < law->n_change; i++) {
        int hit = 0, all = 0;

        for (int set = 0; set < 1 << 6; set++) {
            if (__builtin_popcount((unsigned)set) != law->change[i].lost)
                continue;
            all++;
            hit += law->change[i].gained - __builtin_popcount((unsigned)set & ((1U << held) - 1)) ==
                   net;
        }
        sum += law->change[i].prob * hit / all;
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
    spot_change_law_release(&r->law);
    ck_assert_msg(!spot_change_law_init(&r->law, &forecast, -1, &err), "%s", err.msg);
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
    d[0] = (int)r.plan.doc.next.d;
    four_zones(&r, &shock);
    make(&r);
    d[1] = (int)r.plan.doc.next.d;
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
        r.law.n_change = 2;
        r.law.change[0] = (struct spot_change){ 0, 0, 0.9 };
        r.law.change[1] = (struct spot_change){ i ? 20 : 8, 0, 0.1 };
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

    load(&r, "bert", 60, 64, SPOT_THROUGHPUT_LAW);
    unrest(&r, 64, 0.4, 0.2);
    for (int lost = 1; lost <= 60; lost++) {
        struct spot_count_chain chain;
        struct spot_count_step step;
        double mean = 0, sum = 0;

        r.law.change[5].lost = lost;
        spot_train_chain(&r.law, 64, 64, &chain);
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

        spot_train_chain(&r.law, held, 8, &chain);
        chain.cap = 8; /* as if gains were not refused */
        spot_count_chain_step(&chain, held, 0, &step);
        ck_assert_double_eq_tol(step.still, by_subsets(&r.law, held, 0), 1e-6);
        for (int k = 1; k <= 2; k++) {
            ck_assert_double_eq_tol(step.gained[k], by_subsets(&r.law, held, k), 1e-6);
            ck_assert_double_eq_tol(step.lost[k], by_subsets(&r.law, held, -k), 1e-6);
        }
    }
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

START_TEST(no_expectation_exceeds_its_bound)
{
    for (size_t k = 0; k < 5; k++)
        for (int solver = 0; solver < 3; solver++) {
            struct rig r;

            load(&r, job_name[k], 28, 32, SPOT_THROUGHPUT_TABLE);
            unrest(&r, 32, 0.2, 0.2);
            r.q.solver = (enum spot_train_solver)solver;
            make(&r);
            ck_assert(r.plan.doc.expected.samples_per_s <= r.plan.doc.bound * (1 + 1e-12));
            ck_assert(r.plan.doc.gap >= 0 && r.plan.doc.gap <= 1);
            unload(&r);
        }
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    tcase_add_loop_test(tc, the_window_comes_within_half_a_percent_of_the_full_program, 0, 30);
    tcase_add_test(tc, a_thousand_instances_get_a_grid_that_fits_and_bears_its_price);
    tcase_add_test(tc, more_leaving_at_once_than_a_window_holds_is_refused);
    tcase_add_loop_test(tc, liveput_picks_the_grid_with_the_most_expected_throughput, 0, 5);
    tcase_add_test(tc, too_few_instances_are_a_plan_to_suspend);
    tcase_add_test(tc, spares_and_risk_limits_are_kept);
    tcase_add_test(tc, instances_under_notice_are_not_used);
    tcase_add_test(tc, the_cheapest_sample_lets_machines_go_that_do_not_pay);
    tcase_add_loop_test(tc, as_many_spares_are_kept_as_pay, 0, 5);
    tcase_add_loop_test(tc, in_a_still_world_no_spare_pays, 0, 5);
    tcase_add_test(tc, a_job_that_earns_less_than_its_machines_cost_is_suspended);
    tcase_add_test(tc, a_change_that_never_pays_is_not_made);
    tcase_add_test(tc, what_is_held_is_hit_by_its_share);
    tcase_add_test(tc, zones_that_go_down_together_get_more_replicas);
    tcase_add_test(tc, large_losses_are_not_taken_for_small_ones);
    tcase_add_test(tc, sizes_that_stand_for_others_keep_the_mean);
    tcase_add_test(tc, an_objective_in_money_needs_a_price);
    tcase_add_test(tc, no_expectation_exceeds_its_bound);
    return run_suite("train_plan", tc);
}
