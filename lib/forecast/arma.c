/* SPDX-License-Identifier: MIT */
#include "forecast/arma.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum { R_MAX = SPOT_ARMA_STATE_MAX };

static const double STEADY = 1e-13; /* relative change of the one-step variance */

int spot_arma_transition(const struct spot_arma *arma, double *matrix)
{
    const int r = arma->p > arma->q + 1 ? arma->p : arma->q + 1;

    assert(arma->p <= SPOT_ARMA_ORDER_MAX && arma->q <= SPOT_ARMA_ORDER_MAX);
    memset(matrix, 0, (size_t)(r * r) * sizeof(*matrix));
    for (int i = 0; i < r; i++) {
        matrix[(ptrdiff_t)i * r] = i < arma->p ? arma->phi[i] : 0;
        if (i + 1 < r)
            matrix[i * r + i + 1] = 1;
    }
    return r;
}

/* c = a b, or a b' if is_transposed */
static void multiply(const double *a, const double *b, int r, bool is_transposed, double *c)
{
    for (int i = 0; i < r; i++)
        for (int j = 0; j < r; j++) {
            double sum = 0;

            for (int k = 0; k < r; k++)
                sum += a[i * r + k] * (is_transposed ? b[j * r + k] : b[k * r + j]);
            c[i * r + j] = sum;
        }
}

static void noise(const struct spot_arma *arma, int r, double *load, double *cov)
{
    for (int i = 0; i < r; i++)
        load[i] = i == 0 ? 1 : i <= arma->q ? arma->theta[i - 1] : 0;
    for (int i = 0; i < r * r; i++)
        cov[i] = load[i / r] * load[i % r];
}

/* P = T P T' + V by doubling: P <- P + A P A', A <- A A. Returns -1 if it does not converge. */
static int stationary_cov(const double *transition, const double *v, int r, double *cov)
{
    double a[R_MAX * R_MAX], half[R_MAX * R_MAX], add[R_MAX * R_MAX] = { 0 };
    const size_t n_byte = (size_t)(r * r) * sizeof(double);

    memcpy(a, transition, n_byte);
    memcpy(cov, v, n_byte);
    for (int turn = 0; turn < 60; turn++) {
        double change = 0, size = 0;

        multiply(a, cov, r, false, half);
        multiply(half, a, r, true, add);
        for (int i = 0; i < r * r; i++) {
            cov[i] += add[i];
            change = fmax(change, fabs(add[i]));
            size = fmax(size, fabs(cov[i]));
        }
        if (!isfinite(size))
            return -1;
        if (change <= 1e-16 * size)
            return 0;
        multiply(a, a, r, false, half);
        memcpy(a, half, n_byte);
    }
    return -1;
}

/* The filter's state. The series and a column of ones go through the same gains, so that the mean
 * is the generalised least squares estimate. */
struct filter {
    int r;
    double transition[R_MAX * R_MAX], v[R_MAX * R_MAX], load[R_MAX];
    double cov[R_MAX * R_MAX], a[R_MAX], one[R_MAX];
    double yy, y1, s11, log_sum;
    size_t n;
    bool is_steady;
};

static void shift(const struct filter *f, double *a)
{
    const double first = a[0];

    for (int i = 0; i < f->r; i++)
        a[i] = f->transition[(ptrdiff_t)i * f->r] * first + (i + 1 < f->r ? a[i + 1] : 0);
}

static void predict(struct filter *f)
{
    double half[R_MAX * R_MAX];

    shift(f, f->a);
    shift(f, f->one);
    if (f->is_steady)
        return;
    multiply(f->transition, f->cov, f->r, false, half);
    multiply(half, f->transition, f->r, true, f->cov);
    for (int i = 0; i < f->r * f->r; i++)
        f->cov[i] += f->v[i];
}

static void update(struct filter *f, double y)
{
    const double var = f->cov[0], e = y - f->a[0], e1 = 1 - f->one[0];
    double gain[R_MAX];

    for (int i = 0; i < f->r; i++)
        gain[i] = f->cov[(ptrdiff_t)i * f->r] / var;
    for (int i = 0; i < f->r; i++) {
        f->a[i] += gain[i] * e;
        f->one[i] += gain[i] * e1;
    }
    if (!f->is_steady)
        for (int i = 0; i < f->r; i++)
            for (int j = 0; j < f->r; j++)
                f->cov[i * f->r + j] -= gain[i] * gain[j] * var;
    f->yy += e * e / var;
    f->y1 += e * e1 / var;
    f->s11 += e1 * e1 / var;
    f->log_sum += log(var);
    f->n++;
}

/* Once steady, the state is known except for the newest noise: the gain is the load of the noise
 * and the variance 1. The covariance then stays constant. */
static void run(struct filter *f, const double *w, size_t n, bool has_gap)
{
    for (size_t t = 0; t < n; t++) {
        if (!f->is_steady && !has_gap && t > 0) {
            double off = 0;

            for (int i = 0; i < f->r * f->r; i++)
                off = fmax(off, fabs(f->cov[i] - f->v[i]));
            if (off < STEADY) {
                f->is_steady = true;
                memcpy(f->cov, f->v, sizeof(f->cov));
            }
        }
        if (!isnan(w[t]))
            update(f, w[t]);
        predict(f);
    }
}

int spot_arma_filter(struct spot_arma *arma, const double *w, size_t n)
{
    struct filter f = { 0 };
    double s;
    bool has_gap = false;

    arma->loglik = -INFINITY;
    arma->sigma2 = arma->mean = 0;
    f.r = spot_arma_transition(arma, f.transition);
    noise(arma, f.r, f.load, f.v);
    if (stationary_cov(f.transition, f.v, f.r, f.cov))
        return -1;
    for (size_t t = 0; t < n; t++)
        has_gap = has_gap || isnan(w[t]);
    run(&f, w, n, has_gap);
    arma->n = f.n;
    if (!f.n)
        return -1;
    if (arma->has_mean && f.s11 > 0)
        arma->mean = f.y1 / f.s11;
    s = f.yy - (arma->has_mean ? arma->mean * f.y1 : 0);
    memcpy(arma->cov, f.cov, sizeof(f.cov));
    for (int i = 0; i < f.r; i++)
        arma->state[i] = f.a[i] - arma->mean * f.one[i];
    if (!(s > 1e-12 * (1 + fabs(arma->mean)) && isfinite(s)))
        return -1;
    arma->sigma2 = s / (double)f.n;
    arma->loglik =
        -0.5 * (double)f.n * (log(2 * 3.14159265358979323846 * arma->sigma2) + 1) - 0.5 * f.log_sum;
    return 0;
}

void spot_arma_from_partial(const double *partial, int n, double *coef)
{
    double old[SPOT_ARMA_ORDER_MAX];

    for (int k = 0; k < n; k++) {
        memcpy(old, coef, (size_t)k * sizeof(*old));
        coef[k] = partial[k];
        for (int i = 0; i < k; i++)
            coef[i] = old[i] - partial[k] * old[k - 1 - i];
    }
}
