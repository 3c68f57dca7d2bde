/* SPDX-License-Identifier: MIT */
#include "forecast/models/fc_ar.h"

#include <math.h>

#include "forecast/models/models.h"
#include "forecast/pmf.h"

struct moments {
    double a, b, c, n;
};

static double square_sum(const struct moments *m, double phi)
{
    return m->a - 2 * m->b * phi + m->c * phi * phi;
}

static double profile(const struct moments *m, double phi)
{
    return -0.5 * m->n * log(square_sum(m, phi) / m->n) + 0.5 * log1p(-phi * phi);
}

/* Half the derivative of the profile times S (1 - phi^2), which is > 0. */
static double slope(const struct moments *m, double phi)
{
    return m->n * (m->b - m->c * phi) * (1 - phi * phi) - phi * square_sum(m, phi);
}

/* The root of `slope` between lo, where it is > 0, and hi, where it is < 0. Newton, kept inside
 * the bracket, which shrinks. */
static double root_between(const struct moments *m, double lo, double hi)
{
    double x = 0.5 * (lo + hi);

    for (int i = 0; i < 60 && hi - lo > 1e-15; i++) {
        const double f = slope(m, x);
        const double df = -m->n * m->c * (1 - x * x) - 2 * x * m->n * (m->b - m->c * x) -
                          square_sum(m, x) - x * (2 * m->c * x - 2 * m->b);
        double next = x - f / df;

        if (f > 0)
            lo = x;
        else
            hi = x;
        if (!(next > lo && next < hi))
            next = 0.5 * (lo + hi);
        if (fabs(next - x) < 1e-15)
            return next;
        x = next;
    }
    return x;
}

/* The turning points of the cubic `slope`, roots of a quadratic. Those inside (-1, 1), sorted. */
static int turning_points(const struct moments *m, double at[2])
{
    /* slope = n b - (n c + a) x + (2 b - n b) x^2 + (n - 1) c x^3 */
    const double p = 3 * (m->n - 1) * m->c, q = 2 * m->b * (2 - m->n), r = -(m->n * m->c + m->a);
    const double disc = q * q - 4 * p * r;
    int n = 0;

    if (p <= 0 || disc <= 0)
        return 0;
    for (int sign = -1; sign <= 1; sign += 2) {
        const double x = (-q + sign * sqrt(disc)) / (2 * p);

        if (x > -1 && x < 1)
            at[n++] = x;
    }
    return n;
}

struct spot_ar1 spot_ar1_fit(const double *w, size_t n)
{
    struct moments m = { .n = (double)n };
    struct spot_ar1 fit = { 0, 0, -INFINITY };
    double turn[2], edge[4] = { -1 };
    int n_edge = 1, n_turn;

    for (size_t i = 0; i < n; i++) {
        m.a += w[i] * w[i];
        m.b += i ? w[i] * w[i - 1] : 0;
        m.c += i && i + 1 < n ? w[i] * w[i] : 0;
    }
    if (m.a <= 0)
        return fit;
    n_turn = turning_points(&m, turn);
    for (int i = 0; i < n_turn; i++)
        edge[n_edge++] = turn[i];
    edge[n_edge] = 1;
    for (int i = 0; i < n_edge; i++) { /* between turning points the slope is monotone */
        if (slope(&m, edge[i]) >= 0 && slope(&m, edge[i + 1]) <= 0) {
            const double phi = root_between(&m, edge[i], edge[i + 1]);
            const double loglik = fabs(phi) < 1 ? profile(&m, phi) : -INFINITY;

            if (loglik > fit.loglik) {
                fit.phi = phi;
                fit.loglik = loglik;
            }
        }
    }
    fit.sigma2 = square_sum(&m, fit.phi) / m.n;
    fit.loglik -= 0.5 * m.n * (1 + log(2 * 3.14159265358979323846));
    return fit;
}

/* ARIMA(1,1,0) without constant: an autoregression of the changes. */
void spot_ar_predict(const struct spot_fc_spec *spec, void *state, const struct spot_fc_past *past,
                     double *prob)
{
    const struct spot_fc_past w = spot_fc_tail(spec, past);
    double change[SPOT_FC_PAST], mean = w.y[w.n - 1], step, psi = 0, var = 0, power = 1;
    struct spot_ar1 fit = { 0, 0, 0 };

    (void)state;
    for (size_t i = 1; i < w.n; i++)
        change[i - 1] = w.y[i] - w.y[i - 1];
    if (w.n > 2)
        fit = spot_ar1_fit(change, w.n - 1);
    step = w.n > 1 ? change[w.n - 2] : 0;
    for (int h = 1; h <= spec->horizon; h++) {
        step *= fit.phi;
        mean += step;
        psi += power; /* 1 + phi + .. + phi^(h-1) */
        power *= fit.phi;
        var += fit.sigma2 * psi * psi;
        spot_pmf_normal(spot_fc_row(spec, prob, h), spec->cap, mean, sqrt(var));
    }
}
