/* SPDX-License-Identifier: MIT */
/* The published predictor of Parcae (NSDI 2024; JF-D/Parcae, efedee7), rule by rule, for
 * comparison: ARIMA(1,1,0) with a drift on the newest twelve values after three filters; its
 * forecast is rounded, clamped and scaled. Kept as released: the drift, which eleven differences
 * cannot determine; the flattening before a turn; the +-3 clamp; and penalties that are never
 * reset. Left out: the unseeded random losses that it adds to a flat forecast, which cannot be
 * reproduced. Its bounds 8 and 32 are 0 and the cap here. */
#include <math.h>

#include "forecast/arima.h"
#include "forecast/pmf.h"
#include "peers/parcae.h"

enum { N = 12, GROWTH = 3 };

struct parcae {
    double gain_scale, loss_scale; /* 0: not set yet, counts as 1 */
};

/* Where x[i] == x[i + 1 + width] and all values between differ from it, those are treated as
 * outliers. */
static void drop_outliers(int *x, int n, int width)
{
    for (int i = 0; i < n - 1 - width; i++) {
        bool is_outlier = x[i] == x[i + 1 + width];

        for (int j = i + 1; j <= i + width; j++)
            is_outlier = is_outlier && x[j] != x[i];
        for (int j = i + 1; is_outlier && j <= i + width; j++)
            x[j] = x[i];
    }
}

/* Flatten the values before the last minimum that is below both ends; if there is none, before such
 * a maximum. */
static void flatten_before_turn(int *x, int n)
{
    int lo = 0, hi = 0;

    for (int i = 1; i < n; i++) {
        lo = x[i] <= x[lo] ? i : lo;
        hi = x[i] >= x[hi] ? i : hi;
    }
    if (x[lo] < x[0] && x[lo] < x[n - 1])
        hi = lo;
    else if (!(x[hi] > x[0] && x[hi] > x[n - 1]))
        return;
    for (int i = 0; i < hi; i++)
        x[i] = x[hi];
}

static int filtered(const struct spot_fc_past *past, int x[N])
{
    const int n = past->n < N ? (int)past->n : N;

    for (int i = 0; i < n; i++)
        x[i] = past->y[past->n - (size_t)n + (size_t)i];
    for (int width = 3; width >= 1 && n == N; width--)
        drop_outliers(x, n, width);
    if (n == N)
        flatten_before_turn(x, n);
    return n;
}

static double scale_of(int move, double old)
{
    return move >= 10 ? 0.5 : move >= 5 ? 0.75 : old;
}

static size_t parcae_state_byte(const struct spot_fc_spec *spec)
{
    (void)spec;
    return sizeof(struct parcae);
}

static void parcae_observe(const struct spot_fc_spec *spec, void *state,
                           const struct spot_fc_past *past)
{
    struct parcae *s = state;
    bool rises = true, falls = true;
    int x[N];

    (void)spec;
    if (filtered(past, x) < N)
        return;
    for (int i = 1; i < N; i++) {
        rises = rises && x[i] >= x[i - 1];
        falls = falls && x[i] <= x[i - 1];
    }
    if (rises)
        s->gain_scale = scale_of(x[N - 1] - x[0], s->gain_scale);
    if (falls)
        s->loss_scale = scale_of(x[0] - x[N - 1], s->loss_scale);
}

static int clamp(double value, int lo, int hi)
{
    return value < lo ? lo : value > hi ? hi : (int)value;
}

static void parcae_predict(const struct spot_fc_spec *spec, void *state,
                           const struct spot_fc_past *past, double *prob)
{
    const struct parcae *s = state;
    double y[N], mean[SPOT_FC_HORIZON_MAX], se[SPOT_FC_HORIZON_MAX];
    const double gain_scale = s->gain_scale > 0 ? s->gain_scale : 1;
    const double loss_scale = s->loss_scale > 0 ? s->loss_scale : 1;
    struct spot_arima fit;
    int x[N], before, at, first = 0;
    const int n = filtered(past, x), now = past->y[past->n - 1];

    for (int i = 0; i < n; i++)
        y[i] = x[i];
    spot_arima_fit(&fit, y, (size_t)n, n == N ? 1 : 0, 1, 0, n == N);
    spot_arima_forecast(&fit, y, (size_t)n, spec->horizon, mean, se);
    before = at = now;
    for (int h = 1; h <= spec->horizon; h++) {
        int next = n == N ? clamp(rint(mean[h - 1]), 0, spec->cap) : now;

        if (h == 1)
            first = next;
        else
            next = clamp(next, first - GROWTH, first + GROWTH);
        at += (int)rint(gain_scale * (next > before ? next - before : 0)) -
              (int)rint(loss_scale * (next < before ? before - next : 0));
        before = next;
        spot_pmf_point(prob + (size_t)(h - 1) * ((size_t)spec->cap + 1), spec->cap, at);
    }
}

const struct spot_forecaster spot_peer_forecasters[] = {
    { .name = "parcae",
      .source = "Parcae's released pipeline, NSDI 2024",
      .state_byte = parcae_state_byte,
      .observe = parcae_observe,
      .predict = parcae_predict },
    { 0 },
};
