/* SPDX-License-Identifier: MIT */
/* arma.h - exact likelihood of an ARMA process by the Kalman filter, mean and variance
 * concentrated out.
 *
 * w_t - m = phi_1 (w_{t-1} - m) + .. + e_t + theta_1 e_{t-1} + .., e_t normal.
 * Source: Harvey's state space form, as in Gardner, Harvey and Phillips 1980 (AS 154).
 */
#ifndef SPOT_FORECAST_ARMA_H
#define SPOT_FORECAST_ARMA_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_ARMA_ORDER_MAX = 6, SPOT_ARMA_STATE_MAX = SPOT_ARMA_ORDER_MAX + 1 };

struct spot_arma {
    int p, q;
    double phi[SPOT_ARMA_ORDER_MAX];   /* [p], stationary */
    double theta[SPOT_ARMA_ORDER_MAX]; /* [q] */
    bool has_mean;
    /* filled by spot_arma_filter */
    double mean, sigma2, loglik;
    size_t n;                                              /* values that were not missing */
    double state[SPOT_ARMA_STATE_MAX];                     /* of w - mean, for the next time */
    double cov[SPOT_ARMA_STATE_MAX * SPOT_ARMA_STATE_MAX]; /* divided by sigma2 */
};

/* Run the filter over w [n] (NaN: missing) and fill the rest of *arma. Returns 0, or -1 if the
 * process is not stationary or w has no variance: then loglik is -infinity.
 * Cost: O(n r^2) until the filter is steady, then O(n (p + q)); r = max(p, q + 1). */
int spot_arma_filter(struct spot_arma *arma, const double *w, size_t n);

/* T of the state equation, [r * r] row-major; returns r. */
int spot_arma_transition(const struct spot_arma *arma, double *matrix);

/* Coefficients of a stationary autoregression (or, negated, of an invertible moving average)
 * from partial autocorrelations in (-1, 1). Source: Monahan 1984. */
void spot_arma_from_partial(const double *partial, int n, double *coef);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_FORECAST_ARMA_H */
