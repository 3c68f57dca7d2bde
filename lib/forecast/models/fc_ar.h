/* SPDX-License-Identifier: MIT */
/* fc_ar.h - exact maximum likelihood of a first-order autoregression without constant, in closed
 * form, so that ARIMA(1,1,0) costs microseconds. */
#ifndef SPOT_FORECAST_MODELS_FC_AR_H
#define SPOT_FORECAST_MODELS_FC_AR_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct spot_ar1 {
    double phi;    /* -1 < phi < 1 */
    double sigma2; /* S / n */
    double loglik; /* -inf for a series of zeros: it has no scale */
};

/* Fit w [n], n >= 1. The profile l(phi) = -n/2 ln(S/n) + 1/2 ln(1 - phi^2), with
 * S = a - 2 b phi + c phi^2, a = sum w_i^2, b = sum w_i w_{i-1}, c = sum_{1<i<n} w_i^2, is
 * stationary where n (b - c phi)(1 - phi^2) = phi S: a cubic, whose roots are all tried.
 * Cost: O(n), then constant. */
struct spot_ar1 spot_ar1_fit(const double *w, size_t n);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_FORECAST_MODELS_FC_AR_H */
