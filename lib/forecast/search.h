/* SPDX-License-Identifier: MIT */
/* search.h - unconstrained minimum of a smooth function of a few variables. */
#ifndef SPOT_FORECAST_SEARCH_H
#define SPOT_FORECAST_SEARCH_H

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_SEARCH_DIM_MAX = 12, SPOT_SEARCH_BOUND = 9 }; /* tanh(9) is 1 - 3e-8 */

typedef double spot_search_fn(const double *x, void *user);

/* From x [n], inside -BOUND..BOUND in each variable, to a local minimum by BFGS with central
 * differences, stored in x. Returns the value there. Source: Nocedal and Wright 2006, algorithm
 * 6.1. */
double spot_search_min(spot_search_fn *f, void *user, int n, double *x);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_FORECAST_SEARCH_H */
