/* SPDX-License-Identifier: MIT */
/* Goal: of a forecast, the usual level and the newest value that one is believed whose past is
 * best, and can be another later. Oracle: the same weights from scratch, by the formula. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/rng.h"
#include "common/xalloc.h"
#include "forecast/gate.h"
#include "forecast/pmf.h"
#include "suite.h"

enum { CAP = 6, H = SPOT_GATE_STEPS, W = CAP + 1, N = 400 };

/* A forecast that is sure of `k` in every step. */
static void sure(int k, double *prob)
{
    memset(prob, 0, (size_t)H * W * sizeof(*prob));
    for (int h = 0; h < H; h++)
        prob[h * W + k] = 1;
}

/* Feed y[0..n), with a forecast of forecast[t] after each, and the mixture after the last. */
static void play(const int *y, const int *forecast, int n, double *prob)
{
    struct spot_fc_gate *gate = spot_xcalloc(1, spot_fc_gate_byte(CAP));

    for (int t = 0; t < n; t++) {
        const struct spot_fc_past past = { y, (size_t)t + 1 };

        spot_fc_gate_observe(gate, CAP, H, &past);
        ck_assert(spot_fc_gate_is_sound(gate));
        sure(forecast[t], prob);
        spot_fc_gate_keep(gate, CAP, H, 1, prob);
        if (t == n - 1)
            spot_fc_gate_apply(gate, CAP, H, &past, prob);
    }
    free(gate);
}

static void usual(const int *y, int n, double *level)
{
    const int first = n > SPOT_GATE_USUAL ? n - SPOT_GATE_USUAL : 0;

    memset(level, 0, W * sizeof(*level));
    for (int i = first; i < n; i++)
        level[y[i]] += 1. / (n - first);
}

/* Counts about a level, and forecasts that are right, of a count too many, or anything. */
static void draw(uint64_t seed, int *y, int *forecast)
{
    struct spot_rng rng;

    spot_rng_init(&rng, seed, 4);
    for (int t = 0; t < N; t++) {
        const int third = 3 * t / N;

        y[t] = spot_rng_below(&rng, 3) ? 4 : (int)spot_rng_below(&rng, W);
        forecast[t] = third == 0 ? 4 : third == 1 ? 5 : (int)spot_rng_below(&rng, W);
    }
}

START_TEST(weights_are_those_of_the_formula)
{
    static const double first[] = { .97, .02, .01 };
    static int y[N], forecast[N];
    double prob[H * W], level[W];

    draw((uint64_t)_i, y, forecast);
    for (int n = 1; n < N; n += 37) {
        play(y, forecast, n, prob);
        for (int h = 1; h <= H; h++) {
            double loss[3] = { 0 }, w[3], sum = 0, least;

            for (int t = h; t < n; t++) { /* the outcome of what was said h before */
                double of[2][W] = { { 0 } };

                of[0][forecast[t - h]] = 1;
                usual(y, t - h + 1, of[1]);
                for (int i = 0; i < 3; i++)
                    loss[i] =
                        .9995 * loss[i] +
                        .12 / h * (i < 2 ? spot_pmf_crps(of[i], CAP, y[t]) : abs(y[t] - y[t - h]));
                least = fmin(loss[0] - log(first[0]),
                             fmin(loss[1] - log(first[1]), loss[2] - log(first[2])));
                for (int i = 0; i < 3; i++)
                    loss[i] = fmin(loss[i] - least, 7 + log(first[i]));
            }
            for (int i = 0; i < 3; i++)
                sum += w[i] = first[i] * exp(-loss[i]);
            usual(y, n, level);
            for (int k = 0; k < W; k++)
                ck_assert_double_eq_tol(
                    prob[(h - 1) * W + k],
                    (w[0] * (k == forecast[n - 1]) + w[1] * level[k] + w[2] * (k == y[n - 1])) /
                        sum,
                    1e-9);
        }
    }
}
END_TEST

/* Excursions to anywhere from a usual 4; then the forecast, wrong so far, knows what comes. */
START_TEST(who_was_best_is_believed_and_can_be_another_later)
{
    static int y[3 * N], forecast[3 * N];
    struct spot_rng rng;
    double prob[H * W];

    spot_rng_init(&rng, 9, 0);
    for (int t = 0; t < 3 * N; t++) {
        y[t] = spot_rng_below(&rng, 5) ? 4 : (int)spot_rng_below(&rng, W);
        forecast[t] = 1;
    }
    play(y, forecast, 2 * N, prob);
    ck_assert_double_gt(prob[4], .7);
    ck_assert_double_lt(prob[1], .1);
    for (int t = 2 * N; t < 3 * N; t++)
        y[t] = forecast[t] = 2; /* which is the newest value, too */
    play(y, forecast, 3 * N, prob);
    ck_assert_double_gt(prob[2], .95);
}
END_TEST

START_TEST(a_state_that_cannot_be_is_refused)
{
    struct spot_fc_gate *gate = spot_xcalloc(1, spot_fc_gate_byte(CAP));

    ck_assert(spot_fc_gate_is_sound(gate));
    gate->loss[3][1] = NAN;
    ck_assert(!spot_fc_gate_is_sound(gate));
    gate->loss[3][1] = 1e9;
    ck_assert(!spot_fc_gate_is_sound(gate));
    gate->loss[3][1] = 0;
    gate->weight[5] = -1;
    ck_assert(!spot_fc_gate_is_sound(gate));
    free(gate);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    tcase_add_loop_test(tc, weights_are_those_of_the_formula, 0, 3);
    tcase_add_test(tc, who_was_best_is_believed_and_can_be_another_later);
    tcase_add_test(tc, a_state_that_cannot_be_is_refused);
    return run_suite("gate", tc);
}
