/* SPDX-License-Identifier: MIT */
#include "forecast/search.h"

#include <assert.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

enum { DIM = SPOT_SEARCH_DIM_MAX, TURNS = 100, HALVINGS = 30 };

static const double STEP = 1e-5, BOUND = SPOT_SEARCH_BOUND;

static void gradient(spot_search_fn *f, void *user, int n, const double *x, double *g)
{
    double at[DIM];

    memcpy(at, x, (size_t)n * sizeof(*at));
    for (int i = 0; i < n; i++) {
        double up;

        at[i] = x[i] + STEP;
        up = f(at, user);
        at[i] = x[i] - STEP;
        g[i] = (up - f(at, user)) / (2 * STEP);
        at[i] = x[i];
    }
}

static double dot(const double *a, const double *b, int n)
{
    double sum = 0;

    for (int i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

static void identity(double *h, int n)
{
    memset(h, 0, (size_t)(n * n) * sizeof(*h));
    for (int i = 0; i < n; i++)
        h[i * n + i] = 1;
}

/* H <- (I - s y'/sy) H (I - y s'/sy) + s s'/sy */
static void update(double *h, int n, const double *s, const double *y)
{
    const double sy = dot(s, y, n);
    double hy[DIM], yhy = 0;

    if (sy <= 1e-14)
        return;
    for (int i = 0; i < n; i++)
        hy[i] = dot(h + (ptrdiff_t)i * n, y, n);
    yhy = dot(hy, y, n);
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            h[i * n + j] += ((1 + yhy / sy) * s[i] * s[j] - hy[i] * s[j] - s[i] * hy[j]) / sy;
}

/* A step along d that lowers f enough (Armijo); returns the new value, *x moved, or f_x. */
static double line_search(spot_search_fn *f, void *user, int n, double *x, double f_x,
                          const double *d, double slope, double reach)
{
    double at[DIM], length = 0, t;

    for (int i = 0; i < n; i++)
        length = fmax(length, fabs(d[i]));
    t = length > reach ? reach / length : 1; /* a longer step could leave the current basin */
    for (int k = 0; k < HALVINGS; k++, t *= 0.5) {
        double value;

        for (int i = 0; i < n; i++)
            at[i] = fmin(fmax(x[i] + t * d[i], -BOUND), BOUND);
        value = f(at, user);
        if (value <= f_x + 1e-4 * t * slope) {
            memcpy(x, at, (size_t)n * sizeof(*x));
            return value;
        }
    }
    return f_x;
}

/* Near the minimum the values agree to the last bits long before the gradient vanishes: continue
 * with plain quasi-Newton steps while these reduce the gradient. */
static void polish(spot_search_fn *f, void *user, int n, double *x, double *g, double *h)
{
    for (int turn = 0; turn < 12; turn++) {
        double at[DIM] = { 0 }, g_at[DIM], s[DIM];

        for (int i = 0; i < n; i++) {
            s[i] = -dot(h + (ptrdiff_t)i * n, g, n);
            at[i] = fmin(fmax(x[i] + s[i], -BOUND), BOUND);
        }
        gradient(f, user, n, at, g_at);
        if (!(dot(g_at, g_at, n) < 0.9 * dot(g, g, n)))
            return;
        for (int i = 0; i < n; i++)
            g[i] = g_at[i] - g[i];
        update(h, n, s, g);
        memcpy(g, g_at, sizeof(g_at));
        memcpy(x, at, (size_t)n * sizeof(*x));
    }
}

double spot_search_min(spot_search_fn *f, void *user, int n, double *x)
{
    double h[DIM * DIM], g[DIM], g_next[DIM], d[DIM], old[DIM], value = f(x, user);
    int stuck = 0;

    assert(n >= 1 && n <= DIM);
    identity(h, n);
    gradient(f, user, n, x, g);
    for (int turn = 0; turn < TURNS && stuck < 2; turn++) {
        double slope, next;

        for (int i = 0; i < n; i++)
            d[i] = -dot(h + (ptrdiff_t)i * n, g, n);
        slope = dot(d, g, n);
        if (!(slope < 0) || stuck) {
            identity(h, n);
            for (int i = 0; i < n; i++)
                d[i] = -g[i];
            slope = -dot(g, g, n);
        }
        if (slope > -1e-14)
            break;
        memcpy(old, x, sizeof(old));
        next = line_search(f, user, n, x, value, d, slope, turn ? 1 : 0.2);
        stuck = value - next > 1e-12 * (fabs(value) + 1) ? 0 : stuck + 1;
        value = next;
        gradient(f, user, n, x, g_next);
        for (int i = 0; i < n; i++) {
            d[i] = x[i] - old[i];
            old[i] = g_next[i] - g[i];
        }
        update(h, n, d, old);
        memcpy(g, g_next, sizeof(g));
    }
    memcpy(old, x, sizeof(old));
    polish(f, user, n, x, g, h);
    if (f(x, user) <= value + 1e-9 * (fabs(value) + 1))
        return f(x, user);
    memcpy(x, old, (size_t)n * sizeof(*x));
    return value;
}
