/* SPDX-License-Identifier: MIT */
/* Goal: policies do to replicas what they say. Oracles: times of SpotServe's cost model summed by
 * hand; what an answer has not said yet changes nothing; nobody is lost while the model fits. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/rng.h"
#include "common/xalloc.h"
#include "peers/serve_peers.h"
#include "suite.h"
#include "trace/load_generate.h"

static struct spot_job_doc job;

static void setup(void)
{
    struct spot_err err;

    ck_assert_int_eq(spot_job_doc_load(&job, "examples/serve/gpt-20b.json", &err), 0);
}

static void teardown(void)
{
    spot_job_doc_release(&job);
}

static struct spot_serve_play play_of(const struct spot_load *load, struct spot_serve_event *event,
                                      size_t n, double end_s)
{
    return (struct spot_serve_play){ .job = &job,
                                     .load = load,
                                     .event = event,
                                     .n_event = n,
                                     .end_s = end_s,
                                     .rate_per_s = 0.4,
                                     .switch_s = 10,
                                     .load_s = 20,
                                     .grace_s = 30,
                                     .boot_s = 60,
                                     .hand_s = 1,
                                     .rule = { SPOT_BATCH_POOLS, 8, true, false } };
}

static struct spot_serve_result run(const struct spot_serve_play *play,
                                    enum spot_serve_policy policy, int64_t n)
{
    struct spot_serve_result r;
    struct spot_err err;

    ck_assert_msg(!spot_serve_play_run(play, policy, n, &r, &err), "%s", err.msg);
    return r;
}

/* n requests of the profile's lengths, gap_s apart from 0 on. */
static struct spot_load steady(size_t n, double gap_s)
{
    struct spot_load load = { 0 };

    for (size_t i = 0; i < n; i++)
        spot_load_add(&load, gap_s * (double)i, 512, 128, NULL);
    return load;
}

/* The first `n` instances at 0. */
static size_t fill(struct spot_serve_event *event, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        event[i] = (struct spot_serve_event){ 0, true, i };
    return n;
}

START_TEST(a_lone_request_takes_what_table_1_says)
{
    struct spot_load load = steady(1, 1);
    struct spot_serve_event event[8];
    struct spot_serve_play play = play_of(&load, event, fill(event, 3), 100);

    for (int k = 0; k < SPOT_SERVE_POLICIES; k++) { /* 3 instances: 1 x 3 x 4, a batch of one */
        struct spot_serve_result r = run(&play, (enum spot_serve_policy)k, 3);

        ck_assert_double_eq_tol(r.served[0].end_s, 14.373, 0.0005);
        ck_assert_double_eq_tol(r.instance_s, 300, 1e-9);
        spot_serve_result_release(&r);
    }
    spot_load_release(&load);
}
END_TEST

/* 6 instances run 2 x 3 x 4, a request at each replica; at 10 one instance goes and 5 run 1 x 2
 * x 8. */
START_TEST(a_loss_costs_each_policy_what_it_says)
{
    struct spot_load load = steady(2, 0.001);
    struct spot_serve_event event[8];
    size_t n = fill(event, 6);
    struct spot_serve_play play;
    struct spot_serve_result r;

    event[n++] = (struct spot_serve_event){ 10, false, 0 };
    play = play_of(&load, event, n, 100);
    r = run(&play, SPOT_SERVE_REROUTING, 0); /* the second goes on, the first waits for it */
    ck_assert_double_eq_tol(r.served[1].end_s, 14.373 + 0.001, 0.001);
    ck_assert_double_eq_tol(r.served[0].end_s, 2 * 14.373 + 0.001, 0.002);
    ck_assert_uint_eq(r.totals.repeated, 1);
    spot_serve_result_release(&r);
    r = run(&play, SPOT_SERVE_REPARALLELIZATION, 0); /* both anew, 20 s later, in one batch */
    ck_assert_double_eq_tol(r.served[0].end_s, r.served[1].end_s, 1e-9);
    ck_assert(r.served[0].end_s > 10 + 20 + 11 && r.served[0].end_s < 10 + 20 + 13);
    ck_assert_uint_eq(r.totals.repeated, 2);
    ck_assert_uint_eq(r.changes, 2);
    spot_serve_result_release(&r);
    /* the move begins at 0: no prompt is done by then, and nothing is thrown away */
    r = run(&play, SPOT_SERVE_SPOTSERVE, 0);
    ck_assert_uint_eq(r.totals.repeated, 0);
    ck_assert(r.served[0].end_s > 10 + 11 && r.served[0].end_s < 10 + 13);
    spot_serve_result_release(&r);
    spot_load_release(&load);
}
END_TEST

/* The same at 18: 8 s of work are kept. Too short a grace keeps nothing. */
START_TEST(a_move_keeps_tokens_and_one_that_comes_too_late_does_not)
{
    struct spot_load load = steady(1, 1);
    struct spot_serve_event event[8];
    size_t n = fill(event, 6);
    struct spot_serve_play play;
    struct spot_serve_result r;

    event[n++] = (struct spot_serve_event){ 18, false, 0 };
    play = play_of(&load, event, n, 100);
    r = run(&play, SPOT_SERVE_SPOTSERVE, 0);
    ck_assert_uint_eq(r.totals.repeated, 0);
    /* of 14.373 s some 6.3 are left, 11 % less of them with 2 x 8 */
    ck_assert(r.served[0].end_s > 18 + 5 && r.served[0].end_s < 18 + 6.4);
    ck_assert(r.served[0].first_token_s < 3);
    spot_serve_result_release(&r);
    play.grace_s = 5;
    r = run(&play, SPOT_SERVE_SPOTSERVE, 0);
    ck_assert_uint_eq(r.totals.repeated, 0); /* it was done before 18 */
    ck_assert_double_eq_tol(r.served[0].end_s, 14.373, 0.0005);
    spot_serve_result_release(&r);
    event[n - 1].time_s = 12;
    r = run(&play, SPOT_SERVE_SPOTSERVE, 0);
    ck_assert_uint_eq(r.totals.repeated, 1);
    ck_assert(r.served[0].end_s > 12 + 20 + 10);
    spot_serve_result_release(&r);
    spot_load_release(&load);
}
END_TEST

START_TEST(too_few_instances_answer_nobody_and_say_so_on_demand)
{
    struct spot_load load = steady(3, 1);
    struct spot_serve_event event[8];
    struct spot_serve_play play = play_of(&load, event, fill(event, 2), 100);
    struct spot_serve_result r;
    struct spot_err err;

    for (int k = 0; k < SPOT_SERVE_ON_DEMAND; k++) {
        r = run(&play, (enum spot_serve_policy)k, 0);
        ck_assert_uint_eq(r.totals.finished, 0);
        ck_assert_uint_eq(r.totals.lost, 3);
        spot_serve_result_release(&r);
    }
    ck_assert_int_eq(spot_serve_play_run(&play, SPOT_SERVE_ON_DEMAND, 2, &r, &err), -1);
    ck_assert_int_eq(err.code, SPOT_EINFEASIBLE);
    spot_load_release(&load);
}
END_TEST

/* A walk of 3 to 14 instances. Returns how many events. */
static size_t draw_events(struct spot_serve_event *event, uint64_t seed, double end_s)
{
    uint32_t there[16], n_there = 8, named = 8;
    size_t n = fill(event, 8);
    struct spot_rng rng;
    double time_s = 0;

    for (uint32_t i = 0; i < 8; i++)
        there[i] = i;
    spot_rng_init(&rng, seed, 3);
    for (;;) {
        time_s += 2 + 90 * spot_rng_unit(&rng);
        if (time_s > end_s)
            return n;
        if (n_there < 14 && (n_there == 3 || spot_rng_below(&rng, 2))) {
            there[n_there++] = named;
            event[n++] = (struct spot_serve_event){ time_s, true, named++ };
        } else {
            const size_t k = spot_rng_below(&rng, n_there);

            event[n++] = (struct spot_serve_event){ time_s, false, there[k] };
            there[k] = there[--n_there];
        }
    }
}

/* How long a walk lasts: in 1,500 s some 30 events. */
static double walk_s(void)
{
    return is_long() ? 3000 : 1500;
}

/* Nor does how long answers are (test_no_future.c has the rest): those that at
 * `cut_s` cannot have ended become others that cannot. */
START_TEST(what_is_not_said_yet_changes_no_decision)
{
    enum { REQUESTS = 120 };
    size_t n_other = 0, n_decided = 0;

    for (size_t i = 0; i < job.serve.n_cell; i++) /* a prompt's time alone is of its length */
        job.serve.cell[i].prefill_token_s = 0.9 * job.serve.cell[i].prefill_s / 512;
    for (uint64_t seed = 0; seed < 200; seed++) {
        const double cut_s = 60 + (double)(seed * 29 % 140), end_s = 300;
        struct spot_load load = { 0 }, other = { 0 };
        struct spot_serve_event event[600];
        struct spot_serve_play a, b;
        struct spot_serve_result x, y;
        const size_t n = draw_events(event, seed, end_s);
        struct spot_rng rng;

        spot_rng_init(&rng, seed, 5);
        for (size_t i = 0; i < REQUESTS; i++) {
            const struct spot_serve_shape least = { 1, 8, 1, 1, 1 };
            struct spot_serve_length length = { 512, 1 + (int64_t)spot_rng_below(&rng, 250), 0 };
            struct spot_serve_time t;
            const double time_s = 2.6 * (double)i;

            spot_load_add(&load, time_s, 512, (int32_t)length.output_token, NULL);
            ck_assert(!spot_serve_time_of(&job.serve, &least, &length, &t));
            if (time_s + t.request_s > cut_s) {
                const double least_token = (cut_s - time_s - t.prefill_s) / t.decode_s;

                length.output_token =
                    (int64_t)fmax(1, least_token + 1) + (int64_t)spot_rng_below(&rng, 600);
                n_other += time_s < cut_s;
            }
            spot_load_add(&other, time_s, 512, (int32_t)length.output_token, NULL);
        }
        a = play_of(&load, event, n, end_s);
        b = play_of(&other, event, n, end_s);
        a.note_every_s = b.note_every_s = 1;
        x = run(&a, SPOT_SERVE_SPOT, 0);
        y = run(&b, SPOT_SERVE_SPOT, 0);
        for (size_t i = 0; i < x.n_decided && x.decided[i].time_s < cut_s; i++, n_decided++) {
            const struct spot_serve_decided *p = &x.decided[i], *q = &y.decided[i];

            ck_assert_msg(p->time_s == q->time_s && !strcmp(p->state, q->state) &&
                              p->asked.D == q->asked.D && p->asked.P == q->asked.P &&
                              p->asked.M == q->asked.M && p->spares == q->spares,
                          "seed %d, %g s, cut at %g s: '%s' or '%s'", (int)seed, p->time_s, cut_s,
                          p->state, q->state);
        }
        spot_serve_result_release(&x);
        spot_serve_result_release(&y);
        spot_load_release(&load);
        spot_load_release(&other);
    }
    ck_assert_uint_gt(n_other, 500);
    ck_assert_uint_gt(n_decided, 1000);
}
END_TEST

/* 8 instances for 2 x 3 x 4 and a spare or two: one of the first is lost, a spare takes its place,
 * and nobody waits for more than a batch longer. */
START_TEST(a_spare_takes_a_place_without_a_loss)
{
    struct spot_load load = steady(400, 3);
    struct spot_serve_event event[16];
    size_t n = fill(event, 8);
    struct spot_serve_play play;
    struct spot_serve_result still, lossy;

    play = play_of(&load, event, n, 1300);
    still = run(&play, SPOT_SERVE_SPOT, 0);
    event[n++] = (struct spot_serve_event){ 603, false, 1 };
    play = play_of(&load, event, n, 1300);
    lossy = run(&play, SPOT_SERVE_SPOT, 0);
    ck_assert_uint_eq(lossy.totals.repeated, 0);
    ck_assert_uint_eq(lossy.totals.finished, 400);
    for (size_t i = 0; i < load.n; i++)
        ck_assert(lossy.served[i].end_s < still.served[i].end_s + 15);
    for (size_t i = 0; i < lossy.n_step; i++)
        ck_assert_msg(lossy.step[i].D == 2 && lossy.step[i].held <= 8, "%g: %d held, D %d",
                      lossy.step[i].time_s, (int)lossy.step[i].held, (int)lossy.step[i].D);
    ck_assert(lossy.instance_s < 8 * 1300 && lossy.instance_s > 6 * 1300);
    spot_serve_result_release(&still);
    spot_serve_result_release(&lossy);
    spot_load_release(&load);
}
END_TEST

/* What it pays is what it holds, and it holds what is there. */
START_TEST(ours_holds_no_more_than_there_is_and_pays_for_that)
{
    const double end_s = walk_s();

    for (uint64_t seed = 0; seed < (is_long() ? 20 : 4); seed++) /* with and without a rate */
        for (int k = SPOT_SERVE_SPOT; k <= SPOT_SERVE_CLAIRVOYANT; k++) {
            struct spot_load load = steady((size_t)(end_s / 3), 2.6);
            struct spot_serve_event *event = spot_xcalloc(4000, sizeof(*event));
            struct spot_serve_play play =
                play_of(&load, event, draw_events(event, seed, end_s), end_s);
            struct spot_serve_result r;
            double paid_s = 0;

            play.rate_per_s = seed % 2 ? 0 : 0.4;
            r = run(&play, (enum spot_serve_policy)k, 0);
            ck_assert_uint_eq(r.totals.finished, load.n);
            for (size_t i = 0; i < r.n_step; i++) {
                const double until_s = i + 1 < r.n_step ? r.step[i + 1].time_s : end_s;

                ck_assert_int_le(r.step[i].held, r.step[i].there);
                ck_assert_int_le(r.step[i].D * r.step[i].P * r.step[i].M, 4 * r.step[i].there);
                paid_s += (double)r.step[i].held * (until_s - r.step[i].time_s);
            }
            ck_assert_double_eq_tol(paid_s, r.instance_s, 1e-6 * paid_s);
            spot_serve_result_release(&r);
            free(event);
            spot_load_release(&load);
        }
}
END_TEST

/* The rule asks again between events if more comes than its grid answers. */
START_TEST(a_step_tells_the_grid_from_when_it_was_chosen)
{
    struct spot_serve_event event[8];
    struct spot_load load = { 0 };
    struct spot_serve_play play;
    struct spot_serve_result r;

    fill(event, 8);
    for (int i = 0; i < 6; i++)
        spot_load_add(&load, 100 * i, 512, 128, NULL);
    for (int i = 0; i < 600; i++)
        spot_load_add(&load, 600 + i, 512, 128, NULL);
    play = play_of(&load, event, 8, 1200);
    play.rate_per_s = 0;
    r = run(&play, SPOT_SERVE_SPOTSERVE, 0);
    ck_assert_uint_ge(r.n_step, 2);
    ck_assert_double_eq(r.step[0].time_s, 0);
    for (size_t i = 1; i < r.n_step; i++)
        ck_assert_double_gt(r.step[i].time_s, 600);
    ck_assert_int_ne(r.step[1].D * 100 + r.step[1].P, r.step[0].D * 100 + r.step[0].P);
    spot_serve_result_release(&r);
    spot_load_release(&load);
}
END_TEST

/* Lengths that differ, times that scatter, batches of every kind, losses at random: all are
 * answered to the last token, and Little's law holds (the queue asserts it). */
START_TEST(nobody_is_lost_whatever_lengths_and_batches)
{
    static double spread[] = { 0.5, 0.9, 1, 1.4, 4 };
    static const enum spot_batching batching[] = { SPOT_BATCH_SHARED, SPOT_BATCH_POOLS,
                                                   SPOT_BATCH_BURSTS, SPOT_BATCH_PASSES };
    const struct spot_load_dist law = {
        .arrival = { .rate_per_s = 0.1 },
        .prompt = { .kind = SPOT_LENGTH_LOGNORMAL, .token = 200, .sigma = 1 },
        .output = { .kind = SPOT_LENGTH_LOGNORMAL, .token = 60, .sigma = 1 },
    };
    struct spot_serve_event event[128];
    struct spot_serve_play play;
    struct spot_load load;
    struct spot_rng rng;
    struct spot_err err;
    uint32_t there[12], n_named = 12;
    const double end_s = walk_s();
    size_t n = 12;

    for (size_t i = 0; i < job.serve.n_cell; i++) {
        job.serve.cell[i].prefill_token_s = 0.9 * job.serve.cell[i].prefill_s / 512;
        job.serve.cell[i].decode_token_s = 0.2 * job.serve.cell[i].decode_s / 640;
    }
    job.serve.spread = spread;
    job.serve.n_spread = 5;
    spot_rng_init(&rng, (uint64_t)_i, 0);
    for (uint32_t i = 0; i < n; i++)
        event[i] = (struct spot_serve_event){ 0, true, there[i] = i };
    for (double t = 50; t < end_s && n < 126; t += 10 + (double)spot_rng_below(&rng, 100)) {
        uint32_t *who = &there[spot_rng_below(&rng, 12)];

        event[n++] = (struct spot_serve_event){ t, false, *who };
        event[n++] = (struct spot_serve_event){ t + 5, true, *who = n_named++ };
    }
    ck_assert_int_eq(spot_load_generate(&load, &law, end_s, 0, (uint64_t)_i, &err), 0);
    play = play_of(&load, event, n, end_s + 1000);
    play.rate_per_s = 0.1;
    play.seed = (uint64_t)_i;
    for (int b = 0; b < 4; b++)
        for (int policy = 0; policy < SPOT_SERVE_ON_DEMAND; policy++) {
            struct spot_serve_result r;

            if (b % 2 != _i % 2 && !is_long()) /* each kind with each policy */
                continue;
            play.rule.batching = batching[b];
            r = run(&play, (enum spot_serve_policy)policy, 0);
            ck_assert_msg(r.totals.finished == load.n, "%s, batching %d: %zu of %zu",
                          spot_serve_row[policy].name, b, r.totals.finished, load.n);
            for (size_t k = 0; k < load.n; k++) {
                ck_assert_int_eq((int)r.served[k].token, load.output_token[k]);
                ck_assert(r.served[k].first_token_s >= load.time_s[k]);
                ck_assert(r.served[k].end_s >= r.served[k].first_token_s - 1e-9);
            }
            spot_serve_result_release(&r);
        }
    spot_load_release(&load);
    job.serve.spread = NULL;
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("serve_play");

    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, nobody_is_lost_whatever_lengths_and_batches, 0, is_long() ? 6 : 2);
    add_tests(tc);
    return run_suite("serve_play", tc);
}
