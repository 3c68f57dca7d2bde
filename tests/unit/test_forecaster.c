/* SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/rng.h"
#include "forecast/forecaster.h"
#include "forecast/predictor.h"
#include "peers/parcae.h"
#include "suite.h"

/* Goal: every model gives distributions whatever it is fed, from the past alone; the counting
 * models count what a direct count finds; a state restored goes on as if it had never left. */

enum { CAP = 8, H = 6, N = 400 };

/* Bursts and quiet, with losses of everything. */
static void make_series(uint64_t seed, int cap, int *y, int n)
{
    struct spot_rng rng;
    int quiet = 0;

    spot_rng_init(&rng, seed, 1);
    y[0] = cap / 2;
    for (int t = 1; t < n; t++) {
        y[t] = y[t - 1];
        if (spot_rng_unit(&rng) < (quiet < 5 ? 0.3 : 0.08)) {
            const int move = 1 + (int)spot_rng_below(&rng, 3);

            y[t] += spot_rng_unit(&rng) < 0.5 ? move : -move;
            if (spot_rng_unit(&rng) < 0.1)
                y[t] = 0;
            y[t] = y[t] < 0 ? 0 : y[t] > cap ? cap : y[t];
            quiet = 0;
        }
        quiet++;
    }
}

static struct spot_predictor *fed(const char *name, int cap, const int *y, int n)
{
    struct spot_fc_spec spec = { .cap = cap, .horizon = H };
    struct spot_err err = { 0 };
    const struct spot_forecaster *model = spot_forecaster_find(name, &spec, &err);
    struct spot_predictor *p;

    ck_assert_msg(model != NULL, "%s", err.msg);
    p = spot_predictor_new(model, &spec);
    for (int t = 0; t < n; t++)
        spot_predictor_observe(p, y[t]);
    return p;
}

static void check_dists(const char *name, const double *prob, int cap)
{
    for (int h = 0; h < H; h++) {
        double sum = 0;

        for (int k = 0; k <= cap; k++) {
            const double p = prob[h * (cap + 1) + k];

            ck_assert_msg(p >= 0 && p <= 1 + 1e-12, "%s step %d: %g", name, h + 1, p);
            sum += p;
        }
        ck_assert_msg(fabs(sum - 1) < 1e-9, "%s step %d sums to %.12g", name, h + 1, sum);
    }
}

START_TEST(every_model_gives_distributions_from_the_first_value_on)
{
    static const int caps[] = { 0, 1, 8, 300 };
    static double prob[H * 301];
    int y[N];

    const struct spot_forecaster *f;

    for (size_t k = 0; (f = spot_forecaster_at(k)); k++)
        for (int c = 0; c < 4; c++) {
            struct spot_predictor *p = fed(f->name, caps[c], y, 0);

            make_series(7, caps[c], y, 60);
            for (int t = 0; t < 60; t++) {
                spot_predictor_observe(p, y[t]);
                if (t < 12 || t % 16 == 0) {
                    spot_predictor_predict(p, prob);
                    check_dists(f->name, prob, caps[c]);
                }
            }
            spot_predictor_free(p);
        }
}
END_TEST

START_TEST(a_constant_series_is_forecast_to_stay)
{
    double prob[H * (CAP + 1)];
    int y[N];

    for (int t = 0; t < N; t++)
        y[t] = 5;
    const struct spot_forecaster *f;

    for (size_t k = 0; (f = spot_forecaster_at(k)); k++) {
        struct spot_predictor *p = fed(f->name, CAP, y, 200);

        spot_predictor_predict(p, prob);
        if (strcmp(f->name, "load") != 0 &&
            strcmp(f->name, "negbin") != 0) /* arrivals are random */
            ck_assert_msg(prob[5] > 0.97, "%s: %g", f->name, prob[5]);
        spot_predictor_free(p);
    }
}
END_TEST

/* A loss of everything that never was is rare, not impossible. */
START_TEST(the_pool_leaves_room_for_what_was_never_seen)
{
    double prob[H * (CAP + 1)];
    int y[N];
    struct spot_predictor *p;

    for (int t = 0; t < N; t++)
        y[t] = 6 + t / 9 % 2;
    p = fed("pool", CAP, y, N);
    spot_predictor_predict(p, prob);
    spot_predictor_free(p);
    for (int i = 0; i < H * (CAP + 1); i++)
        ck_assert_double_gt(prob[i], 1e-5);
    ck_assert_double_lt(prob[0] + prob[1] + prob[2], 1e-3);
}
END_TEST

START_TEST(asking_changes_nothing)
{
    double want[H * (CAP + 1)], got[H * (CAP + 1)];
    int y[N];

    make_series(8, CAP, y, N);
    const struct spot_forecaster *f;

    for (size_t k = 0; (f = spot_forecaster_at(k)); k++) {
        struct spot_predictor *quiet = fed(f->name, CAP, y, 150), *asked = fed(f->name, CAP, y, 0);

        for (int t = 0; t < 150; t++) {
            spot_predictor_observe(asked, y[t]);
            if (t % 25 == 0)
                spot_predictor_predict(asked, got);
        }
        spot_predictor_predict(quiet, want);
        spot_predictor_predict(asked, got);
        ck_assert_msg(!memcmp(want, got, sizeof(want)), "%s", f->name);
        spot_predictor_free(quiet);
        spot_predictor_free(asked);
    }
}
END_TEST

START_TEST(a_restored_state_goes_on_as_if_it_had_never_left)
{
    double want[H * (CAP + 1)], got[H * (CAP + 1)];
    int y[N];

    make_series(9, CAP, y, N);
    const struct spot_forecaster *f;

    for (size_t k = 0; (f = spot_forecaster_at(k)); k++) {
        struct spot_predictor *all = fed(f->name, CAP, y, N), *half = fed(f->name, CAP, y, N / 2);
        struct spot_predictor *rest = fed(f->name, CAP, y, 0);
        struct spot_err err = { 0 };
        char *bytes = NULL;
        size_t n_byte, n;
        FILE *out = open_memstream(&bytes, &n_byte);

        n = spot_predictor_save(half, out);
        fclose(out);
        ck_assert_uint_eq(n, n_byte);
        ck_assert_msg(!spot_predictor_restore(rest, bytes, n_byte, &err), "%s", err.msg);
        for (int t = N / 2; t < N; t++)
            spot_predictor_observe(rest, y[t]);
        spot_predictor_predict(all, want);
        spot_predictor_predict(rest, got);
        ck_assert_msg(!memcmp(want, got, sizeof(want)), "%s", f->name);
        spot_predictor_free(all);
        spot_predictor_free(half);
        spot_predictor_free(rest);
        free(bytes);
    }
}
END_TEST

START_TEST(a_state_cut_anywhere_is_refused)
{
    char *bytes = NULL;
    size_t n_byte;
    int y[N];
    struct spot_predictor *p;
    FILE *out = open_memstream(&bytes, &n_byte);

    make_series(10, CAP, y, N);
    p = fed("pool", CAP, y, 100);
    spot_predictor_save(p, out);
    fclose(out);
    spot_predictor_free(p);
    for (size_t cut = 0; cut < n_byte; cut += 1 + cut / 16) {
        struct spot_err err = { 0 };

        p = fed("pool", CAP, y, 0);
        ck_assert_int_eq(spot_predictor_restore(p, bytes, cut, &err), -1);
        ck_assert_int_eq(err.code, SPOT_EDATA);
        spot_predictor_free(p);
    }
    free(bytes);
}
END_TEST

/* Older values than are kept do not matter to a model of windows, and the ring turns cleanly. */
START_TEST(a_long_past_is_forgotten_by_models_of_windows)
{
    static int y[3 * SPOT_FC_PAST];
    double want[H * (CAP + 1)], got[H * (CAP + 1)];
    const int n = 3 * SPOT_FC_PAST - 5;
    static const char *const name[] = { "last", "arima", "ses", "empirical@240", "birthdeath" };

    make_series(11, CAP, y, n);
    for (int i = 0; i < 5; i++) {
        struct spot_predictor *all = fed(name[i], CAP, y, n);
        struct spot_predictor *tail = fed(name[i], CAP, y + n - 300, 300);

        spot_predictor_predict(all, want);
        spot_predictor_predict(tail, got);
        ck_assert_msg(!memcmp(want, got, sizeof(want)), "%s", name[i]);
        spot_predictor_free(all);
        spot_predictor_free(tail);
    }
}
END_TEST

/* One place: a chain with two states, whose powers can be written down. */
START_TEST(birthdeath_equals_powers_of_its_matrix)
{
    static double matrix[(CAP + 1) * (CAP + 1)];
    double prob[H * (CAP + 1)], row[CAP + 1] = { 0 }, next[CAP + 1];
    double died = 0.5, born = 0.5, there = 10, missing = 10;
    int y[61];
    struct spot_predictor *p;

    make_series(12, CAP, y, 61);
    p = fed("birthdeath", CAP, y, 61);
    spot_predictor_predict(p, prob);
    spot_predictor_free(p);
    for (int t = 1; t < 61; t++) {
        died += y[t] < y[t - 1] ? y[t - 1] - y[t] : 0;
        born += y[t] > y[t - 1] ? y[t] - y[t - 1] : 0;
        there += y[t - 1];
        missing += CAP - y[t - 1];
    }
    for (int a = 0; a <= CAP; a++) /* survivors, then fills: every way to get from a to b */
        for (int s = 0; s <= a; s++)
            for (int f = 0; f <= CAP - s; f++) {
                const double mu = died / there, la = born / missing;
                const double ps = tgamma(a + 1) / tgamma(s + 1) / tgamma(a - s + 1) *
                                  pow(1 - mu, s) * pow(mu, a - s);
                const double pf = tgamma(CAP - s + 1) / tgamma(f + 1) / tgamma(CAP - s - f + 1) *
                                  pow(la, f) * pow(1 - la, CAP - s - f);

                matrix[a * (CAP + 1) + s + f] += ps * pf;
            }
    row[y[60]] = 1;
    for (int h = 0; h < H; h++) {
        memset(next, 0, sizeof(next));
        for (int a = 0; a <= CAP; a++)
            for (int b = 0; b <= CAP; b++)
                next[b] += row[a] * matrix[a * (CAP + 1) + b];
        memcpy(row, next, sizeof(row));
        for (int k = 0; k <= CAP; k++)
            ck_assert_double_eq_tol(prob[h * (CAP + 1) + k], row[k], 1e-9);
    }
}
END_TEST

/* The hazard by its definition, from the whole past: events and exposures of each age class with
 * weights that fall by 1 % per later exposure of that class. */
static double hazard_by_hand(const int *y, int n, int level, int age)
{
    double events = 0.5, exposures = 20, event[40] = { 0 }, exposure[40] = { 0 };
    const int class = (int)(2 * log2(age));
    double near = 2, near_n;

    for (int t = 1, stood = 1; t < n; t++) {
        const int at = (int)(2 * log2(stood));
        const bool changed = y[t] != y[t - 1];

        if (y[t - 1] == level) {
            events += changed;
            exposures += 1;
            event[at] = 0.99 * event[at] + changed;
            exposure[at] = 0.99 * exposure[at] + 1;
        }
        stood = changed ? 1 : stood + 1;
    }
    near_n = 2 * exposures / events;
    for (int d = -2; d <= 2; d++)
        if (d && class + d >= 0) {
            near += event[class + d] / 2;
            near_n += exposure[class + d] / 2;
        }
    return fmin(0.95, (event[class] + 2) / (exposure[class] + 2 * near_n / near));
}

/* One place: the distribution is the sum over all 2^H ways to change or not. */
START_TEST(renewal_equals_all_paths_of_one_place)
{
    double prob[H * 2];
    int y[N], age = 1;
    struct spot_predictor *p;

    make_series(30 + (uint64_t)_i, 1, y, N);
    p = fed("renewal", 1, y, N);
    spot_predictor_predict(p, prob);
    spot_predictor_free(p);
    while (y[N - 1 - age] == y[N - 1])
        age++;
    for (int h = 1; h <= H; h++) {
        double up = 0;

        for (int path = 0; path < 1 << h; path++) {
            double weight = 1;
            int now = y[N - 1], stood = age;

            for (int i = 0; i < h; i++) {
                const double change = hazard_by_hand(y, N, now, stood);

                weight *= path >> i & 1 ? change : 1 - change;
                stood = path >> i & 1 ? 1 : stood + 1;
                now ^= path >> i & 1;
            }
            up += now ? weight : 0;
        }
        ck_assert_double_eq_tol(prob[h * 2 - 1], up, 1e-9);
    }
}
END_TEST

/* Runs of 5 and 60 in turn: right after a change the next one is near, later it is far, which no
 * chain on the count alone can tell. */
START_TEST(renewal_knows_that_what_has_stood_long_stays)
{
    double young[H * 2], old[H * 2];
    int y[N], n = 0;
    struct spot_predictor *p;

    for (int run = 0; n < N; run++)
        for (int i = 0; i < (run % 4 < 3 ? 5 : 60) && n < N; i++)
            y[n++] = run % 2;
    for (n = N - 61; y[n] == y[n - 1]; n--)
        ;
    p = fed("renewal", 1, y, n + 4);
    spot_predictor_predict(p, young);
    for (int i = 0; i < 30; i++)
        spot_predictor_observe(p, y[n + 3]);
    spot_predictor_predict(p, old);
    spot_predictor_free(p);
    ck_assert_double_gt(young[4 * 2 + !y[n]], 2 * old[4 * 2 + !y[n]]);
}
END_TEST

/* A series in which each count has one successor: frequencies must find it. */
START_TEST(counting_models_learn_a_fixed_cycle)
{
    static const char *const name[] = { "markov", "context", "renewal", "pool" };
    double prob[H * (CAP + 1)];
    int y[N];

    for (int t = 0; t < N; t++)
        y[t] = (t * 3) % (CAP + 1);
    for (int i = 0; i < 4; i++) {
        struct spot_predictor *p = fed(name[i], CAP, y, N);

        spot_predictor_predict(p, prob);
        ck_assert_msg(prob[(N * 3) % (CAP + 1)] > (i < 3 ? 0.8 : 0.4), "%s: %g", name[i],
                      prob[(N * 3) % (CAP + 1)]);
        spot_predictor_free(p);
    }
}
END_TEST

/* The back-off distribution by its definition, from the whole past, with none of the tables. */
static void context_by_hand(const int *y, int n, int h, double *dist)
{
    static int level[N], age[N], move[N];
    double p[2 * CAP + 1] = { [CAP] = 1 };

    for (int t = 0; t < n; t++) {
        const int change = t ? y[t] - y[t - 1] : 0, size = abs(change);

        age[t] = t && !change ? age[t - 1] + 1 : 1;
        move[t] = change ? (size == 1   ? 1
                            : size <= 3 ? 2
                                        : 3) +
                               (change > 0 ? 3 : 0)
                  : t ? move[t - 1]
                      : 0;
        level[t] = y[t] == 0 ? 0 : y[t] == CAP ? 3 : 2 * y[t] < CAP ? 1 : 2;
    }
    for (int order = 0; order < 5; order++) {
        double seen[2 * CAP + 1] = { 0 }, sum = 0, distinct = 0, escape;

        for (int t = 0; t + h < n; t++) {
            const int now = n - 1;
            const int a = (int)fmin(ceil(log2(age[t])), 7), b = (int)fmin(ceil(log2(age[now])), 7);
            const int d1 = move[t] ? (move[t] <= 3 ? 1 : 2) : 0;
            const int d2 = move[now] ? (move[now] <= 3 ? 1 : 2) : 0;
            const bool same[] = { true, level[t] == level[now], level[t] == level[now] && a == b,
                                  level[t] == level[now] && a == b && move[t] == move[now],
                                  y[t] == y[now] && a == b && d1 == d2 };

            seen[y[t + h] - y[t] + CAP] += same[order];
        }
        for (int k = 0; k <= 2 * CAP; k++) {
            sum += seen[k];
            distinct += seen[k] > 0;
        }
        escape = 2 * sqrt(h) * sqrt(distinct);
        for (int k = 0; k <= 2 * CAP && sum > 0; k++)
            p[k] = (seen[k] + escape * p[k]) / (sum + escape);
    }
    memset(dist, 0, (CAP + 1) * sizeof(*dist));
    for (int k = -CAP; k <= CAP; k++) {
        const int at = y[n - 1] + k;

        dist[at < 0 ? 0 : at > CAP ? CAP : at] += p[k + CAP];
    }
}

START_TEST(context_equals_a_direct_count_over_the_past)
{
    double prob[H * (CAP + 1)], dist[CAP + 1];
    int y[N];

    make_series(20 + (uint64_t)_i, CAP, y, N);
    for (int n = 2; n <= N; n += 57) {
        struct spot_predictor *p = fed("context", CAP, y, n);

        spot_predictor_predict(p, prob);
        spot_predictor_free(p);
        for (int h = 1; h <= H; h++) {
            context_by_hand(y, n, h, dist);
            for (int k = 0; k <= CAP; k++)
                ck_assert_double_eq_tol(prob[(h - 1) * (CAP + 1) + k], dist[k], 1e-9);
        }
    }
}
END_TEST

static const struct bad_name {
    const char *text, *message;
} bad_names[] = {
    { "polo", "unknown model 'polo'; did you mean 'pool'?" },
    { "zzzzzzzz", "unknown model 'zzzzzzzz'; there are pool, last, ma, ses, arima, "
                  "empirical, markov, birthdeath, renewal, knn, context, load, negbin, parcae" },
    { "", "unknown model ''; there are pool, last, ma, ses, arima, "
          "empirical, markov, birthdeath, renewal, knn, context, load, negbin, parcae" },
    { "arima:1:1", "'arima:1:1': expected NAME[@HISTORY], or arima:p:d:q[:c][@HISTORY]" },
    { "arima:9:1:0", "'arima:9:1:0': expected NAME[@HISTORY], or arima:p:d:q[:c][@HISTORY]" },
    { "arima:1:1:0:x", "'arima:1:1:0:x': expected NAME[@HISTORY], or arima:p:d:q[:c][@HISTORY]" },
    { "ses@0", "'ses@0': expected NAME[@HISTORY], or arima:p:d:q[:c][@HISTORY]" },
    { "ses@x", "'ses@x': expected NAME[@HISTORY], or arima:p:d:q[:c][@HISTORY]" },
    { "pool:1:1:0", "'pool:1:1:0': expected NAME[@HISTORY], or arima:p:d:q[:c][@HISTORY]" },
};

START_TEST(refuses_names_that_are_no_model)
{
    struct spot_fc_spec spec = { .horizon = 1 };
    struct spot_err err = { 0 };

    ck_assert_ptr_null(spot_forecaster_find(bad_names[_i].text, &spec, &err));
    ck_assert_str_eq(err.msg, bad_names[_i].message);
    ck_assert_int_eq(err.code, SPOT_EUSAGE);
}
END_TEST

START_TEST(reads_orders_and_histories)
{
    struct spot_fc_spec spec = { .horizon = 1 };
    struct spot_err err = { 0 };

    ck_assert_ptr_nonnull(spot_forecaster_find("arima:2:1:3:c@77", &spec, &err));
    ck_assert_int_eq(spec.ar, 2);
    ck_assert_int_eq(spec.diff, 1);
    ck_assert_int_eq(spec.ma, 3);
    ck_assert(spec.has_constant);
    ck_assert_int_eq(spec.history, 77);
    ck_assert_ptr_nonnull(spot_forecaster_find("arima", &spec, &err));
    ck_assert_int_eq(spec.ar, -1);
    ck_assert_int_eq(spec.history, 60);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    spot_forecasters_more = spot_peer_forecasters;
    tcase_add_loop_test(tc, renewal_equals_all_paths_of_one_place, 0, 3);
    tcase_add_loop_test(tc, context_equals_a_direct_count_over_the_past, 0, 3);
    tcase_add_loop_test(tc, refuses_names_that_are_no_model, 0,
                        sizeof(bad_names) / sizeof(bad_names[0]));
    add_tests(tc);
    return run_suite("forecaster", tc);
}
