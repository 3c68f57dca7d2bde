/* SPDX-License-Identifier: MIT */
#include "forecast/models/fc_load_mix.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/num.h"
#include "common/xalloc.h"

enum { LEVELS = 9, TRENDS = 4, WINDOWS = 2, EXPERTS = SPOT_LOAD_EXPERTS };

static const double level_alpha[LEVELS] = { 1, 0.7, 0.5, 0.35, 0.25, 0.18, 0.12, 0.08, 0.05 };
static const struct trend {
    double alpha, beta, phi;
} trend_of[TRENDS] = {
    { 0.3, 0.03, 0.9 }, { 0.2, 0.02, 0.95 }, { 0.1, 0.01, 0.95 }, { 0.15, 0.01, 0.98 }
};
static const size_t window_len[WINDOWS] = { 12, 60 };

/* Prior weights. Windows are the safe choice if the past says little, so they have most of the
 * weight at first. */
static const double level_prior = 0.3 / LEVELS, trend_prior = 0.1 / TRENDS;
static const double window_prior[WINDOWS] = { 0.3, 0.3 };

static const double keep_error = 0.95, keep_loss = 0.98; /* discount of sums, per value */
/* the variance starts with this many errors of Poisson size */
static const double prior_errors = 5;
static const double near_share = 0.2; /* weight of the loss one step ahead, for longer steps */

/* An expert's state at one time: level, and slope per step before damping. */
struct opinion {
    double level, slope, window_var;
};

struct spot_load_mix {
    const double *x; /* [n] */
    size_t n;
    struct opinion *opinion; /* [n * EXPERTS] */
    double *var;             /* [n * EXPERTS] for the current lag */
    int lag;
    double loss[EXPERTS], near_loss[EXPERTS]; /* at the current lag, and one step ahead */
};

/* --- predictions of the experts --- */

static void tell_levels(struct spot_load_mix *m)
{
    for (int k = 0; k < LEVELS; k++) {
        const double a = level_alpha[k];
        double sum = 0, weight = 0; /* at first, a mean of the values there are */

        for (size_t t = 0; t < m->n; t++) {
            sum = sum * (1 - a) + a * m->x[t];
            weight = weight * (1 - a) + a;
            m->opinion[t * EXPERTS + (size_t)k].level = sum / weight;
        }
    }
}

/* Damped trends in error correction form: Hyndman et al. 2008. */
static void tell_trends(struct spot_load_mix *m)
{
    for (int k = 0; k < TRENDS; k++) {
        const struct trend *law = &trend_of[k];
        double level = m->x[0], slope = 0;

        for (size_t t = 0; t < m->n; t++) {
            struct opinion *o = &m->opinion[t * EXPERTS + LEVELS + (size_t)k];
            const double error = m->x[t] - (level + law->phi * slope);

            level += law->phi * slope + fmax(law->alpha, 1 / (double)(t + 1)) * error;
            slope = law->phi * slope + (t ? law->beta * error : 0);
            o->level = level;
            o->slope = slope;
        }
    }
}

static void tell_windows(struct spot_load_mix *m)
{
    for (int k = 0; k < WINDOWS; k++)
        for (size_t t = 0; t < m->n; t++) {
            struct opinion *o = &m->opinion[t * EXPERTS + LEVELS + TRENDS + (size_t)k];
            const size_t len = t < window_len[k] ? t + 1 : window_len[k] + 1;
            const double *w = m->x + t + 1 - len;

            for (size_t i = 0; i < len; i++)
                o->level += w[i] / (double)len;
            for (size_t i = 0; i < len; i++)
                o->window_var += (w[i] - o->level) * (w[i] - o->level) / (double)len;
        }
}

/* The sum of `step` damped steps of the slope. */
static double reach_of(int k, int step)
{
    const double phi = k >= LEVELS && k < LEVELS + TRENDS ? trend_of[k - LEVELS].phi : 0;

    return phi * (1 - pow(phi, step)) / (1 - phi);
}

static double mean_of(const struct spot_load_mix *m, size_t t, int k, double reach)
{
    const struct opinion *o = &m->opinion[t * EXPERTS + (size_t)k];

    return fmax(0, o->level + o->slope * reach);
}

/* --- scores of the experts --- */

static const double pi = 3.14159265358979323846;

/* Continuous ranked probability score of a normal distribution, in units of its spread. */
static double score(double z)
{
    return z * erf(z / sqrt(2)) + 2 * exp(-z * z / 2) / sqrt(2 * pi) - 1 / sqrt(pi);
}

static double median(const double x[EXPERTS])
{
    double sorted[EXPERTS];

    memcpy(sorted, x, sizeof(sorted));
    qsort(sorted, EXPERTS, sizeof(*sorted), spot_num_compare);
    return sorted[EXPERTS / 2];
}

/* Score the predictions for time t that were made `lag` steps before. */
static void score_all(struct spot_load_mix *m, size_t t, const double reach[EXPERTS],
                      double square[EXPERTS])
{
    const size_t then = t - (size_t)m->lag;
    double spread[EXPERTS], crps[EXPERTS], unit;

    for (int k = 0; k < EXPERTS; k++) {
        const double mean = mean_of(m, then, k, reach[k]), error = m->x[t] - mean;

        spread[k] = sqrt(fmax(fmax(m->var[then * EXPERTS + (size_t)k], mean), 0.25));
        crps[k] = spread[k] * score(error / spread[k]);
        square[k] = square[k] * keep_error + error * error;
    }
    unit = median(spread) * sqrt(m->lag);
    for (int k = 0; k < EXPERTS; k++)
        m->loss[k] = m->loss[k] * keep_loss + crps[k] / unit;
}

/* Replay the past `lag` steps ahead: sets m->var for each time, and m->loss at the end. */
static void play(struct spot_load_mix *m, int lag)
{
    double square[EXPERTS] = { 0 }, reach[EXPERTS], n_error = 0;

    m->lag = lag;
    memset(m->loss, 0, sizeof(m->loss));
    for (int k = 0; k < EXPERTS; k++)
        reach[k] = reach_of(k, lag);
    for (size_t t = 0; t < m->n; t++) {
        if (t >= (size_t)lag) {
            score_all(m, t, reach, square);
            n_error = n_error * keep_error + 1;
        }
        for (int k = 0; k < EXPERTS; k++) {
            const double poisson = fmax(mean_of(m, t, k, reach[k]), 0.25);
            double *var = &m->var[t * EXPERTS + (size_t)k];

            *var = k >= LEVELS + TRENDS
                       ? m->opinion[t * EXPERTS + (size_t)k].window_var
                       : (square[k] + prior_errors * poisson) / (n_error + prior_errors);
        }
    }
}

static double prior_of(int k)
{
    return k < LEVELS            ? level_prior
           : k < LEVELS + TRENDS ? trend_prior
                                 : window_prior[k - LEVELS - TRENDS];
}

/* --- outside --- */

struct spot_load_mix *spot_load_mix_new(const double *x, size_t n)
{
    struct spot_load_mix *m = spot_xcalloc(1, sizeof(*m));

    m->x = x;
    m->n = n;
    m->opinion = spot_xcalloc(n * EXPERTS, sizeof(*m->opinion));
    m->var = spot_xcalloc(n * EXPERTS, sizeof(*m->var));
    tell_levels(m);
    tell_trends(m);
    tell_windows(m);
    play(m, 1);
    memcpy(m->near_loss, m->loss, sizeof(m->loss));
    return m;
}

void spot_load_mix_free(struct spot_load_mix *m)
{
    if (!m)
        return;
    free(m->opinion);
    free(m->var);
    free(m);
}

double spot_load_mix_told(const struct spot_load_mix *m, size_t t, enum spot_load_expert expert,
                          int step)
{
    return mean_of(m, t, (int)expert, reach_of((int)expert, step));
}

double spot_load_mix_window_var(const struct spot_load_mix *m, size_t t)
{
    return m->opinion[t * EXPERTS + SPOT_LOAD_12].window_var;
}

const double *spot_load_mix_past(const struct spot_load_mix *m, size_t *n)
{
    *n = m->n;
    return m->x;
}

void spot_load_mix_at(struct spot_load_mix *m, int step,
                      struct spot_load_part part[SPOT_LOAD_EXPERTS])
{
    const int third = m->n > 3 ? (int)((m->n - 1) / 3) : 1, lag = step < third ? step : third;
    double loss[EXPERTS], least = INFINITY, sum = 0;

    if (m->lag != lag)
        play(m, lag);
    for (int k = 0; k < EXPERTS; k++) {
        loss[k] = m->loss[k];
        loss[k] += lag > 1 ? near_share * m->near_loss[k] : 0;
        least = fmin(least, loss[k]);
    }
    for (int k = 0; k < EXPERTS; k++) {
        part[k] = (struct spot_load_part){ prior_of(k) * exp(least - loss[k]),
                                           mean_of(m, m->n - 1, k, reach_of(k, step)),
                                           m->var[(m->n - 1) * EXPERTS + (size_t)k] };
        sum += part[k].weight;
    }
    for (int k = 0; k < EXPERTS; k++)
        part[k].weight /= sum;
}
