/* SPDX-License-Identifier: MIT */
/* Goal: the clock of serving. Oracles: Erlang's C and Pollaczek and Khinchine's formula, a plain
 * recursion over batches, sums by hand for replicas that pause and go; a million requests
 * against a second way to count them. Little's law is asserted in each run. */
#include <math.h>
#include <stdlib.h>

#include "common/rng.h"
#include "common/xalloc.h"
#include "sim/serve_queue.h"
#include "suite.h"
#include "trace/load_generate.h"

static const struct spot_serve_queue_rule shared = { .batching = SPOT_BATCH_SHARED };

/* What one request takes, apart from the others. */
struct service {
    double *time_s; /* [requests] */
};

static struct spot_batch_time of_request(void *user, const size_t *request, size_t n)
{
    const struct service *s = user;

    ck_assert_uint_eq(n, 1);
    return (struct spot_batch_time){ .first_s = s->time_s[request[0]] };
}

static struct spot_load arrivals(double rate, size_t n, uint64_t seed)
{
    const struct spot_load_dist law = { .arrival = { .rate_per_s = rate },
                                        .prompt = { .token = 1 },
                                        .output = { .token = 1 } };
    struct spot_load load;
    struct spot_err err;

    ck_assert_int_eq(spot_load_generate(&load, &law, INFINITY, n, seed, &err), 0);
    return load;
}

/* The mean wait before service of n requests by c replicas. */
static double mean_wait(const struct spot_load *load, const struct service *s, size_t c)
{
    const struct spot_replica_law law = { of_request, (void *)(uintptr_t)s, 1 };
    struct spot_serve_queue *q = spot_serve_queue_new(load, &shared);
    struct spot_serve_totals t;
    double service_s = 0, wait_s;

    for (size_t i = 0; i < c; i++)
        spot_serve_queue_add(q, &law);
    spot_serve_queue_run(q, INFINITY);
    spot_serve_queue_finish(q, &t);
    ck_assert_uint_eq(t.finished, load->n);
    for (size_t i = 0; i < load->n; i++)
        service_s += s->time_s[i];
    ck_assert_double_eq_tol(t.busy_s, service_s, 1e-6 * service_s);
    wait_s = (t.in_system_s - service_s) / (double)load->n;
    spot_serve_queue_free(q);
    return wait_s;
}

START_TEST(exponential_service_waits_as_erlang_says)
{
    static const struct {
        size_t c;
        double rate, tolerance;
    } row[] = { { 1, 0.5, 0.03 }, { 1, 0.8, 0.15 }, { 3, 2.4, 0.05 }, { 10, 8, 0.02 } };
    const size_t n = is_long() ? 1000000 : 250000; /* half the error of a quarter */

    for (size_t k = 0; k < sizeof(row) / sizeof(*row); k++) {
        const double a = row[k].rate, rho = a / (double)row[k].c;
        struct spot_load load = arrivals(a, n, 3 + k);
        struct service s = { spot_xcalloc(load.n, sizeof(*s.time_s)) };
        double term = 1, sum = 0, wait;
        struct spot_rng rng;

        spot_rng_init(&rng, 5, k);
        for (size_t i = 0; i < load.n; i++)
            s.time_s[i] = -log1p(-spot_rng_unit(&rng));
        for (size_t i = 0; i < row[k].c; i++) { /* sum of a^i / i! */
            sum += term;
            term *= a / (double)(i + 1);
        }
        wait = term / (1 - rho) / (sum + term / (1 - rho)) / ((double)row[k].c - a);
        ck_assert_double_eq_tol(mean_wait(&load, &s, row[k].c), wait,
                                row[k].tolerance * (is_long() ? 1 : 2));
        free(s.time_s);
        spot_load_release(&load);
    }
}
END_TEST

START_TEST(any_service_of_one_replica_waits_as_pollaczek_and_khinchine_say)
{
    static const double sigma[] = { 0, 0.5, 1 }; /* log-normal of mean 1; 0: a constant */

    for (size_t k = 0; k < 3; k++) {
        struct spot_load load = arrivals(0.6, is_long() ? 1000000 : 250000, 11 + k);
        struct service s = { spot_xcalloc(load.n, sizeof(*s.time_s)) };
        const double square = exp(sigma[k] * sigma[k]); /* mean of the square */
        const double wait = 0.6 * square / 2 / (1 - 0.6);
        struct spot_rng rng;

        spot_rng_init(&rng, 6, k);
        for (size_t i = 0; i < load.n; i++)
            s.time_s[i] = exp(sigma[k] * spot_rng_normal(&rng) - sigma[k] * sigma[k] / 2);
        ck_assert_double_eq_tol(mean_wait(&load, &s, 1), wait, (is_long() ? 0.03 : 0.06) * wait);
        free(s.time_s);
        spot_load_release(&load);
    }
}
END_TEST

/* n requests take 1 + n / 4 seconds to their first token, .5 s a token. */
static struct spot_batch_time of_batch(void *user, const size_t *request, size_t n)
{
    (void)request;
    return (struct spot_batch_time){ .first_s = 1 + (double)n / 4,
                                     .each_s = 0.5 * (user ? *(double *)user : 1) };
}

/* One replica that takes all that wait, up to 4: the k-th batch by recursion. */
START_TEST(batches_follow_a_plain_recursion)
{
    struct spot_load load = arrivals(0.9, 50000, 8);
    const struct spot_replica_law law = { of_batch, NULL, 4 };

    for (int power = 0; power < 2; power++) {
        const struct spot_serve_queue_rule rule = { .is_power_of_two = power };
        struct spot_serve_queue *q = spot_serve_queue_new(&load, &rule);
        struct spot_serve_totals t;
        const struct spot_served *served;
        double clock = 0;

        spot_serve_queue_add(q, &law);
        spot_serve_queue_run(q, INFINITY);
        served = spot_serve_queue_finish(q, &t);
        for (size_t i = 0, n; i < load.n; i += n) {
            clock = fmax(clock, load.time_s[i]);
            for (n = 1; n < 4 && i + n < load.n && load.time_s[i + n] <= clock; n++)
                ;
            n = power && n == 3 ? 2 : n;
            clock += 1 + (double)n / 4;
            for (size_t k = i; k < i + n; k++) {
                ck_assert_double_eq_tol(served[k].end_s, clock, 1e-6);
                ck_assert_double_eq_tol(served[k].first_token_s, clock, 1e-6);
            }
        }
        spot_serve_queue_free(q);
    }
    spot_load_release(&load);
}
END_TEST

static struct spot_load by_hand(const double *time_s, size_t n, int32_t tokens)
{
    struct spot_load load = { 0 };

    for (size_t i = 0; i < n; i++)
        spot_load_add(&load, time_s[i], 10, tokens, NULL);
    return load;
}

START_TEST(a_pause_keeps_whole_tokens)
{
    static const double at[] = { 0, 0 };
    struct spot_load load = by_hand(at, 2, 11);
    const struct spot_replica_law law = { of_batch, NULL, 2 };
    struct spot_serve_queue *q = spot_serve_queue_new(&load, &shared);
    double slow = 2;
    const struct spot_replica_law slower = { of_batch, &slow, 2 };
    struct spot_serve_totals t;
    const struct spot_served *s;
    size_t a, idle;

    spot_serve_queue_run(q, 0); /* both are there: one batch */
    a = spot_serve_queue_add(q, &law);
    idle = spot_serve_queue_add(q, &law);
    spot_serve_queue_run(q, 3.7); /* first token at 1.5, then 4 more at 2, 2.5, 3, 3.5 */
    spot_serve_queue_pause(q, a);
    spot_serve_queue_pause(q, idle);
    ck_assert_int_eq(spot_serve_queue_progress(q, a), 5);
    ck_assert_int_eq(spot_serve_queue_progress(q, idle), -1);
    spot_serve_queue_run(q, 10);
    spot_serve_queue_resume(q, a, &slower); /* 6 tokens left, a second each */
    spot_serve_queue_run(q, INFINITY);
    s = spot_serve_queue_finish(q, &t);
    ck_assert_double_eq_tol(s[0].first_token_s, 1.5, 1e-12);
    ck_assert_double_eq_tol(s[1].end_s, 16, 1e-12);
    ck_assert_uint_eq(t.repeated, 0);
    ck_assert_double_eq_tol(t.busy_s, 3.7 + 6, 1e-12);
    spot_serve_queue_free(q);
    spot_load_release(&load);
}
END_TEST

START_TEST(a_prompt_that_was_not_done_is_done_again_and_not_counted_as_repeated)
{
    static const double at[] = { 0 };
    struct spot_load load = by_hand(at, 1, 3);
    const struct spot_replica_law law = { of_batch, NULL, 1 };
    struct spot_serve_queue *q = spot_serve_queue_new(&load, &shared);
    struct spot_serve_totals t;
    const struct spot_served *s;

    spot_serve_queue_add(q, &law);
    spot_serve_queue_run(q, 1);
    spot_serve_queue_pause(q, 0);
    ck_assert_int_eq(spot_serve_queue_progress(q, 0), -1);
    spot_serve_queue_resume(q, 0, NULL);
    spot_serve_queue_run(q, INFINITY);
    s = spot_serve_queue_finish(q, &t);
    ck_assert_double_eq_tol(s[0].first_token_s, 2.25, 1e-12);
    ck_assert_double_eq_tol(s[0].end_s, 3.25, 1e-12);
    ck_assert_uint_eq(t.repeated, 0);
    spot_serve_queue_free(q);
    spot_load_release(&load);
}
END_TEST

START_TEST(what_a_lost_replica_was_answering_comes_before_what_came_later)
{
    static const double at[] = { 0, 1, 2, 3 };
    struct spot_load load = by_hand(at, 4, 3);
    const struct spot_replica_law law = { of_batch, NULL, 1 };
    struct spot_serve_queue *q = spot_serve_queue_new(&load, &shared);
    struct spot_serve_totals t;
    const struct spot_served *s;

    spot_serve_queue_add(q, &law); /* 0: from 0 to 2.25 */
    spot_serve_queue_run(q, 0.5);
    spot_serve_queue_add(q, &law); /* 1: from 1 to 3.25 */
    spot_serve_queue_run(q, 2.1);
    spot_serve_queue_lose(q, 0); /* request 0 had 2 of its 3 tokens, the first at 1.25 */
    spot_serve_queue_run(q, INFINITY);
    s = spot_serve_queue_finish(q, &t);
    ck_assert_double_eq_tol(s[1].end_s, 3.25, 1e-12);
    ck_assert_double_eq_tol(s[0].end_s, 5.5, 1e-12); /* before 2 and 3 */
    ck_assert_double_eq_tol(s[2].end_s, 7.75, 1e-12);
    ck_assert_double_eq_tol(s[0].first_token_s, 1.25, 1e-12);
    ck_assert_uint_eq(s[0].repeats, 1);
    ck_assert_uint_eq(t.repeated, 1);
    spot_serve_queue_free(q);
    spot_load_release(&load);
}
END_TEST

START_TEST(without_replicas_all_wait_and_are_lost)
{
    static const double at[] = { 0, 1, 2 };
    struct spot_load load = by_hand(at, 3, 3);
    const struct spot_replica_law law = { of_batch, NULL, 1 };
    struct spot_serve_queue *q = spot_serve_queue_new(&load, &shared);
    struct spot_serve_totals t;

    spot_serve_queue_add(q, &law);
    spot_serve_queue_lose(q, 0);
    spot_serve_queue_run(q, 10);
    spot_serve_queue_finish(q, &t);
    ck_assert_uint_eq(t.finished, 0);
    ck_assert_uint_eq(t.lost, 3);
    ck_assert_double_eq_tol(t.in_system_s, 10 + 9 + 8, 1e-12);
    spot_serve_queue_free(q);
    spot_load_release(&load);
}
END_TEST

/* Pools: whoever comes goes to the least filled and stays there. */
START_TEST(pools_hold_requests_at_their_replica)
{
    static const double at[] = { 0, 0.1, 0.2, 0.3, 0.4 };
    struct spot_load load = by_hand(at, 5, 1);
    const struct spot_serve_queue_rule rule = { .batching = SPOT_BATCH_POOLS, .pool_max = 2 };
    const struct spot_replica_law law = { of_batch, NULL, 4 };
    struct spot_serve_queue *q = spot_serve_queue_new(&load, &rule);
    struct spot_serve_totals t;
    const struct spot_served *s;

    spot_serve_queue_add(q, &law);
    spot_serve_queue_add(q, &law);
    spot_serve_queue_run(q, INFINITY);
    s = spot_serve_queue_finish(q, &t);
    ck_assert_double_eq_tol(s[0].end_s, 1.25, 1e-12);
    ck_assert_double_eq_tol(s[1].end_s, 1.35, 1e-12);
    /* 2 waited at replica 0 and goes alone; 4 found no room before 1.25, and then waits there */
    ck_assert_double_eq_tol(s[2].end_s, 2.5, 1e-12);
    ck_assert_double_eq_tol(s[3].end_s, 2.6, 1e-12);
    ck_assert_double_eq_tol(s[4].end_s, 3.75, 1e-12);
    spot_serve_queue_free(q);
    spot_load_release(&load);
}
END_TEST

/* Once a pool has room, all who wait go there, as far as they are a batch. */
START_TEST(bursts_go_to_a_pool_beyond_its_bound)
{
    static const double at[] = { 0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7 };
    static const double end_s[] = { 1.25, 2.75, 2.75, 4.75, 4.75, 4.75, 4.75, 6 };
    struct spot_load load = by_hand(at, 8, 1);
    const struct spot_serve_queue_rule rule = { .batching = SPOT_BATCH_BURSTS,
                                                .pool_max = 4,
                                                .is_power_of_two = true };
    const struct spot_replica_law law = { of_batch, NULL, 4 };
    struct spot_serve_queue *q = spot_serve_queue_new(&load, &rule);
    struct spot_serve_totals t;
    const struct spot_served *s;

    spot_serve_queue_add(q, &law);
    spot_serve_queue_run(q, INFINITY);
    s = spot_serve_queue_finish(q, &t);
    /* 0 alone; two of the three that waited here, and the last four come; four of five; one */
    for (size_t i = 0; i < 8; i++)
        ck_assert_double_eq_tol(s[i].end_s, end_s[i], 1e-12);
    spot_serve_queue_free(q);
    spot_load_release(&load);
}
END_TEST

/* Any order of what may happen: nobody is lost while a replica is left, or answered twice. */
START_TEST(nobody_is_lost_whatever_happens_to_replicas)
{
    for (uint64_t seed = 0; seed < 40; seed++) {
        struct spot_load load = arrivals(1.5, 2000, seed);
        const struct spot_serve_queue_rule rule = { .batching = seed % 3,
                                                    .pool_max = 4 + seed % 5,
                                                    .is_power_of_two = seed & 2 };
        const struct spot_replica_law law = { of_batch, NULL, 1 + seed % 4 };
        struct spot_serve_queue *q = spot_serve_queue_new(&load, &rule);
        struct spot_serve_totals t;
        const struct spot_served *s;
        enum { ALIVE = 1, STILL } state[512] = { 0 };
        struct spot_rng rng;
        size_t n = 0;
        double now_s = 0;

        spot_rng_init(&rng, seed, 1);
        for (int i = 0; i < 400; i++) {
            const size_t k = n ? spot_rng_below(&rng, n) : 0;

            spot_serve_queue_run(q, now_s += 3 * spot_rng_unit(&rng));
            switch (spot_rng_below(&rng, 4)) {
            case 0:
                state[spot_serve_queue_add(q, &law)] = ALIVE;
                n++;
                break;
            case 1:
                if (state[k] == ALIVE) {
                    spot_serve_queue_pause(q, k);
                    state[k] = STILL;
                }
                break;
            case 2:
                if (state[k] == STILL) {
                    spot_serve_queue_resume(q, k, NULL);
                    state[k] = ALIVE;
                }
                break;
            default:
                if (n && state[k]) {
                    spot_serve_queue_lose(q, k);
                    state[k] = 0;
                }
            }
        }
        for (size_t k = 0; k < n; k++)
            if (state[k] == STILL)
                spot_serve_queue_resume(q, k, NULL);
        spot_serve_queue_add(q, &law);
        spot_serve_queue_run(q, INFINITY);
        s = spot_serve_queue_finish(q, &t);
        ck_assert_uint_eq(t.finished, load.n);
        for (size_t i = 0; i < load.n; i++)
            ck_assert(s[i].first_token_s <= s[i].end_s &&
                      s[i].first_token_s >= load.time_s[i] + 1.25 - 1e-9);
        spot_serve_queue_free(q);
        spot_load_release(&load);
    }
}
END_TEST

/* Batches that are not full begin two seconds apart. */
START_TEST(replicas_that_are_paced_begin_in_turn)
{
    double nothing = 0, last_s = -INFINITY;
    const struct spot_replica_law law = { of_batch, &nothing, 64 };
    size_t n_paced = 0;
    struct spot_load load = { 0 };
    struct spot_serve_queue *q;
    const struct spot_served *served;
    struct spot_serve_totals t;

    for (int i = 0; i < 300; i++)
        spot_load_add(&load, i * 0.1, 1, 1, NULL);
    q = spot_serve_queue_new(&load, &shared);
    spot_serve_queue_pace(q, 2);
    spot_serve_queue_add(q, &law);
    spot_serve_queue_add(q, &law);
    spot_serve_queue_run(q, INFINITY);
    served = spot_serve_queue_finish(q, &t);
    ck_assert_uint_eq(t.finished, load.n);
    for (size_t i = 0, n; i < load.n; i += n) { /* batch after batch, where each began */
        double began_s;

        for (n = 1; i + n < load.n && served[i + n].end_s == served[i].end_s; n++)
            ;
        began_s = served[i].end_s - 1 - (double)n / 4;
        if (n < 64 && isfinite(last_s)) {
            ck_assert(began_s >= last_s + 2 - 1e-9);
            n_paced++;
        }
        last_s = began_s;
    }
    ck_assert_uint_gt(n_paced, 5);
    ck_assert_uint_eq(spot_serve_queue_waiting(q), 0);
    ck_assert(spot_serve_queue_is_idle(q, 0) && spot_serve_queue_is_idle(q, 1));
    spot_serve_queue_free(q);
    spot_load_release(&load);
}
END_TEST

START_TEST(a_drained_replica_ends_its_batch_and_takes_no_other)
{
    const struct spot_replica_law law = { of_batch, NULL, 1 };
    struct spot_load load = { 0 };
    struct spot_serve_queue *q;
    struct spot_serve_totals t;

    for (int i = 0; i < 4; i++)
        spot_load_add(&load, 0, 1, 1, NULL);
    q = spot_serve_queue_new(&load, &shared);
    spot_serve_queue_add(q, &law);
    spot_serve_queue_add(q, &law);
    spot_serve_queue_run(q, 0.5); /* each has one, that takes 1.25 s */
    spot_serve_queue_drain(q, 0, true);
    ck_assert(!spot_serve_queue_is_idle(q, 0));
    ck_assert_uint_eq(spot_serve_queue_waiting(q), 2);
    spot_serve_queue_run(q, 1.3);
    ck_assert(spot_serve_queue_is_idle(q, 0) && !spot_serve_queue_is_idle(q, 1));
    spot_serve_queue_lose(q, 0);
    spot_serve_queue_run(q, INFINITY);
    spot_serve_queue_finish(q, &t);
    ck_assert_uint_eq(t.finished, 4);
    ck_assert_uint_eq(t.repeated, 0);
    ck_assert_double_eq_tol(t.end_s, 3 * 1.25, 1e-9);
    spot_serve_queue_free(q);
    spot_load_release(&load);
}
END_TEST

int main(void)
{
    return run_suite("serve_queue", add_tests(tcase_create("serve_queue")));
}
