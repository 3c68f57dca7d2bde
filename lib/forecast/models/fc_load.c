/* SPDX-License-Identifier: MIT */
/* Request arrivals per interval. Half of the forecast is a mixture of negative binomials around
 * levels, trends and windows, weighted by how well they predicted the past (fc_load_mix.h). The
 * other half is one around a regression on these (fc_load_regress.h). Both are scaled by a daily or
 * weekly cycle if the history shows one. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "forecast/models/fc_load_mix.h"
#include "forecast/models/fc_load_regress.h"
#include "forecast/models/models.h"

enum { SLOTS = 48, WEEK_DAYS = 7 };

/* A cycle as factors by phase, mean 1; n = 0: none. */
struct cycle {
    int n;
    double period; /* intervals */
    double factor[SLOTS * WEEK_DAYS];
};

static double factor_at(const struct cycle *c, double t)
{
    double phase;

    if (!c->n)
        return 1;
    phase = fmod(t, c->period) / c->period;
    return c->factor[(int)(phase * c->n) % c->n];
}

/* Factors from y[n]: the mean of each slot, shrunk towards 1 with a weight of two intervals. */
static void fit_cycle(const int *y, size_t n, double period, int slots, struct cycle *c)
{
    double sum[SLOTS * WEEK_DAYS] = { 0 }, seen[SLOTS * WEEK_DAYS] = { 0 }, mean = 0;

    c->n = period < slots ? (int)period : slots;
    c->period = period;
    for (size_t i = 0; i < n; i++) {
        const int slot = (int)(fmod((double)i, period) / period * c->n) % c->n;

        sum[slot] += y[i];
        seen[slot] += 1;
        mean += y[i] / (double)n;
    }
    for (int k = 0; k < c->n; k++)
        c->factor[k] = mean > 0 ? fmax((sum[k] + 2 * mean) / (seen[k] + 2) / mean, 0.05) : 1;
}

/* Keep the cycle if, fitted on everything except the newest period, it predicts that period better
 * than the mean does: by a tenth of the squared error. */
static void keep_if_it_tells(const int *y, size_t n, double period, int slots, struct cycle *c)
{
    const size_t held = (size_t)period, n_fit = n - held;
    struct cycle trial;
    double mean = 0, flat = 0, cyclic = 0;

    if (period < 4 || n < 2 * held + held / 2)
        return;
    fit_cycle(y, n_fit, period, slots, &trial);
    for (size_t i = n_fit; i < n; i++)
        mean += y[i] / (double)held;
    for (size_t i = n_fit; i < n; i++) {
        const double told = mean * factor_at(&trial, (double)i);

        flat += (y[i] - mean) * (y[i] - mean);
        cyclic += (y[i] - told) * (y[i] - told);
    }
    if (cyclic < 0.9 * flat)
        fit_cycle(y, n, period, slots, c);
}

/* (k + size) / (mean + size), and its logarithm; 1 for Poisson, which has infinite size. */
static double grown(double k, double mean, double size)
{
    return isinf(size) ? 1 : (k + size) / (mean + size);
}

static double log_grown(double k, double mean, double size)
{
    return isinf(size) ? 0 : log1p((k - mean) / (mean + size));
}

/* ln P(k) of the negative binomial with this mean and size. Gamma functions of a large size would
 * cancel out numerically; the product of k factors does not. */
static double log_density(int k, double mean, double size)
{
    double sum = isinf(size) ? -mean : -size * log1p(mean / size);

    for (int j = 0; j < k; j++)
        sum += log_grown(j, mean, size);
    return sum + k * log(mean) - lgamma(k + 1.0);
}

/* p += weight * negative binomial, by recurrence from its middle; probability above the cap goes to
 * the cap. */
static void add_negbin(double *p, int cap, double mean, double var, double weight)
{
    const double size = var > mean * (1 + 1e-9) ? mean * mean / (var - mean) : INFINITY;
    const int middle = mean < cap ? (int)mean : cap;
    double at, start, sum = 0;

    if (mean < 1e-9) {
        p[0] += weight;
        return;
    }
    start = exp(log_density(middle, mean, size));
    at = start;
    for (int k = middle; k <= cap; k++) {
        p[k] += weight * at;
        sum += at;
        at *= grown(k, mean, size) * mean / (k + 1);
    }
    at = start;
    for (int k = middle; k > 0; k--) {
        at *= k / (grown(k - 1, mean, size) * mean);
        p[k - 1] += weight * at;
        sum += at;
    }
    p[cap] += weight * fmax(0, 1 - sum);
}

/* A negative binomial with the mean and spread of the window, the same at every step. */
void spot_negbin_predict(const struct spot_fc_spec *spec, void *state,
                         const struct spot_fc_past *past, double *prob)
{
    const struct spot_fc_past w = spot_fc_tail(spec, past);
    double mean = 0, var = 0;

    (void)state;
    for (size_t i = 0; i < w.n; i++)
        mean += (double)w.y[i] / (double)w.n;
    for (size_t i = 0; i < w.n; i++)
        var += (w.y[i] - mean) * (w.y[i] - mean) / (double)w.n;
    memset(prob, 0, (size_t)spec->horizon * ((size_t)spec->cap + 1) * sizeof(*prob));
    for (int h = 1; h <= spec->horizon; h++)
        add_negbin(spot_fc_row(spec, prob, h), spec->cap, mean, var, 1);
}

/* parts with less weight make no visible difference */
static const double weight_min = 1e-6;

void spot_load_predict(const struct spot_fc_spec *spec, void *state,
                       const struct spot_fc_past *past, double *prob)
{
    const struct spot_fc_past w = spot_fc_tail(spec, past);
    const size_t first = past->n - w.n;
    struct cycle cycle = { 0 };
    struct spot_load_part part[SPOT_LOAD_EXPERTS + 1];
    struct spot_load_mix *mix;
    double x[SPOT_FC_PAST];

    (void)state;
    keep_if_it_tells(past->y, past->n, spec->day, SLOTS, &cycle);
    keep_if_it_tells(past->y, past->n, spec->day * WEEK_DAYS, SLOTS * WEEK_DAYS, &cycle);
    for (size_t i = 0; i < w.n; i++)
        x[i] = w.y[i] / factor_at(&cycle, (double)(first + i));
    mix = spot_load_mix_new(x, w.n);
    for (int h = 1; h <= spec->horizon; h++) {
        const double f = factor_at(&cycle, (double)past->n - 1 + h);
        double *p = spot_fc_row(spec, prob, h);

        memset(p, 0, ((size_t)spec->cap + 1) * sizeof(*p));
        spot_load_mix_at(mix, h, part);
        part[SPOT_LOAD_EXPERTS] = spot_load_regress(mix, h);
        for (int k = 0; k <= SPOT_LOAD_EXPERTS; k++)
            if (part[k].weight > weight_min)
                add_negbin(p, spec->cap, f * part[k].mean, f * f * part[k].var, part[k].weight / 2);
    }
    spot_load_mix_free(mix);
}
