/* SPDX-License-Identifier: MIT */
/* Goal: a profile is found again from the requests of a simulation by it: prompts, tokens, what
 * company and lengths cost, the spread; and the profile that was found plays the same load with the
 * same percentiles. */
#include <math.h>
#include <stdlib.h>

#include "common/num.h"
#include "common/rng.h"
#include "common/xalloc.h"
#include "model/serve_fit.h"
#include "sim/serve_batch.h"
#include "suite.h"

enum { N = 4000, REPLICAS = 2, BATCH = 4 };

static struct spot_serve_cell truth_cell[3];
static double truth_spread[] = { 0.7, 0.85, 0.95, 1, 1.05, 1.2, 1.6 }; /* its mean is not 1 */

static struct spot_job_serve truth(bool has_spread)
{
    for (int k = 0; k < 3; k++)
        truth_cell[k] = (struct spot_serve_cell){ .M = 1,
                                                  .B = 1 << k,
                                                  .prefill_s = 0.2 * (1 << k),
                                                  .prefill_token_s = 0.0015 * (1 << k),
                                                  .decode_s = 0.02 + 0.004 * ((1 << k) - 1),
                                                  .decode_token_s = 2e-5 * (1 << k) };
    return (struct spot_job_serve){ .is_given = true,
                                    .gpus = 1,
                                    .gpus_min = 1,
                                    .layers = 1,
                                    .stage_layers = 1,
                                    .max_batch = BATCH,
                                    .factor = 1,
                                    .prompt_token = 100,
                                    .output_token = 60,
                                    .cell = truth_cell,
                                    .n_cell = 3,
                                    .spread = has_spread ? truth_spread : NULL,
                                    .n_spread = has_spread ? 7 : 0 };
}

static struct spot_load draw_load(double gap_s)
{
    struct spot_load load = { 0 };
    struct spot_rng rng;
    double time_s = 0;

    spot_rng_init(&rng, 8, 0);
    for (int i = 0; i < N; i++) {
        time_s += -gap_s * log(1 - spot_rng_unit(&rng));
        spot_load_add(&load, time_s, 20 + (int32_t)spot_rng_below(&rng, 160),
                      20 + (int32_t)spot_rng_below(&rng, 80), NULL);
    }
    return load;
}

struct law {
    struct spot_serve_batches b;
    struct spot_serve_shape shape;
};

static struct spot_batch_time time_batch(void *user, const size_t *request, size_t n)
{
    const struct law *law = user;

    return spot_serve_batch_time(&law->b, &law->shape, request, n);
}

/* e2e [N], sorted if `sample` is NULL; else also what a log would say. */
static void play(const struct spot_job_serve *serve, const struct spot_load *load,
                 struct spot_serve_sample *sample, double *e2e)
{
    const struct spot_serve_queue_rule rule = { .batching = SPOT_BATCH_PASSES,
                                                .sharing = serve->sharing,
                                                .n_sharing = serve->n_sharing };
    struct spot_serve_queue *q = spot_serve_queue_new(load, &rule);
    struct law law = {
        { .serve = serve, .load = load, .served = spot_serve_queue_served(q), .seed = 4 },
        { 1, 1, BATCH, 1, 1 },
    };
    const struct spot_replica_law replica = { time_batch, &law, (size_t)serve->max_batch };
    const struct spot_served *served;
    struct spot_serve_totals totals;

    for (int i = 0; i < REPLICAS; i++)
        spot_serve_queue_add(q, &replica);
    spot_serve_queue_run(q, INFINITY);
    served = spot_serve_queue_finish(q, &totals);
    for (size_t k = 0; k < N; k++) {
        e2e[k] = served[k].end_s - load->time_s[k];
        if (sample)
            sample[k] = (struct spot_serve_sample){ load->time_s[k],
                                                    0,
                                                    served[k].first_token_s - load->time_s[k],
                                                    e2e[k],
                                                    load->prompt_token[k],
                                                    load->output_token[k] };
    }
    spot_serve_queue_free(q);
    if (!sample)
        qsort(e2e, N, sizeof(*e2e), spot_num_compare);
}

static int fit(struct spot_job_serve *serve, const struct spot_serve_sample *sample, size_t n,
               int64_t replicas, int64_t max_batch, struct spot_err *err)
{
    const struct spot_serve_logged logged = { sample, n, replicas, max_batch, replicas > 1 };

    return spot_serve_fit(serve, &logged, err);
}

static void check_near(const char *what, double got, double want, double tol)
{
    ck_assert_msg(fabs(got - want) <= tol * want, "%s: %.6g, expected %.6g", what, got, want);
}

/* Light enough that nobody queues: whoever comes is given to a replica at once. */
START_TEST(a_profile_is_found_again)
{
    const struct spot_job_serve want = truth(false);
    struct spot_load load = draw_load(1.4);
    struct spot_serve_sample *sample = spot_xcalloc(N, sizeof(*sample));
    double *e2e = spot_xcalloc(N, sizeof(*e2e));
    struct spot_job_serve got;
    const struct spot_serve_length mean = { 100, 60, 0 };
    struct spot_err err;

    play(&want, &load, sample, e2e);
    ck_assert_msg(!fit(&got, sample, N, REPLICAS, BATCH, &err), "%s", err.msg);
    ck_assert(spot_serve_knows_lengths(&got));
    for (int64_t B = 1; B <= BATCH; B *= 2) {
        const struct spot_serve_shape shape = { 1, 1, B, 1, 1 };
        struct spot_serve_time a, b;

        ck_assert_int_eq(spot_serve_time_of(&want, &shape, &mean, &a), 0);
        ck_assert_int_eq(spot_serve_time_of(&got, &shape, &mean, &b), 0);
        check_near("a token", b.decode_s, a.decode_s, B == 1 ? 0.05 : 0.15);
        check_near("a prompt", b.prefill_s, a.prefill_s, 0.1);
    }
    check_near("prompt slope", got.cell[0].prefill_token_s, 0.0015, 0.1);
    check_near("least of the spread", got.spread[1], 1, 0.15);
    spot_job_serve_release(&got);
    spot_load_release(&load), free(sample), free(e2e);
}
END_TEST

/* Prompts that join take another part of what they take alone, and two at work slow each other. */
START_TEST(company_and_sharing_are_found_again)
{
    static const double joins[] = { 0.5, 1, 1.4 };
    static double sharing[] = { 1, 1.4 };
    struct spot_job_serve want = truth(false), got;
    struct spot_load load = draw_load(1.4);
    struct spot_serve_sample *sample = spot_xcalloc(N, sizeof(*sample));
    double *e2e = spot_xcalloc(N, sizeof(*e2e));
    struct spot_err err;

    for (int k = 0; k < 3; k++)
        truth_cell[k].join = joins[_i];
    want.sharing = sharing;
    want.n_sharing = 2;
    play(&want, &load, sample, e2e);
    ck_assert_msg(!fit(&got, sample, N, REPLICAS, BATCH, &err), "%s", err.msg);
    check_near("a token", got.cell[0].decode_s * got.spread[20], want.cell[0].decode_s, 0.1);
    check_near("a prompt that joins", got.cell[1].join, joins[_i], 0.12);
    ck_assert_uint_eq(got.n_sharing, 2);
    ck_assert_double_eq(got.sharing[0], 1);
    check_near("two at work", got.sharing[1], 1.4, 0.07);
    spot_job_serve_release(&got);
    spot_load_release(&load), free(sample), free(e2e);
}
END_TEST

/* Where all are alike no slope is seen, and what tells company from being alone is kept. */
START_TEST(company_is_found_where_all_requests_are_alike)
{
    struct spot_job_serve want = truth(false), got;
    struct spot_load load = draw_load(1.4);
    struct spot_serve_sample *sample = spot_xcalloc(N, sizeof(*sample));
    double *e2e = spot_xcalloc(N, sizeof(*e2e));
    struct spot_err err;

    for (int k = 0; k < 3; k++)
        truth_cell[k].join = 0.5;
    for (int i = 0; i < N; i++) {
        load.prompt_token[i] = 100;
        load.output_token[i] = 60;
    }
    play(&want, &load, sample, e2e);
    ck_assert_msg(!fit(&got, sample, N, REPLICAS, BATCH, &err), "%s", err.msg);
    ck_assert(!spot_serve_knows_lengths(&got));
    check_near("a prompt that joins", got.cell[1].join, 0.5, 0.12);
    spot_job_serve_release(&got);
    spot_load_release(&load), free(sample), free(e2e);
}
END_TEST

/* A log tells what prompts take one by one; cut into parts, a batch is no quicker than that. */
START_TEST(parts_of_a_batch_add_up)
{
    const struct spot_job_serve want = truth(false);
    struct spot_load load = draw_load(1.4);
    struct spot_serve_sample *sample = spot_xcalloc(N, sizeof(*sample));
    double *e2e = spot_xcalloc(N, sizeof(*e2e));
    struct spot_job_serve got;
    struct spot_serve_time one, parts;
    struct spot_err err;

    play(&want, &load, sample, e2e);
    ck_assert_msg(!fit(&got, sample, N, REPLICAS, BATCH, &err), "%s", err.msg);
    ck_assert(!spot_serve_time(&got, &(struct spot_serve_shape){ 1, 1, 1, 1, 1 }, &one));
    for (int64_t m = 2; m <= BATCH; m *= 2) {
        ck_assert(!spot_serve_time(&got, &(struct spot_serve_shape){ 1, 1, m, m, 1 }, &parts));
        check_near("prompts in parts", parts.prefill_s, (double)m * one.prefill_s, 1e-9);
    }
    spot_job_serve_release(&got);
    spot_load_release(&load), free(sample), free(e2e);
}
END_TEST

/* What was found from one load plays another, twice as dense, as the truth does. */
START_TEST(what_was_found_plays_another_load)
{
    const struct spot_job_serve want = truth(true);
    struct spot_load light = draw_load(1.4), dense = draw_load(0.9);
    struct spot_serve_sample *sample = spot_xcalloc(N, sizeof(*sample));
    double *was = spot_xcalloc(N, sizeof(*was)), *is = spot_xcalloc(N, sizeof(*is));
    struct spot_job_serve got;
    struct spot_err err;

    play(&want, &light, sample, was);
    ck_assert_msg(!fit(&got, sample, N, REPLICAS, BATCH, &err), "%s", err.msg);
    play(&want, &dense, NULL, was);
    play(&got, &dense, NULL, is);
    check_near("P50", is[N / 2], was[N / 2], 0.1);
    check_near("P99", is[N * 99 / 100], was[N * 99 / 100], 0.15);
    spot_job_serve_release(&got);
    spot_load_release(&light), spot_load_release(&dense);
    free(sample), free(was), free(is);
}
END_TEST

START_TEST(one_length_gives_no_slopes_and_few_requests_none_at_all)
{
    struct spot_serve_sample sample[20];
    struct spot_job_serve got;
    struct spot_err err = { 0 };

    for (int i = 0; i < 20; i++)
        sample[i] = (struct spot_serve_sample){ 10. * i, 0, 1, 1 + 0.1 * 9, 50, 10 };
    ck_assert_int_eq(fit(&got, sample, 20, 1, 1, &err), 0);
    ck_assert(!spot_serve_knows_lengths(&got));
    check_near("a token", got.cell[0].decode_s, 0.1, 1e-6);
    check_near("a prompt", got.cell[0].prefill_s, 0.9, 1e-6);
    check_near("spread", got.spread[0], 1, 1e-6);
    spot_job_serve_release(&got);
    for (int i = 0; i < 20; i++)
        sample[i].output_token = 1;
    ck_assert_int_eq(fit(&got, sample, 20, 1, 1, &err), -1);
    ck_assert_str_eq(err.msg, "0 requests with two tokens or more, expected at least 8");
}
END_TEST

int main(void)
{
    TCase *const tcase = tcase_create("fit");

    tcase_add_loop_test(tcase, company_and_sharing_are_found_again, 0, 3);
    add_tests(tcase);
    return run_case("serve_fit", tcase);
}
