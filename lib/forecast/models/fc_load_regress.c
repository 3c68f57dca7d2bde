/* SPDX-License-Identifier: MIT */
#include "forecast/models/fc_load_regress.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"

enum { TERMS = 3 };

static const double start[TERMS] = { 1, 0, 0 };
static const double ridge = 80; /* towards the start, in squares of a Poisson spread */
static const double keep_pair = 0.99, keep_error = 0.97; /* discount of sums, per value */
static const double prior_errors = 8;

/* Normal equations of the pairs seen so far. */
struct sums {
    double xx[TERMS][TERMS], xy[TERMS];
};

static void terms(const struct spot_load_mix *m, size_t t, int step, double x[TERMS])
{
    const double near = spot_load_mix_told(m, t, SPOT_LOAD_12, step);

    x[0] = near - spot_load_mix_told(m, t, SPOT_LOAD_60, step);
    x[1] = spot_load_mix_told(m, t, SPOT_LOAD_QUICK, step) - near;
    x[2] = spot_load_mix_told(m, t, SPOT_LOAD_TREND, step) - near;
}

static void learn(struct sums *s, const struct spot_load_mix *m, size_t then, int step, double y)
{
    const double far = spot_load_mix_told(m, then, SPOT_LOAD_60, step), unit = fmax(far, 1);
    double x[TERMS];

    terms(m, then, step, x);
    for (int i = 0; i < TERMS; i++) {
        s->xy[i] = s->xy[i] * keep_pair + x[i] * (y - far) / unit;
        for (int k = 0; k < TERMS; k++)
            s->xx[i][k] = s->xx[i][k] * keep_pair + x[i] * x[k] / unit;
    }
}

/* (XX + ridge I) b = XY + ridge start: positive definite, so no pivot is 0. */
static void solve(const struct sums *s, double b[TERMS])
{
    double a[TERMS][TERMS + 1];

    for (int i = 0; i < TERMS; i++) {
        for (int k = 0; k < TERMS; k++)
            a[i][k] = s->xx[i][k] + (i == k ? ridge : 0);
        a[i][TERMS] = s->xy[i] + ridge * start[i];
    }
    for (int i = 0; i < TERMS; i++)
        for (int row = i + 1; row < TERMS; row++)
            for (int k = TERMS; k >= i; k--)
                a[row][k] -= a[row][i] / a[i][i] * a[i][k];
    for (int i = TERMS - 1; i >= 0; i--) {
        b[i] = a[i][TERMS];
        for (int k = i + 1; k < TERMS; k++)
            b[i] -= a[i][k] * b[k];
        b[i] /= a[i][i];
    }
}

static double tell(const struct sums *s, const struct spot_load_mix *m, size_t t, int step)
{
    double b[TERMS], x[TERMS], mean = spot_load_mix_told(m, t, SPOT_LOAD_60, step);

    solve(s, b);
    terms(m, t, step, x);
    for (int i = 0; i < TERMS; i++)
        mean += b[i] * x[i];
    return fmax(0, mean);
}

struct spot_load_part spot_load_regress(const struct spot_load_mix *m, int step)
{
    struct spot_load_part part = { .weight = 1 };
    struct sums sums = { 0 };
    double square = 0, n_error = 0, least;
    size_t n;
    const double *x = spot_load_mix_past(m, &n);
    double *told = spot_xcalloc(n, sizeof *told);

    for (size_t t = 0; t < n; t++) {
        if (t >= (size_t)step) {
            const size_t then = t - (size_t)step;

            learn(&sums, m, then, step, x[t]);
            square = square * keep_error + (x[t] - told[then]) * (x[t] - told[then]);
            n_error = n_error * keep_error + 1;
        }
        told[t] = tell(&sums, m, t, step);
    }
    part.mean = told[n - 1];
    least = fmax(fmax(part.mean, 0.25), spot_load_mix_window_var(m, n - 1) / 2);
    part.var = (square + prior_errors * least) / (n_error + prior_errors);
    free(told);
    return part;
}
