/* SPDX-License-Identifier: MIT */
#include <math.h>

#include "forecast/models/models.h"
#include "forecast/pmf.h"

void spot_last_predict(const struct spot_fc_spec *spec, void *state,
                       const struct spot_fc_past *past, double *prob)
{
    (void)state;
    for (int h = 1; h <= spec->horizon; h++)
        spot_pmf_point(spot_fc_row(spec, prob, h), spec->cap, past->y[past->n - 1]);
}

/* A distribution with the mean and spread of the window, the same at every step. */
void spot_ma_predict(const struct spot_fc_spec *spec, void *state, const struct spot_fc_past *past,
                     double *prob)
{
    const struct spot_fc_past w = spot_fc_tail(spec, past);
    double sum = 0, square = 0;

    (void)state;
    for (size_t i = 0; i < w.n; i++)
        sum += w.y[i];
    sum /= (double)w.n;
    for (size_t i = 0; i < w.n; i++)
        square += (w.y[i] - sum) * (w.y[i] - sum);
    for (int h = 1; h <= spec->horizon; h++)
        spot_pmf_normal(spot_fc_row(spec, prob, h), spec->cap, sum, sqrt(square / (double)w.n));
}
