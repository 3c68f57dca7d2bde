/* SPDX-License-Identifier: MIT */
/* Goal: hadar's rounds fit, whole jobs only, and do not depend on the order of jobs; a job on two
 * types is as fast as on the slower, is billed for both, and loses all when one goes. Oracle:
 * random problems, cases worked by hand. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/rng.h"
#include "peers/hadar.h"
#include "sim/share_sim.h"
#include "suite.h"

enum { N_JOB = 12, N_TYPE = 3 };

struct sample {
    struct spot_share_want want[N_JOB];
    struct spot_share_machines type[N_TYPE];
    double rate[N_JOB * N_TYPE], ideal_s[N_JOB];
};

static struct spot_share_problem problem_of(const struct sample *x)
{
    return (struct spot_share_problem){ N_JOB, N_TYPE, x->want, x->rate, x->type };
}

static void draw(struct spot_rng *rng, struct sample *x)
{
    for (size_t j = 0; j < N_TYPE; j++)
        x->type[j] = (struct spot_share_machines){ .count = (int64_t)spot_rng_below(rng, 7) };
    for (size_t i = 0; i < N_JOB; i++) {
        x->want[i] = (struct spot_share_want){ .weight = 1 + (double)spot_rng_below(rng, 3),
                                               .left = 1000 + (double)spot_rng_below(rng, 100000),
                                               .age_s = (double)spot_rng_below(rng, 9000),
                                               .scale = 1 + (int64_t)spot_rng_below(rng, 4) };
        x->ideal_s[i] = x->want[i].left / 9;
        for (size_t j = 0; j < N_TYPE; j++)
            x->rate[i * N_TYPE + j] = (double)spot_rng_below(rng, 10);
    }
}

START_TEST(rounds_fit_and_jobs_are_whole_whatever_their_order)
{
    size_t n_mixed = 0, n_served = 0;
    struct spot_rng rng;

    spot_rng_init(&rng, 7, 0);
    for (int turn = 0; turn < 300; turn++) {
        int64_t workers[N_JOB * N_TYPE] = { 0 }, again[N_JOB * N_TYPE] = { 0 },
                                used[N_TYPE] = { 0 };
        double price[N_TYPE];
        struct sample x, y;
        struct spot_share_problem p = problem_of(&x), q = problem_of(&y);

        draw(&rng, &x);
        y = x;
        for (size_t i = 0; i < N_JOB; i++) {
            y.want[i] = x.want[N_JOB - 1 - i];
            y.ideal_s[i] = x.ideal_s[N_JOB - 1 - i];
            memcpy(y.rate + i * N_TYPE, x.rate + (N_JOB - 1 - i) * N_TYPE, N_TYPE * sizeof(double));
        }
        spot_share_hadar(&p, x.ideal_s, workers, price);
        spot_share_hadar(&q, y.ideal_s, again, price);
        for (size_t i = 0; i < N_JOB; i++) {
            const int64_t *w = workers + i * N_TYPE;
            int64_t n = 0;
            size_t types = 0;

            ck_assert_mem_eq(w, again + (N_JOB - 1 - i) * N_TYPE, N_TYPE * sizeof(*w));
            for (size_t j = 0; j < N_TYPE; j++) {
                ck_assert_int_ge(w[j], 0);
                ck_assert(!w[j] || x.rate[i * N_TYPE + j] > 0);
                used[j] += w[j];
                n += w[j];
                types += w[j] > 0;
            }
            ck_assert(n == 0 || n == x.want[i].scale);
            n_served += n > 0;
            n_mixed += types > 1;
        }
        for (size_t j = 0; j < N_TYPE; j++)
            ck_assert_int_le(used[j], x.type[j].count);
    }
    ck_assert_uint_gt(n_served, 300);
    ck_assert_uint_gt(n_mixed, 30);
}
END_TEST

/* A job of 3 workers where two types have two each: 3 steps/s on a, 1 on b. */
struct world {
    struct spot_share_jobs jobs;
    struct spot_share_type type[2];
    struct spot_share_cluster cluster;
    double rate[2];
    struct spot_share_play play;
};

static void init(struct world *w)
{
    static char a[] = "a", b[] = "b";
    struct spot_share_job *job;

    *w = (struct world){ .type = { { .name = a, .count = 2, .usd_per_h = 4 },
                                   { .name = b, .count = 2, .usd_per_h = 1 } },
                         .rate = { 3, 1 } };
    job = spot_share_jobs_add(&w->jobs, "x", "k", "");
    job->steps = 3600;
    job->scale = job->scale_min = job->scale_max = 3;
    w->cluster = (struct spot_share_cluster){ .type = w->type, .n = 2 };
    w->play = (struct spot_share_play){ .jobs = &w->jobs,
                                        .cluster = &w->cluster,
                                        .rate = w->rate,
                                        .round_s = 360,
                                        .reset_s = 1920,
                                        .switch_s = 20,
                                        .checkpoint_s = 1e6,
                                        .has_steps = true };
}

static struct spot_share_outcome play(const struct world *w)
{
    struct spot_share_outcome o;
    struct spot_err err;

    ck_assert_msg(!spot_share_play_run(&w->play, spot_hadar_players, &o, &err), "%s", err.msg);
    return o;
}

START_TEST(a_job_on_two_types_is_as_fast_as_the_slower_and_pays_for_both)
{
    struct spot_share_outcome o;
    int64_t on[2] = { 0 };
    struct world w;

    init(&w);
    o = play(&w);
    ck_assert_double_eq_tol(o.jct_mean_s, 3620, 1e-9);
    ck_assert_double_eq_tol(o.makespan_s, 3620, 1e-9);
    ck_assert_uint_eq(o.n_step, 2 * 11);
    for (size_t k = 0; k < 2; k++) {
        on[o.step[k].type] += o.step[k].scale;
        ck_assert_double_eq_tol(o.step[20 + k].end_s, 3620, 1e-9);
    }
    ck_assert_int_eq(on[0] + on[1], 3);
    ck_assert(on[0] > 0 && on[1] > 0);
    ck_assert_double_eq_tol(o.usd, 3620.0 / 3600 * (double)(4 * on[0] + on[1]), 1e-9);
    ck_assert_uint_eq(o.switches, 0);
    spot_share_outcome_release(&o);
    spot_share_jobs_release(&w.jobs);
}
END_TEST

/* Whichever type goes, the other alone is too small: what was done is lost, and it waits. */
START_TEST(it_loses_all_when_one_of_its_types_goes)
{
    static double time_s[] = { 0, 1000, 2000, 9000 };
    static int available[] = { 2, 0, 2, 2 };
    static char name[2][2] = { "a", "b" };

    for (size_t j = 0; j < 2; j++) {
        struct spot_trace_series series = { 0 };
        struct spot_trace trace = { .series = &series, .n_series = 1 };
        struct spot_share_outcome o;
        struct world w;

        init(&w);
        series.instance_type = name[j];
        series.time_s = time_s;
        series.available = available;
        series.n = 4;
        w.play.supply = &trace;
        o = play(&w);
        ck_assert_uint_eq(o.preemptions, 1);
        ck_assert_double_ge(o.jct_mean_s, 2000 + 3620);
        ck_assert_double_le(o.jct_mean_s, 2000 + 3620 + 360);
        for (size_t k = 0; k < o.n_step; k++)
            ck_assert(o.step[k].type < 0 || o.step[k].end_s <= 1000 || o.step[k].start_s >= 2000);
        spot_share_outcome_release(&o);
        spot_share_jobs_release(&w.jobs);
    }
}
END_TEST

int main(void)
{
    return run_suite("share_hadar", add_tests(tcase_create("share_hadar")));
}
