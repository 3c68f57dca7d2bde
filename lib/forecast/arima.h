/* SPDX-License-Identifier: MIT */
/* arima.h - ARIMA(p,d,q) by exact maximum likelihood on the d times differenced series.
 *
 * A quasi-Newton search from many starts, of which the best result is kept: the likelihood has
 * several maxima, and a single start ends at a wrong one often enough to matter. */
#ifndef SPOT_FORECAST_ARIMA_H
#define SPOT_FORECAST_ARIMA_H

#include <stdbool.h>
#include <stddef.h>

#include "forecast/arma.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_ARIMA_DIFF_MAX = 2 };

struct spot_arima {
    int d;
    struct spot_arma arma; /* of the differences; for d = 1 its mean is the drift */
};

/* Fit y [n], NaN where missing (then d must be 0). `has_mean`: with a constant. Returns 0; -1 if
 * there are too few values for the order or no variance: then *fit is white noise of the sample
 * variance. Deterministic. */
int spot_arima_fit(struct spot_arima *fit, const double *y, size_t n, int p, int d, int q,
                   bool has_mean);

/* Mean and standard error of y at steps 1..horizon after the fitted series, whose newest d values
 * are y [n]'s last. Exact: the uncertainty of the filter's state is included. */
void spot_arima_forecast(const struct spot_arima *fit, const double *y, size_t n, int horizon,
                         double *mean, double *se);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_FORECAST_ARIMA_H */
