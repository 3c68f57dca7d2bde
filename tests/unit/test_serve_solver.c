/* SPDX-License-Identifier: MIT */
/* Goal: the grid that is worth its price. Oracles: a plain search over all shapes and counts with
 * the same model of a queue; the simulator, for what was promised; what a choice has to do when
 * prices, limits and losses change; the binomial tail for spares. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/num.h"
#include "common/rng.h"
#include "common/xalloc.h"
#include "peers/serve_peers.h"
#include "plan/serve_queue_model.h"
#include "plan/serve_solver.h"
#include "suite.h"
#include "trace/load_generate.h"

static struct spot_job_doc job;

static void load(const char *model)
{
    char path[64];
    struct spot_err err;

    snprintf(path, sizeof(path), "examples/serve/gpt-%s.json", model);
    ck_assert_msg(!spot_job_doc_load(&job, path, &err), "%s", err.msg);
}

static struct spot_serve_ask ask_of(int64_t instances, double rate)
{
    return (struct spot_serve_ask){ .serve = &job.serve,
                                    .usd_per_h = job.cost.usd_per_h,
                                    .instances = instances,
                                    .demand = { .rate_per_s = rate, .dispersion = 1 },
                                    .repair_s = 70,
                                    .switch_s = 10,
                                    .stay_s = 600 };
}

/* The least price x P99 of everything, or the least price that keeps limit_s. */
static double search(const struct spot_serve_ask *ask, double limit_s)
{
    double best = INFINITY;

    for (int64_t M = 1; M <= 16; M *= 2)
        for (int64_t P = 1; P <= job.serve.stage_layers; P++)
            for (int64_t D = 1; D * P * M <= ask->instances * job.serve.gpus; D++) {
                struct spot_serve_shape shape = { .P = P, .M = M };
                const int64_t n = (P * M + 3) / 4, each = n * 4 / (P * M);
                struct spot_serve_time t, full;
                struct spot_serve_waits waits;
                double usd, p99;
                int64_t b = 1;

                if (P * M < job.serve.gpus_min || job.serve.stage_layers % P || D % each ||
                    D / each * n > ask->instances ||
                    spot_serve_soonest(&job.serve, &shape, job.serve.max_batch, &full))
                    continue;
                for (; spot_serve_soonest(&job.serve, &shape, b, &t),
                       b < job.serve.max_batch &&
                           ask->demand.rate_per_s * t.request_s / (double)D > (double)b;)
                    b *= 2;
                waits = spot_serve_waits_of(&(struct spot_serve_station){
                    D, job.serve.max_batch, t.request_s, ask->demand.rate_per_s,
                    ask->demand.rate_per_s * t.request_s >= (double)D, ask->demand.dispersion });
                p99 = t.request_s + spot_serve_waits_percentile(&waits, 0.99);
                usd = ask->usd_per_h * (double)(D / each * n);
                if (limit_s > 0 ? p99 <= limit_s && usd < best : usd * p99 < best)
                    best = limit_s > 0 ? usd : usd * p99;
            }
    return best;
}

START_TEST(nothing_on_what_is_there_is_worth_more)
{
    static const char *const model[] = { "6.7b", "20b", "30b" };

    for (int k = 0; k < 3; k++) {
        load(model[k]);
        for (int64_t n = 4; n <= 16; n += 3)
            for (double rate = 0.1; rate < 4; rate *= 2) {
                struct spot_serve_ask ask = ask_of(n, rate);
                struct spot_serve_offer o;
                double best = search(&ask, 0);

                ck_assert_int_eq(spot_serve_offer_best(&ask, &o), 0);
                if (isfinite(best))
                    ck_assert_double_eq_tol(o.usd_per_h * o.p99_s, best, 1e-6 * best);
                else
                    ck_assert(isinf(o.e2e_s));
                ask.slo.e2e = (struct spot_serve_limit){ 0.99, 30 };
                best = search(&ask, 30);
                ck_assert_int_eq(spot_serve_offer_best(&ask, &o), 0);
                ck_assert_int_eq(o.keeps_slo, isfinite(best));
                if (o.keeps_slo)
                    ck_assert_double_eq_tol(o.usd_per_h, best, 1e-9);
            }
        spot_job_doc_release(&job);
    }
}
END_TEST

/* What is left out of the search for the best alone changes nothing of it. */
START_TEST(the_best_alone_is_the_first_of_all)
{
    static const char *const model[] = { "6.7b", "20b", "30b" };
    struct spot_serve_length length[40];
    struct spot_rng rng;

    spot_rng_init(&rng, 7, 0);
    for (int k = 0; k < 240; k++) {
        struct spot_serve_ask ask;
        struct spot_serve_offer *list, best;
        size_t n;

        load(model[k % 3]);
        ask = ask_of(1 + (int64_t)spot_rng_below(&rng, 40), exp(6 * spot_rng_unit(&rng) - 4));
        ask.demand.dispersion = spot_rng_unit(&rng) < .3 ? 1 : exp(4 * spot_rng_unit(&rng) - 1);
        ask.demand.backlog = spot_rng_unit(&rng) < .5 ? 0 : 200 * spot_rng_unit(&rng);
        ask.loss_per_s = spot_rng_unit(&rng) < .5 ? 0 : 1e-3 * spot_rng_unit(&rng);
        if (k % 4 > 1)
            ask.slo.e2e = (struct spot_serve_limit){ .95, exp(3 * spot_rng_unit(&rng) + 1) };
        if (k % 4 == 3)
            ask.slo.ttft = (struct spot_serve_limit){ .9, exp(3 * spot_rng_unit(&rng)) };
        for (size_t i = 0; i < job.serve.n_cell && k % 5 == 0; i++) {
            job.serve.cell[i].prefill_token_s = .9 * job.serve.cell[i].prefill_s / 512;
            job.serve.cell[i].decode_token_s = .2 * job.serve.cell[i].decode_s / 640;
        }
        for (size_t i = 0; i < 40; i++)
            length[i] = (struct spot_serve_length){ 1 + (int64_t)spot_rng_below(&rng, 900),
                                                    1 + (int64_t)spot_rng_below(&rng, 200), 0 };
        ask.length = length;
        ask.n_length = k % 5 ? 0 : 40;
        list = spot_serve_offers(&ask, &n);
        if (n && k % 3 == 1) { /* something runs, of the list or of any number */
            const size_t i = (size_t)spot_rng_below(&rng, n);

            ask.current = list[i].shape;
            ask.current_D = 1 + (int64_t)spot_rng_below(&rng, 6);
            free(list);
            list = spot_serve_offers(&ask, &n);
        }
        ck_assert_int_eq(spot_serve_offer_best(&ask, &best), n ? 0 : -1);
        if (n)
            ck_assert_msg(best.D == list[0].D && best.shape.P == list[0].shape.P &&
                              best.shape.M == list[0].shape.M && best.score == list[0].score &&
                              best.spares == list[0].spares && best.pace_s == list[0].pace_s,
                          "case %d: %ldx%ldx%ld", k, (long)best.D, (long)best.shape.P,
                          (long)best.shape.M);
        free(list);
        spot_job_doc_release(&job);
    }
}
END_TEST

/* What is promised for a load, played on twelve instances for ten hours: promised over had. */
static double promise_over_play(const struct spot_load *requests, const struct spot_serve_ask *ask)
{
    struct spot_serve_event event[12];
    struct spot_serve_offer o;
    struct spot_serve_result r;
    struct spot_err err;
    double *e2e = spot_xcalloc(requests->n, sizeof(*e2e)), ratio;

    for (uint32_t i = 0; i < 12; i++)
        event[i] = (struct spot_serve_event){ 0, true, i };
    ck_assert_int_eq(spot_serve_offer_best(ask, &o), 0);
    ck_assert_int_eq(
        spot_serve_play_run(&(struct spot_serve_play){ .job = &job,
                                                       .load = requests,
                                                       .event = event,
                                                       .n_event = 12,
                                                       .end_s = 36000,
                                                       .rate_per_s = ask->demand.rate_per_s,
                                                       .switch_s = 10,
                                                       .load_s = 25,
                                                       .grace_s = 30,
                                                       .boot_s = 60,
                                                       .hand_s = 1,
                                                       .seed = 1 },
                            SPOT_SERVE_SPOT, 0, &r, &err),
        0);
    for (size_t i = 0; i < requests->n; i++)
        e2e[i] = r.served[i].end_s - requests->time_s[i];
    qsort(e2e, requests->n, sizeof(*e2e), spot_num_compare);
    ratio = o.p99_s / e2e[99 * requests->n / 100];
    free(e2e);
    spot_serve_result_release(&r);
    return ratio;
}

START_TEST(latency_is_what_the_simulator_has)
{
    load("20b");
    for (double rate = 0.15; rate < 0.9; rate += is_long() ? 0.12 : 0.36) {
        const struct spot_load_dist law = { .arrival = { .rate_per_s = rate },
                                            .prompt = { .token = 512 },
                                            .output = { .token = 128 } };
        const struct spot_serve_ask ask = ask_of(12, rate);
        struct spot_load requests;
        struct spot_err err;
        double ratio;

        ck_assert_int_eq(spot_load_generate(&requests, &law, 36000, 0, 3, &err), 0);
        ratio = promise_over_play(&requests, &ask);
        ck_assert_msg(fabs(ratio - 1) < 0.3, "%.2f/s: promised over had %.2f", rate, ratio);
        spot_load_release(&requests);
    }
    spot_job_doc_release(&job);
}
END_TEST

/* The same with log-normal lengths under slopes, and with a spread beside. */
START_TEST(latency_of_lengths_that_differ_is_what_the_simulator_has)
{
    static double spread[] = { 0.8, 0.9, 1, 1.05, 1.25 };
    static struct spot_serve_length length[SPOT_SERVE_LENGTHS_MAX];

    load("20b");
    for (size_t i = 0; i < job.serve.n_cell; i++) {
        job.serve.cell[i].prefill_token_s = 0.9 * job.serve.cell[i].prefill_s / 512;
        job.serve.cell[i].decode_token_s = 0.2 * job.serve.cell[i].decode_s / 640;
    }
    for (int has_spread = 0; has_spread < 2; has_spread++) {
        job.serve.spread = has_spread ? spread : NULL;
        job.serve.n_spread = has_spread ? 5 : 0;
        for (double rate = 0.15; rate < 0.55; rate += is_long() ? 0.15 : 0.3) {
            const struct spot_load_dist law = {
                .arrival = { .rate_per_s = rate },
                .prompt = { .kind = SPOT_LENGTH_LOGNORMAL, .token = 400, .sigma = 0.7 },
                .output = { .kind = SPOT_LENGTH_LOGNORMAL, .token = 100, .sigma = 0.7 },
            };
            struct spot_serve_ask ask = ask_of(12, rate);
            struct spot_load requests;
            struct spot_err err;
            double ratio;

            ck_assert_int_eq(spot_load_generate(&requests, &law, 12000, 0, 3, &err), 0);
            ask.length = length;
            ask.n_length = SPOT_SERVE_LENGTHS_MAX;
            for (size_t i = 0; i < ask.n_length; i++)
                length[i] = (struct spot_serve_length){ requests.prompt_token[i],
                                                        requests.output_token[i], 0 };
            ratio = promise_over_play(&requests, &ask);
            ck_assert_msg(fabs(ratio - 1) < 0.35, "%.2f/s, spread %d: promised over had %.2f", rate,
                          has_spread, ratio);
            spot_load_release(&requests);
        }
    }
    job.serve.spread = NULL;
    spot_job_doc_release(&job);
}
END_TEST

START_TEST(a_tighter_limit_never_costs_less)
{
    double last = 0;

    load("20b");
    for (double limit_s = 60; limit_s > 16; limit_s -= 2) {
        struct spot_serve_ask ask = ask_of(24, 0.7);
        struct spot_serve_offer o;

        ask.slo.e2e = (struct spot_serve_limit){ 0.99, limit_s };
        ck_assert_int_eq(spot_serve_offer_best(&ask, &o), 0);
        if (!o.keeps_slo)
            break;
        ck_assert(o.e2e_s <= limit_s && o.usd_per_h >= last);
        last = o.usd_per_h;
    }
    ck_assert(last > 0);
    spot_job_doc_release(&job);
}
END_TEST

/* The fewest that losses within a repair outnumber less often than one time in a hundred. */
START_TEST(spares_are_for_losses)
{
    load("20b");
    for (double per_h = 0; per_h < 30; per_h = per_h * 3 + 0.05) {
        struct spot_serve_ask ask = ask_of(24, 0.4);
        struct spot_serve_offer o;
        double tail = 1;

        ask.loss_per_s = per_h / 3600;
        ck_assert_int_eq(spot_serve_offer_best(&ask, &o), 0);
        for (int64_t n = 0; n <= o.spares; n++) {
            const double mean = ask.loss_per_s * 70 * (double)(o.instances + n);
            double term = exp(-mean);

            tail = 1;
            for (int64_t i = 0; i <= n; i++, term *= mean / (double)i)
                tail -= term;
            ck_assert(n == o.spares || tail > 0.01); /* fewer would not do */
        }
        ck_assert(tail <= 0.01 || o.spares == 24 - o.instances);
        ck_assert_double_eq_tol(o.usd_per_h, 1.9046 * (double)(o.instances + o.spares), 1e-9);
    }
    spot_job_doc_release(&job);
}
END_TEST

START_TEST(what_runs_is_kept_unless_a_change_is_worth_it)
{
    struct spot_serve_ask ask;
    struct spot_serve_offer o, anew;

    load("20b");
    ask = ask_of(10, 0.35);
    ck_assert_int_eq(spot_serve_offer_best(&ask, &anew), 0);
    ask.current_D = 2; /* 12 % quicker for a third more: by little not as good */
    ask.current = (struct spot_serve_shape){ .P = 2, .M = 8 };
    ck_assert(anew.shape.P != 2 || anew.shape.M != 8);
    ask.stay_s = 60;
    ck_assert_int_eq(spot_serve_offer_best(&ask, &o), 0);
    ck_assert(o.is_current && o.shape.M == 8);
    ask.switch_s = 0;
    ask.current_D = 1; /* which answers .31 of .35 */
    ck_assert_int_eq(spot_serve_offer_best(&ask, &o), 0);
    ck_assert(!o.is_current);
    spot_job_doc_release(&job);
}
END_TEST

START_TEST(a_backlog_wants_more)
{
    struct spot_serve_ask ask;
    struct spot_serve_offer calm, late;

    load("20b");
    ask = ask_of(24, 0.4);
    ask.slo.e2e = (struct spot_serve_limit){ 0.99, 40 };
    ck_assert_int_eq(spot_serve_offer_best(&ask, &calm), 0);
    ask.demand.backlog = 20;
    ck_assert_int_eq(spot_serve_offer_best(&ask, &late), 0);
    ck_assert(late.request_per_s > calm.request_per_s);
    spot_job_doc_release(&job);
}
END_TEST

START_TEST(limits_are_read_and_contradictions_refused)
{
    static const char *const bad[] = {
        "",          "e2e",       "e2e=",    "p99=3s",        "e2e-p99=0",         "e2e-p100=3s",
        "e2e-p0=3s", "e2e-q9=3s", "e2e=1s,", "e2e=1s,e2e=2s", "ttft=9s,e2e-p99=3s"
    };
    struct spot_serve_slo slo;
    struct spot_err err;

    ck_assert_int_eq(spot_serve_slo_parse(&slo, "e2e-p99.9=30s,ttft-p95=2s", &err), 0);
    ck_assert_double_eq_tol(slo.e2e.percentile, 0.999, 1e-12);
    ck_assert_double_eq(slo.e2e.limit_s, 30);
    ck_assert_double_eq(slo.ttft.limit_s, 2);
    ck_assert_int_eq(spot_serve_slo_parse(&slo, "ttft:p90=1m", &err), 0);
    ck_assert_double_eq(slo.ttft.limit_s, 60);
    ck_assert_double_eq(slo.e2e.limit_s, 0);
    ck_assert_int_eq(spot_serve_slo_parse(&slo, "e2e=5", &err), 0);
    ck_assert_double_eq(slo.e2e.percentile, 0.99);
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        ck_assert_msg(spot_serve_slo_parse(&slo, bad[i], &err) == -1, "%s", bad[i]);
        ck_assert_int_eq(err.code, SPOT_EUSAGE);
    }
}
END_TEST

START_TEST(what_does_not_fit_has_no_offer)
{
    struct spot_serve_ask ask;
    struct spot_serve_offer o;

    load("20b");
    ask = ask_of(2, 0.1);
    ck_assert_int_eq(spot_serve_offer_best(&ask, &o), -1);
    spot_job_doc_release(&job);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("serve_solver");

    tcase_set_timeout(tc, 60);
    add_tests(tc);
    return run_suite("serve_solver", tc);
}
