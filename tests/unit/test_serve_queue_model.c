/* SPDX-License-Identifier: MIT */
/* Goal: waits by formula. Oracles: the simulator, over replicas, batches, loads and laws of
 * arrivals; Erlang's C; what a queue must do whatever its law: wait more under more load, less with
 * more replicas. */
#include <math.h>
#include <stdlib.h>

#include "common/num.h"
#include "common/xalloc.h"
#include "plan/serve_queue_model.h"
#include "sim/serve_queue.h"
#include "suite.h"
#include "trace/load_generate.h"
#include "trace/load_stats.h"

static struct spot_batch_time ten_seconds(void *user, const size_t *request, size_t n)
{
    (void)user;
    (void)request;
    (void)n;
    return (struct spot_batch_time){ .first_s = 10 };
}

static struct spot_load arrivals(enum spot_arrival_kind kind, double rate, double cv, size_t n,
                                 uint64_t seed)
{
    const struct spot_load_dist law = { .arrival = { .kind = kind, .rate_per_s = rate, .cv = cv },
                                        .prompt = { .token = 1 },
                                        .output = { .token = 1 } };
    struct spot_load load;
    struct spot_err err;

    ck_assert_int_eq(spot_load_generate(&load, &law, INFINITY, n, seed, &err), 0);
    return load;
}

/* Variance over mean of arrivals in bins of 10 s. */
static double dispersion_of(const struct spot_load *load)
{
    const size_t n = (size_t)(load->time_s[load->n - 1] / 60);
    double *count = spot_xcalloc(n, sizeof(*count)), mean = 0, square = 0;

    spot_load_count(load, 0, 60, n, count);
    for (size_t i = 0; i < n; i++) {
        mean += count[i] / (double)n;
        square += count[i] * count[i] / (double)n;
    }
    free(count);
    return (square - mean * mean) / mean;
}

/* Waits of all, sorted; free() them. */
static double *simulate(const struct spot_load *load, size_t replicas, size_t batch)
{
    const struct spot_serve_queue_rule shared = { .batching = SPOT_BATCH_SHARED };
    const struct spot_replica_law law = { ten_seconds, NULL, batch };
    struct spot_serve_queue *q = spot_serve_queue_new(load, &shared);
    double *wait = spot_xcalloc(load->n, sizeof(*wait));
    const struct spot_served *served;
    struct spot_serve_totals t;

    for (size_t i = 0; i < replicas; i++)
        spot_serve_queue_add(q, &law);
    spot_serve_queue_run(q, INFINITY);
    served = spot_serve_queue_finish(q, &t);
    for (size_t i = 0; i < load->n; i++)
        wait[i] = served[i].end_s - load->time_s[i] - 10;
    spot_serve_queue_free(q);
    qsort(wait, load->n, sizeof(*wait), spot_num_compare);
    return wait;
}

static double wait_at(const struct spot_serve_station *st, double percentile)
{
    const struct spot_serve_waits w = spot_serve_waits_of(st);

    return spot_serve_waits_percentile(&w, percentile);
}

static double mean_wait(const struct spot_serve_station *st)
{
    const struct spot_serve_waits w = spot_serve_waits_of(st);

    return spot_serve_waits_mean(&w);
}

/* The tail of a sojourn, within a third. Not of one that takes one at a time in turn (B 1, regular
 * arrivals): there nobody waits, and the model says up to a service. */
START_TEST(waits_are_those_of_the_simulator)
{
    static const size_t shape[][2] = { { 1, 1 }, { 1, 4 }, { 2, 4 }, { 3, 4 }, { 8, 4 }, { 4, 1 } };
    static const struct {
        enum spot_arrival_kind kind;
        double cv;
    } law[] = { { SPOT_ARRIVAL_POISSON, 0 },
                { SPOT_ARRIVAL_GAMMA, 0.3 },
                { SPOT_ARRIVAL_GAMMA, 3 },
                { SPOT_ARRIVAL_GAMMA, 6 } };
    static const double load_of[] = { 0.3, 0.5, 0.7, 0.85 };

    for (size_t s = 0; s < 6; s++)
        for (size_t a = 0; a < 4; a++)
            for (size_t l = 0; l < 4; l++) {
                const double rate = load_of[l] * (double)(shape[s][0] * shape[s][1]) / 10;
                struct spot_load load = arrivals(law[a].kind, rate, law[a].cv, 60000, 7);
                const struct spot_serve_station st = { .replicas = (int64_t)shape[s][0],
                                                       .batch = (int64_t)shape[s][1],
                                                       .service_s = 10,
                                                       .rate_per_s = rate,
                                                       .dispersion = dispersion_of(&load) };
                double *wait = simulate(&load, shape[s][0], shape[s][1]);
                const double ratio = (10 + wait_at(&st, 0.99)) / (10 + wait[99 * load.n / 100]);

                if (shape[s][1] > 1 || a != 1)
                    ck_assert_msg(ratio > 0.65 && ratio < 1.4,
                                  "%zu replicas of %zu at %.2f, law %zu: %.2f", shape[s][0],
                                  shape[s][1], load_of[l], a, ratio);
                free(wait);
                spot_load_release(&load);
            }
}
END_TEST

START_TEST(one_replica_waits_as_a_queue_with_constant_service_does)
{
    for (double rate = 0.2; rate < 0.95; rate += 0.1) {
        const struct spot_serve_station st = {
            .replicas = 1, .batch = 1, .service_s = 1, .rate_per_s = rate, .dispersion = 1
        };

        ck_assert_double_eq_tol(mean_wait(&st), rate / 2 / (1 - rate),
                                0.06 * (rate / 2 / (1 - rate)));
        ck_assert_double_eq_tol(spot_serve_station_busy(&st), rate, 1e-12);
    }
}
END_TEST

START_TEST(more_load_waits_longer_and_more_replicas_less)
{
    const struct spot_serve_station full = {
        .replicas = 1, .batch = 4, .service_s = 10, .rate_per_s = 0.4, .dispersion = 1
    };
    const struct spot_serve_station empty = {
        .replicas = 1, .batch = 4, .service_s = 10, .dispersion = 1
    };

    for (int64_t D = 1; D < 1025; D *= 2) {
        double last = 0;

        for (double load = 0.05; load < 1; load += 0.05) {
            struct spot_serve_station st = { .replicas = D,
                                             .batch = 4,
                                             .service_s = 10,
                                             .rate_per_s = load * (double)D * 0.4,
                                             .dispersion = 3 };
            const double wait = wait_at(&st, 0.99);

            ck_assert(isfinite(wait) && wait >= last * 0.999);
            ck_assert(wait_at(&st, 0.5) <= wait);
            last = wait;
            st.replicas *= 2;
            ck_assert(wait_at(&st, 0.99) <= wait * 1.001);
        }
    }
    ck_assert(isinf(wait_at(&full, 0.5)));
    ck_assert_double_eq(wait_at(&empty, 0.5), 0);
}
END_TEST

int main(void)
{
    return run_suite("serve_queue_model", add_tests(tcase_create("serve_queue_model")));
}
