/* SPDX-License-Identifier: MIT */
/* Exponential smoothing and its kin: parameters by least squares over a grid, because the
 * surface has several minima and a forecast must not depend on where a search started. */
#include <math.h>

#include "forecast/models/models.h"
#include "forecast/pmf.h"

struct smooth {
    double alpha, beta, phi; /* beta 0: no trend */
    double level, trend, sse;
};

/* Damped trend, error correction form: Hyndman et al. 2008, ETS(A,Ad,N). */
static void smooth_run(const struct spot_fc_past *w, struct smooth *s)
{
    s->level = w->y[0];
    s->trend = s->sse = 0;
    for (size_t i = 1; i < w->n; i++) {
        const double error = w->y[i] - (s->level + s->phi * s->trend);

        s->level += s->phi * s->trend + s->alpha * error;
        s->trend = s->phi * s->trend + s->beta * error;
        s->sse += error * error;
    }
}

static void keep_better(struct smooth *best, const struct smooth *s)
{
    if (s->sse < best->sse)
        *best = *s;
}

/* Without a trend, all alphas side by side. */
static struct smooth fit_level(const struct spot_fc_past *w)
{
    enum { ALPHAS = 20 };
    struct smooth best = { .sse = INFINITY };
    double alpha[ALPHAS], level[ALPHAS], sse[ALPHAS] = { 0 };

    for (int a = 0; a < ALPHAS; a++) {
        alpha[a] = (ALPHAS - a) / (double)ALPHAS;
        level[a] = w->y[0];
    }
    for (size_t i = 1; i < w->n; i++)
        for (int a = 0; a < ALPHAS; a++) {
            const double error = w->y[i] - level[a];

            level[a] += alpha[a] * error;
            sse[a] += error * error;
        }
    for (int a = 0; a < ALPHAS; a++)
        keep_better(&best, &(struct smooth){
                               .alpha = alpha[a], .phi = 1, .level = level[a], .sse = sse[a] });
    return best;
}

static struct smooth fit_trend(const struct spot_fc_past *w)
{
    static const double phi[] = { 0.8, 0.9, 0.98 };
    struct smooth best = { .sse = INFINITY };

    for (int a = 10; a >= 1; a--)
        for (int b = 0; b <= 5; b++)
            for (int f = 0; f < 3; f++) {
                struct smooth s = { .alpha = a / 10.0, .beta = a * b / 100.0, .phi = phi[f] };

                smooth_run(w, &s);
                keep_better(&best, &s);
            }
    return best;
}

/* Normal distributions around level + slope(h), with var_h = sigma2 (1 + sum_{j<h} c_j^2),
 * c_j = alpha + beta (phi + .. + phi^j): the same book, table 6.1. */
static void put_dists(const struct spot_fc_spec *spec, const struct spot_fc_past *w,
                      const struct smooth *s, double slope, double slope_0, double *prob)
{
    const double sigma2 = w->n > 1 ? s->sse / (double)(w->n - 1) : 0;
    double var = 0, damp = 0, power = 1;

    for (int h = 1; h <= spec->horizon; h++) {
        const double c = h == 1 ? 1 : s->alpha + s->beta * damp;

        var += sigma2 * c * c;
        power *= s->phi;
        damp += power;
        spot_pmf_normal(spot_fc_row(spec, prob, h), spec->cap,
                        s->level + damp * s->trend + slope_0 + slope * (h - 1), sqrt(var));
    }
}

void spot_ses_predict(const struct spot_fc_spec *spec, void *state, const struct spot_fc_past *past,
                      double *prob)
{
    const struct spot_fc_past w = spot_fc_tail(spec, past);
    const struct smooth s = fit_level(&w);

    (void)state;
    put_dists(spec, &w, &s, 0, 0, prob);
}

void spot_holt_predict(const struct spot_fc_spec *spec, void *state,
                       const struct spot_fc_past *past, double *prob)
{
    const struct spot_fc_past w = spot_fc_tail(spec, past);
    const struct smooth s = fit_trend(&w);

    (void)state;
    put_dists(spec, &w, &s, 0, 0, prob);
}

/* Simple smoothing with half the slope of the line of least squares as drift: Assimakopoulos and
 * Nikolopoulos 2000 in the form of Hyndman and Billah 2003. */
void spot_theta_predict(const struct spot_fc_spec *spec, void *state,
                        const struct spot_fc_past *past, double *prob)
{
    const struct spot_fc_past w = spot_fc_tail(spec, past);
    const struct smooth s = fit_level(&w);
    const double n = (double)w.n, middle = (n - 1) / 2;
    double xy = 0, xx = 0, half;

    (void)state;
    for (size_t i = 0; i < w.n; i++) {
        xy += ((double)i - middle) * w.y[i];
        xx += ((double)i - middle) * ((double)i - middle);
    }
    half = xx > 0 ? xy / xx / 2 : 0;
    put_dists(spec, &w, &s, half, half * (1 - pow(1 - s.alpha, n)) / s.alpha, prob);
}
