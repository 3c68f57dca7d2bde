/* SPDX-License-Identifier: MIT */
/* Exponential smoothing. Its parameter is found by least squares over a grid, since the error has
 * several minima and a forecast must not depend on where a search starts. */
#include <math.h>

#include "common/simd.h"
#include "forecast/models/models.h"
#include "forecast/pmf.h"

struct smooth {
    double alpha, level, sse;
};

/* Computes all alphas together; of equal ones takes the largest. */
SPOT_SIMD_INLINE void fit_inline(const int *y, size_t n, struct smooth *best)
{
    enum { ALPHAS = 20 };
    double alpha[ALPHAS], level[ALPHAS], sse[ALPHAS] = { 0 };

    for (int a = 0; a < ALPHAS; a++) {
        alpha[a] = (ALPHAS - a) / (double)ALPHAS;
        level[a] = y[0];
    }
    for (size_t i = 1; i < n; i++)
        for (int a = 0; a < ALPHAS; a++) {
            const double error = y[i] - level[a];

            level[a] += alpha[a] * error;
            sse[a] += error * error;
        }
    best->sse = INFINITY;
    for (int a = 0; a < ALPHAS; a++)
        if (sse[a] < best->sse)
            *best = (struct smooth){ alpha[a], level[a], sse[a] };
}

SPOT_SIMD_TWICE(fit, (const int *y, size_t n, struct smooth *best), (y, n, best))

/* Normal distributions around the level, with var_h = sigma2 (1 + (h - 1) alpha^2): Hyndman et al.
 * 2008, table 6.1. */
void spot_ses_predict(const struct spot_fc_spec *spec, void *state, const struct spot_fc_past *past,
                      double *prob)
{
    const struct spot_fc_past w = spot_fc_tail(spec, past);
    struct smooth s;
    double var = 0, sigma2;

    (void)state;
    fit(w.y, w.n, &s);
    sigma2 = w.n > 1 ? s.sse / (double)(w.n - 1) : 0;
    for (int h = 1; h <= spec->horizon; h++) {
        const double c = h == 1 ? 1 : s.alpha;

        var += sigma2 * c * c;
        spot_pmf_normal(spot_fc_row(spec, prob, h), spec->cap, s.level, sqrt(var));
    }
}
