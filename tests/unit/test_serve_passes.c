/* SPDX-License-Identifier: MIT */
/* Goal: batches that form pass by pass. Oracles: a loop over single passes, over random loads,
 * losses and pauses; one request at a time, which is a static batch of one; a replica whose passes
 * take the same time for any number of requests, on which nobody waits. */
#include <math.h>
#include <stdlib.h>

#include "common/rng.h"
#include "common/xalloc.h"
#include "sim/serve_batch.h"
#include "sim/serve_queue.h"
#include "suite.h"

enum { N = 60, BATCH = 3 };

static const struct spot_serve_queue_rule passes = { .batching = SPOT_BATCH_PASSES };

struct law {
    const struct spot_load *load;
    const struct spot_served *served;
};

/* Prompts at a thousandth a token, tokens at .1 and .03 for each that shares the pass. */
static double first_s(const struct law *law, size_t k)
{
    return (law->load->prompt_token[k] + law->served[k].token) / 1000.;
}

static struct spot_batch_time time_batch(void *user, const size_t *request, size_t n)
{
    return (struct spot_batch_time){ .first_s = first_s(user, request[0]),
                                     .each_s = 0.1 + 0.03 * (double)n,
                                     .join = 1 };
}

static struct spot_load draw_load(uint64_t seed, double gap_s)
{
    struct spot_load load = { 0 };
    struct spot_rng rng;
    double time_s = 0;

    spot_rng_init(&rng, seed, 0);
    for (int i = 0; i < N; i++) {
        time_s += -gap_s * log(1 - spot_rng_unit(&rng));
        spot_load_add(&load, time_s, 1 + (int32_t)spot_rng_below(&rng, 900),
                      1 + (int32_t)spot_rng_below(&rng, 30), NULL);
    }
    return load;
}

/* The replica is lost at cut_s, and another comes at back_s. */
struct naive {
    struct law law;
    struct spot_served served[N];
    size_t active[BATCH], n_active;
    double now_s;
};

static size_t next_waiting(const struct naive *v)
{
    for (size_t k = 0; k < N && v->law.load->time_s[k] <= v->now_s; k++) {
        bool is_active = false;

        for (size_t i = 0; i < v->n_active; i++)
            is_active = is_active || v->active[i] == k;
        if (!is_active && isnan(v->served[k].end_s))
            return k;
    }
    return N;
}

static double next_arrival(const struct naive *v)
{
    for (size_t k = 0; k < N; k++)
        if (v->law.load->time_s[k] > v->now_s)
            return v->law.load->time_s[k];
    return INFINITY;
}

/* One pass, or the wait for a request; up to until_s. */
static void naive_step(struct naive *v, double until_s)
{
    const size_t n_old = v->n_active;
    double pass_s = n_old ? 0.1 + 0.03 * (double)n_old : 0;
    size_t k, kept = 0;

    while (v->n_active < BATCH && (k = next_waiting(v)) < N) {
        pass_s += first_s(&v->law, k);
        v->active[v->n_active++] = k;
    }
    if (!v->n_active) {
        v->now_s = fmin(next_arrival(v), until_s);
        return;
    }
    if (v->now_s + pass_s > until_s) { /* cut */
        v->now_s = until_s;
        return;
    }
    v->now_s += pass_s;
    for (size_t i = 0; i < v->n_active; i++) {
        struct spot_served *s = &v->served[v->active[i]];

        s->token++;
        if (isnan(s->first_token_s))
            s->first_token_s = v->now_s;
        if (s->token == (uint32_t)v->law.load->output_token[v->active[i]])
            s->end_s = v->now_s;
        else
            v->active[kept++] = v->active[i];
    }
    v->n_active = kept;
}

static bool is_done(const struct naive *v)
{
    for (size_t k = 0; k < N; k++)
        if (isnan(v->served[k].end_s))
            return false;
    return true;
}

static void run_naive(struct naive *v, const struct spot_load *load, double cut_s, double back_s)
{
    v->law = (struct law){ load, v->served };
    v->n_active = 0;
    v->now_s = 0;
    for (size_t k = 0; k < N; k++)
        v->served[k] = (struct spot_served){ .first_token_s = NAN, .end_s = NAN };
    while (v->now_s < cut_s && !is_done(v))
        naive_step(v, cut_s);
    v->n_active = 0;
    v->now_s = fmax(back_s, v->now_s);
    while (!is_done(v))
        naive_step(v, INFINITY);
}

START_TEST(every_time_is_that_of_a_loop_over_passes)
{
    struct spot_load load = draw_load((uint64_t)_i + 1, _i % 2 ? 1.5 : 0.7);
    struct spot_serve_queue *q = spot_serve_queue_new(&load, &passes);
    struct law law = { &load, spot_serve_queue_served(q) };
    const struct spot_replica_law replica = { time_batch, &law, BATCH };
    const double cut_s = 5 + 0.37 * _i, back_s = cut_s + (_i % 3);
    const struct spot_served *served;
    struct spot_serve_totals totals;
    struct naive v;

    spot_serve_queue_add(q, &replica);
    spot_serve_queue_run(q, cut_s);
    spot_serve_queue_lose(q, 0);
    spot_serve_queue_run(q, back_s);
    spot_serve_queue_add(q, &replica);
    spot_serve_queue_run(q, INFINITY);
    served = spot_serve_queue_finish(q, &totals);
    run_naive(&v, &load, cut_s, back_s);
    ck_assert_int_eq((int)totals.finished, N);
    ck_assert_int_eq((int)totals.repeated, 0); /* what was told is not computed anew */
    for (size_t k = 0; k < N; k++) {
        ck_assert_double_eq_tol(served[k].first_token_s, v.served[k].first_token_s, 1e-9);
        ck_assert_double_eq_tol(served[k].end_s, v.served[k].end_s, 1e-9);
        ck_assert_int_eq((int)served[k].token, load.output_token[k]);
    }
    spot_serve_queue_free(q);
    spot_load_release(&load);
}
END_TEST

/* A pause keeps the cache: no prompt is computed again, and all end later by what it took. */
START_TEST(a_pause_delays_by_its_length)
{
    struct spot_load load = { 0 };
    double end_s[2];

    for (int i = 0; i < 3; i++)
        spot_load_add(&load, 0, 100, 20, NULL);
    for (int paused = 0; paused < 2; paused++) {
        struct spot_serve_queue *q = spot_serve_queue_new(&load, &passes);
        struct law law = { &load, spot_serve_queue_served(q) };
        const struct spot_replica_law replica = { time_batch, &law, BATCH };
        struct spot_serve_totals totals;

        spot_serve_queue_add(q, &replica);
        spot_serve_queue_run(q, 0.3 + 5 * 0.19); /* a boundary of passes */
        if (paused) {
            spot_serve_queue_pause(q, 0);
            ck_assert_int_eq((int)spot_serve_queue_progress(q, 0), 6);
            spot_serve_queue_run(q, 0.3 + 5 * 0.19 + 7);
            spot_serve_queue_resume(q, 0, NULL);
        }
        spot_serve_queue_run(q, INFINITY);
        end_s[paused] = spot_serve_queue_finish(q, &totals)[2].end_s;
        spot_serve_queue_free(q);
    }
    ck_assert_double_eq_tol(end_s[0], 0.3 + 19 * 0.19, 1e-9);
    ck_assert_double_eq_tol(end_s[1], end_s[0] + 7, 1e-9);
    spot_load_release(&load);
}
END_TEST

START_TEST(one_at_a_time_is_a_static_batch_of_one)
{
    static const struct spot_serve_queue_rule shared = { .batching = SPOT_BATCH_SHARED };
    struct spot_load load = draw_load(99, 2);
    struct spot_serve_queue *q[2] = { spot_serve_queue_new(&load, &passes),
                                      spot_serve_queue_new(&load, &shared) };
    const struct spot_served *served[2];
    struct spot_serve_totals totals;

    for (int i = 0; i < 2; i++) {
        struct law law = { &load, spot_serve_queue_served(q[i]) };
        const struct spot_replica_law replica = { time_batch, &law, 1 };

        for (int k = 0; k < 2; k++)
            spot_serve_queue_add(q[i], &replica);
        spot_serve_queue_run(q[i], INFINITY);
        served[i] = spot_serve_queue_finish(q[i], &totals);
    }
    for (size_t k = 0; k < N; k++)
        ck_assert_double_eq_tol(served[0][k].end_s, served[1][k].end_s, 1e-9);
    spot_serve_queue_free(q[0]), spot_serve_queue_free(q[1]);
    spot_load_release(&load);
}
END_TEST

static struct spot_batch_time tenth(void *user, const size_t *request, size_t n)
{
    (void)user, (void)request, (void)n;
    return (struct spot_batch_time){ .each_s = 0.1 };
}

START_TEST(where_company_costs_nothing_nobody_waits)
{
    struct spot_load load = draw_load(5, 0.5);
    struct spot_serve_queue *q = spot_serve_queue_new(&load, &passes);
    const struct spot_replica_law replica = { tenth, NULL, N };
    const struct spot_served *served;
    struct spot_serve_totals totals;

    spot_serve_queue_add(q, &replica);
    spot_serve_queue_run(q, INFINITY);
    served = spot_serve_queue_finish(q, &totals);
    for (size_t k = 0; k < N;
         k++) { /* the first token with the prompt; up to a pass for its start */
        const double alone_s = 0.1 * (load.output_token[k] - 1);
        const double took_s = served[k].end_s - load.time_s[k];

        ck_assert(took_s >= alone_s - 1e-9 && took_s <= alone_s + 0.2 + 1e-9);
    }
    spot_serve_queue_free(q);
    spot_load_release(&load);
}
END_TEST

/* Ends of two requests: 10 tokens from 0 on, 3 from .35 on, each behind a prompt of .3 s. */
static void play_two(const struct spot_serve_queue_rule *rule, spot_batch_time_fn *time,
                     int replicas, double end_s[2])
{
    struct spot_load load = { 0 };
    struct spot_serve_queue *q;
    struct spot_serve_totals totals;
    struct law law;
    const struct spot_served *served;

    spot_load_add(&load, 0, 300, 10, NULL);
    spot_load_add(&load, 0.35, 300, 3, NULL);
    q = spot_serve_queue_new(&load, rule);
    law = (struct law){ &load, spot_serve_queue_served(q) };
    for (int i = 0; i < replicas; i++)
        spot_serve_queue_add(q, &(struct spot_replica_law){ time, &law, BATCH });
    spot_serve_queue_run(q, INFINITY);
    served = spot_serve_queue_finish(q, &totals);
    for (int k = 0; k < 2; k++)
        end_s[k] = served[k].end_s;
    spot_serve_queue_free(q);
    spot_load_release(&load);
}

static struct spot_batch_time time_joined(void *user, const size_t *request, size_t n)
{
    struct spot_batch_time t = time_batch(user, request, n);

    t.join = 0.5;
    return t;
}

/* By hand. Alone .3, then .13 to .43; in one pass .13 and half of .3, to .71, or all of it, to .86;
 * two of .16, where the second ends; then the first has five of .13 to go. */
START_TEST(a_prompt_takes_another_time_in_company_than_alone)
{
    double end_s[2];

    play_two(&passes, time_joined, 1, end_s);
    ck_assert_double_eq_tol(end_s[1], 0.71 + 2 * 0.16, 1e-9);
    ck_assert_double_eq_tol(end_s[0], 0.71 + 2 * 0.16 + 5 * 0.13, 1e-9);
    play_two(&passes, time_batch, 1, end_s);
    ck_assert_double_eq_tol(end_s[1], 0.86 + 2 * 0.16, 1e-9);
    ck_assert_double_eq_tol(end_s[0], 0.86 + 2 * 0.16 + 5 * 0.13, 1e-9);
}
END_TEST

/* By hand, a replica each, half as long again while both are at work. The second: .45 from .35 on,
 * then two of .195, to 1.19. The first: alone to .43, four of .195 to 1.21, the last of which was
 * begun in time, then four of .13. */
START_TEST(replicas_of_one_machine_slow_each_other_down)
{
    static const double sharing[] = { 1, 1.5 };
    const struct spot_serve_queue_rule shared = { .batching = SPOT_BATCH_PASSES,
                                                  .sharing = sharing,
                                                  .n_sharing = 2 };
    double end_s[2];

    play_two(&shared, time_batch, 2, end_s);
    ck_assert_double_eq_tol(end_s[1], 0.35 + 0.45 + 2 * 0.195, 1e-9);
    ck_assert_double_eq_tol(end_s[0], 1.21 + 4 * 0.13, 1e-9);
    play_two(&passes, time_batch, 2, end_s);
    ck_assert_double_eq_tol(end_s[1], 0.35 + 0.3 + 2 * 0.13, 1e-9);
    ck_assert_double_eq_tol(end_s[0], 0.3 + 9 * 0.13, 1e-9);
}
END_TEST

/* By the profile: a longer prompt and answer by their slopes, a spread drawn once for a request. */
START_TEST(times_follow_lengths_and_spread)
{
    struct spot_serve_cell cell[] = { { .M = 1,
                                        .B = 1,
                                        .prefill_s = 0.1,
                                        .decode_s = 0.01,
                                        .prefill_token_s = 0.001,
                                        .decode_token_s = 0.0001 },
                                      { .M = 1,
                                        .B = 2,
                                        .prefill_s = 0.2,
                                        .decode_s = 0.012,
                                        .prefill_token_s = 0.002,
                                        .decode_token_s = 0.0002 },
                                      { .M = 1,
                                        .B = 4,
                                        .prefill_s = 0.4,
                                        .decode_s = 0.02,
                                        .prefill_token_s = 0.004,
                                        .decode_token_s = 0.0004 } };
    double spread[] = { 0.5, 1, 3 };
    struct spot_job_serve serve = { .layers = 1,
                                    .stage_layers = 1,
                                    .max_batch = 4,
                                    .factor = 1,
                                    .prompt_token = 50,
                                    .output_token = 20,
                                    .cell = cell,
                                    .n_cell = 3 };
    const struct spot_serve_shape shape = {
        .P = 1, .M = 1, .B = 4, .prefill_parts = 1, .decode_parts = 1
    };
    struct spot_load load = { 0 };
    struct spot_served served[3] = { { .token = 5 }, { .token = 0 }, { .token = 0 } };
    struct spot_serve_batches b = { .serve = &serve, .load = &load, .seed = 3 };
    const size_t all[] = { 0, 1, 2 };
    struct spot_batch_time t;
    double mean = 0;

    spot_load_add(&load, 0, 60, 20, NULL);
    spot_load_add(&load, 0, 50, 40, NULL);
    spot_load_add(&load, 0, 10, 10, NULL);
    t = spot_serve_batch_time(&b, &shape, all, 2); /* the longest: 60 and 40 */
    ck_assert_double_eq_tol(t.each_s, 0.012 + 0.0002 * (10 + 10), 1e-12);
    ck_assert_double_eq_tol(t.first_s, 0.2 + 0.002 * 10 + t.each_s, 1e-12);
    b.served = served; /* 5 told: 65 of prompt, 15 to come; half way between 2 and 4 */
    t = spot_serve_batch_time(&b, &shape, all, 1);
    ck_assert_double_eq_tol(t.first_s - t.each_s, 0.1 + 0.001 * 15, 1e-12);
    t = spot_serve_batch_time(&b, &shape, all, 3);
    ck_assert_double_eq_tol(t.each_s, (0.012 + 0.02) / 2 + 0.0003 * (41 - 50 + 0.5), 1e-12);
    serve.spread = spread;
    serve.n_spread = 3;
    for (size_t k = 0; k < 3; k++)
        ck_assert_double_eq(spot_serve_batch_time(&b, &shape, &all[k], 1).each_s,
                            spot_serve_batch_time(&b, &shape, &all[k], 1).each_s);
    for (int i = 0; i < 20000; i++) { /* quantiles evenly: the mean of the two slopes */
        b.seed = (uint64_t)i;
        mean += spot_serve_batch_time(&b, &shape, &all[2], 1).each_s / 20000;
    }
    ck_assert_double_eq_tol(mean, (0.75 + 2) / 2 * (0.01 + 0.0001 * (10 + 5 - 60)), 2e-4);
    spot_load_release(&load);
}
END_TEST

int main(void)
{
    TCase *const tcase = tcase_create("passes");

    tcase_add_loop_test(tcase, every_time_is_that_of_a_loop_over_passes, 0, 60);
    add_tests(tcase);
    return run_case("serve_passes", tcase);
}
