/* SPDX-License-Identifier: MIT */
#include "forecast/arima.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "forecast/search.h"

enum { PARAMS_MAX = 2 * SPOT_ARMA_ORDER_MAX, STARTS_MAX = 12 };

struct target {
    struct spot_arma arma;
    const double *w;
    size_t n;
};

/* Free parameters are inverse hyperbolic tangents of partial autocorrelations. */
static void set_params(struct spot_arma *arma, const double *x)
{
    double partial[PARAMS_MAX];

    for (int i = 0; i < arma->p + arma->q; i++)
        partial[i] = tanh(x[i]);
    spot_arma_from_partial(partial, arma->p, arma->phi);
    spot_arma_from_partial(partial + arma->p, arma->q, arma->theta);
    for (int i = 0; i < arma->q; i++)
        arma->theta[i] = -arma->theta[i];
}

static double minus_loglik(const double *x, void *user)
{
    struct target *t = user;

    set_params(&t->arma, x);
    if (spot_arma_filter(&t->arma, t->w, t->n))
        return 1e300;
    return -t->arma.loglik;
}

/* Start 0 is white noise, the next one a process close to a unit root, where a trend can hide; the
 * others are corners, less extreme than the bounds. */
static void make_start(int k, int n, double *x)
{
    static const double size[] = { 0.55, 1.5 };

    for (int i = 0; i < n; i++) {
        const int bit = (k >> (i % 3)) & 1; /* dimensions beyond three repeat the pattern */

        x[i] = size[(k + i) % 2] * (bit ? 1 : -1) * (i >= 3 ? 0.6 : 1);
        if (k < 2)
            x[i] = k == 1 && i == 0 ? 4 : 0;
    }
}

/* For a moving average with a unit root the likelihood is a flat, infinitely long ridge in these
 * parameters: jump to its end. */
static double try_bounds(struct target *t, int n, double *x, double value)
{
    for (int i = 0; i < n; i++)
        for (int side = -1; side <= 1; side += 2) {
            const double old = x[i];
            double at_bound;

            x[i] = side * SPOT_SEARCH_BOUND;
            at_bound = minus_loglik(x, t);
            if (at_bound < value)
                value = at_bound;
            else
                x[i] = old;
        }
    return value;
}

static void white_noise(struct spot_arma *arma, const double *w, size_t n)
{
    arma->p = arma->q = 0;
    spot_arma_filter(arma, w, n);
}

static void fit_arma(struct spot_arma *arma, const double *w, size_t n)
{
    struct target t = { *arma, w, n };
    const int n_param = arma->p + arma->q;
    const int n_start = n_param == 1 ? 6 : n_param == 2 ? 10 : STARTS_MAX;
    double x[PARAMS_MAX] = { 0 }, best_x[PARAMS_MAX] = { 0 }, best = INFINITY;

    for (int k = 0; k < (n_param ? n_start : 1); k++) {
        double value;

        make_start(k, n_param, x);
        value = n_param ? spot_search_min(minus_loglik, &t, n_param, x) : minus_loglik(x, &t);
        if (value < best) {
            best = value;
            memcpy(best_x, x, sizeof(x));
        }
    }
    try_bounds(&t, n_param, best_x, best);
    set_params(arma, best_x);
    spot_arma_filter(arma, w, n);
}

int spot_arima_fit(struct spot_arima *fit, const double *y, size_t n, int p, int d, int q,
                   bool has_mean)
{
    struct spot_arma *arma = &fit->arma;
    double *w = spot_xcalloc(n, sizeof(*w));
    const size_t n_least = (size_t)p + (size_t)q + (has_mean ? 2 : 1);
    size_t n_w = n;
    int rc = 0;

    assert(p <= SPOT_ARMA_ORDER_MAX && q <= SPOT_ARMA_ORDER_MAX && d <= SPOT_ARIMA_DIFF_MAX);
    memset(fit, 0, sizeof(*fit));
    memcpy(w, y, n * sizeof(*w));
    fit->d = d;
    for (int k = 0; k < d && n_w > 0; k++, n_w--)
        for (size_t i = 0; i + 1 < n_w; i++)
            w[i] = w[i + 1] - w[i];
    *arma = (struct spot_arma){ .p = p, .q = q, .has_mean = has_mean };
    if (n_w > n_least)
        fit_arma(arma, w, n_w);
    if (!(arma->loglik > -INFINITY) || n_w <= n_least) {
        white_noise(arma, w, n_w);
        rc = -1;
    }
    free(w);
    return rc;
}

/* The newest value of each difference of order 0..d-1. */
static void newest(const double *y, size_t n, int d, double *at)
{
    const double last[3] = { n > 0 ? y[n - 1] : 0, n > 1 ? y[n - 2] : 0, n > 2 ? y[n - 3] : 0 };

    if (d > 0)
        at[0] = last[0];
    if (d > 1)
        at[1] = last[0] - last[1];
}

/* One step of the joint state (differences of order 0..d-1, then the process): the process adds
 * to the highest difference, each difference to the one below. */
static int joint_transition(const struct spot_arima *fit, double *matrix)
{
    double inner[SPOT_ARMA_STATE_MAX * SPOT_ARMA_STATE_MAX];
    const int r = spot_arma_transition(&fit->arma, inner), d = fit->d, m = r + d;

    memset(matrix, 0, (size_t)(m * m) * sizeof(*matrix));
    for (int i = 0; i < d; i++)
        for (int j = i; j <= d; j++)
            matrix[i * m + j] = 1; /* column d is the process's next value */
    for (int i = 0; i < r; i++)
        for (int j = 0; j < r; j++)
            matrix[(d + i) * m + d + j] = inner[i * r + j];
    return m;
}

enum { M_MAX = SPOT_ARMA_STATE_MAX + SPOT_ARIMA_DIFF_MAX };

/* The joint state at a future step: mean a [m], covariance cov [m * m]. */
struct outlook {
    int m, d;
    double a[M_MAX], cov[M_MAX * M_MAX];
    double transition[M_MAX * M_MAX], load[M_MAX];
};

static void outlook_init(struct outlook *o, const struct spot_arima *fit, const double *y, size_t n)
{
    const struct spot_arma *arma = &fit->arma;
    const int d = fit->d;
    int r;

    memset(o, 0, sizeof(*o));
    o->m = joint_transition(fit, o->transition);
    o->d = d;
    r = o->m - d;
    newest(y, n, d, o->a);
    for (int i = 0; i < r; i++) {
        o->a[d + i] = arma->state[i];
        o->load[d + i] = i == 0 ? 1 : i <= arma->q ? arma->theta[i - 1] : 0;
        for (int j = 0; j < r; j++)
            o->cov[(d + i) * o->m + d + j] = arma->cov[i * r + j];
    }
}

/* Advance by one step; `drift` is added to every difference. */
static void outlook_advance(struct outlook *o, double drift)
{
    double half[M_MAX * M_MAX] = { 0 }, a[M_MAX] = { 0 };
    const double *t = o->transition;
    const int m = o->m;

    for (int i = 0; i < m; i++) {
        a[i] = i < o->d ? drift : 0;
        for (int k = 0; k < m; k++) {
            a[i] += t[i * m + k] * o->a[k];
            for (int j = 0; j < m; j++)
                half[i * m + j] += t[i * m + k] * o->cov[k * m + j];
        }
    }
    memcpy(o->a, a, sizeof(a));
    for (int i = 0; i < m; i++)
        for (int j = 0; j < m; j++) {
            double sum = o->load[i] * o->load[j];

            for (int k = 0; k < m; k++)
                sum += half[i * m + k] * t[j * m + k];
            o->cov[i * m + j] = sum;
        }
}

/* The filter's state is a prediction for the next time. So at step h the process part is that of
 * w_h, while the differences are those of step h - 1: y_h is the sum of the first d + 1 entries. */
void spot_arima_forecast(const struct spot_arima *fit, const double *y, size_t n, int horizon,
                         double *mean, double *se)
{
    struct outlook o;

    outlook_init(&o, fit, y, n);
    for (int h = 0; h < horizon; h++) {
        double var = 0;

        mean[h] = fit->arma.mean;
        for (int i = 0; i <= fit->d; i++) {
            mean[h] += o.a[i];
            for (int j = 0; j <= fit->d; j++)
                var += o.cov[i * o.m + j];
        }
        se[h] = sqrt(fmax(var, 0) * fit->arma.sigma2);
        outlook_advance(&o, fit->arma.mean);
    }
}
