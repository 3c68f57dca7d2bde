/* SPDX-License-Identifier: MIT */
/* Goal: a plan says the best it can defend, for any number of instances. Oracles: the full program
 * where the window runs as well, sums over the distribution done again here, and questions with one
 * possible answer. */
#include "plan/train_plan.h"

#include <math.h>
#include <string.h>

#include "common/rng.h"
#include "plan/liveput.h"
#include "train_rig.h"

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
    free(r->dist.change);
    r->dist.change = c = spot_xcalloc(9, sizeof(*c));
    r->dist.n_change = 0;
    for (int k = -4; k <= 4; k++)
        if (r->dist.now + k >= 0 && r->dist.now + k <= n_max) {
            c->lost = k < 0 ? -k : 0;
            c->gained = k > 0 ? k : 0;
            sum += c->prob = k ? pow(0.6, abs(k)) * spot_rng_unit(rng) : 0;
            r->dist.n_change++;
            c++;
        }
    for (size_t i = 0; i < r->dist.n_change; i++) {
        c = &r->dist.change[i];
        c->prob = c->lost || c->gained ? busy * c->prob / sum : 1 - busy;
    }
    qsort(r->dist.change, r->dist.n_change, sizeof(*r->dist.change), spot_change_compare);
}

/* A seeded job, forecast and cluster: changes of a quarter to four times the price, batches of one
 * to eight times the size, something running or nothing, some of it leaving or not. */
static void random_question(struct rig *r, const char *name, struct spot_rng *rng, int n_most)
{
    const int batches = 1 << spot_rng_below(rng, 4);
    const double scale = pow(4, 2 * spot_rng_unit(rng) - 1);
    struct spot_err err = { 0 };
    int n_max, now;

    load(r, name, 1, 64, SPOT_THROUGHPUT_CURVE);
    n_max = (int)r->job.memory.p_min + 2;
    n_max = 8 > n_max ? 8 : n_max;
    n_max += (int)spot_rng_below(rng, (uint64_t)(n_most - n_max + 1));
    now = n_max - (int)spot_rng_below(rng, (uint64_t)n_max / 2);
    r->job.global_batch *= batches;
    r->job.cost.rendezvous_s *= scale;
    r->job.cost.add_per_group_s *= scale;
    r->job.cost.remove_per_group_s *= scale;
    for (size_t i = 0; i < r->job.cost.n_p2p; i++)
        r->job.cost.p2p[i].y *= scale;
    spot_throughput_release(&r->throughput);
    ck_assert_msg(
        !spot_throughput_init(&r->throughput, &r->job, n_max, SPOT_THROUGHPUT_CURVE, &err), "%s",
        err.msg);
    r->dist.now = now;
    random_unrest(r, rng, n_max);
    if (spot_rng_below(rng, 4))
        spot_throughput_best(&r->throughput, now - (int)spot_rng_below(rng, 4), &r->q.current_d,
                             &r->q.current_p);
    r->q.leaving = spot_rng_below(rng, 2) ? (int)spot_rng_below(rng, 4) : 0;
}

/* `make bench` (bench_window) draws larger families up to 64 instances and prints the distribution
 * of what is lost. The first draws of every job are here. */
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
                      "%s, %d instances: %dx%d loses %g of %g samples", job_name[_i % 5],
                      r.dist.now, d, p, r.plan.choice[0].score - chosen->score,
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

    load(&r, "bert", 1000, 1024, SPOT_THROUGHPUT_CURVE);
    r.job.global_batch = 32768;
    unrest(&r, 1024, 0.2, 0.2);
    make(&r);
    ck_assert_int_gt(r.plan.doc.next.D * r.plan.doc.next.P, 0);
    ck_assert_int_le(r.plan.doc.next.D * r.plan.doc.next.P, 1000);
    r.q.current_d = (int)r.plan.doc.next.D;
    r.q.current_p = (int)r.plan.doc.next.P;
    make(&r); /* what runs and was best a moment ago, at no price now, stays */
    ck_assert_int_eq(r.plan.doc.next.D, r.q.current_d);
    ck_assert_int_eq(r.plan.doc.next.P, r.q.current_p);
    r.q.leaving = SPOT_COST_LOST_MAX;
    make(&r);
    ck_assert_int_le(r.plan.doc.next.D * r.plan.doc.next.P, 1000 - SPOT_COST_LOST_MAX);
    unload(&r);
}
END_TEST

START_TEST(more_leaving_at_once_than_a_window_holds_is_refused)
{
    struct spot_err err = { 0 };
    struct rig r;

    load(&r, "bert", 1000, 1024, SPOT_THROUGHPUT_CURVE);
    r.q.leaving = SPOT_COST_LOST_MAX + 1;
    ck_assert_int_eq(spot_train_plan_make(&r.plan, &r.q, &err), -1);
    ck_assert_int_eq(err.code, SPOT_EDATA);
    ck_assert_ptr_nonnull(strstr(err.msg, "--solver liveput"));
    r.q.solver = SPOT_SOLVER_LIVEPUT;
    make(&r);
    unload(&r);
}
END_TEST

/* The distribution of M, keep by keep. */
static void recoverable(const struct spot_liveput *g, double *pmf)
{
    double above = 0;

    for (int keep = g->d; keep >= 0; keep--) {
        const double hold = spot_liveput_hold(g, keep);

        pmf[keep] = hold > above ? hold - above : 0;
        above = hold;
    }
}

/* Expected surviving throughput, summed again from the distribution. */
static double by_hand(const struct rig *r, int d, int p)
{
    double pmf[65], sum = 0;

    for (size_t i = 0; i < r->dist.n_change; i++) {
        const struct spot_liveput g = { d, p, r->dist.now - d * p, r->dist.change[i].lost };

        recoverable(&g, pmf);
        for (int m = 1; m <= d; m++)
            sum +=
                r->dist.change[i].prob * pmf[m] * fmax(spot_throughput_at(&r->throughput, m, p), 0);
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
        ck_assert_int_eq(r.plan.doc.next.D, 0);
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
    ck_assert_int_le(r.plan.doc.next.D * r.plan.doc.next.P, 27);
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
        ck_assert_int_gt(r.plan.doc.next.D, 0);
        ck_assert_int_le(r.plan.doc.next.D * r.plan.doc.next.P, 14);
    }
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
    ck_assert_int_eq(r.plan.doc.next.D, 0);
    ck_assert_int_eq(r.plan.doc.spares, 23);
    ck_assert_ptr_nonnull(strstr(r.plan.doc.why[0], "to wait for the next change costs less"));
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

    tcase_add_loop_test(tc, the_window_comes_within_half_a_percent_of_the_full_program, 0,
                        is_long() ? 30 : 10);
    tcase_add_loop_test(tc, liveput_picks_the_grid_with_the_most_expected_throughput, 0, 5);
    add_tests(tc);
    return run_suite("train_plan", tc);
}
