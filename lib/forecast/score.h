/* SPDX-License-Identifier: MIT */
/* score.h - scores of forecasts: sums over origins, means on demand. */
#ifndef SPOT_FORECAST_SCORE_H
#define SPOT_FORECAST_SCORE_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_SCORE_PIT = 20 };

struct spot_score {
    size_t n;
    double abs_sum;             /* |median - y| */
    double crps_sum;            /* see pmf.h */
    double brier_sum;           /* (P(Y < now) - 1{y < now})^2 */
    double cover_sum;           /* how much of the randomised PIT is in [0.1, 0.9] */
    double pit[SPOT_SCORE_PIT]; /* histogram of the randomised PIT, expected mass; sums to n */
};

/* Score the distribution p [cap + 1], made when the count was `now`, against the outcome. The
 * randomised probability integral transform is uniform on [F(y - 1), F(y)]; instead of drawing from
 * it, its expectation is taken, so that equal inputs give equal scores. Source: Czado, Gneiting,
 * Held 2009, section 2.1. */
void spot_score_add(struct spot_score *score, const double *p, int cap, int now, int y);

/* The PIT part of it, for an outcome whose PIT is uniform on [lo, hi]; counts the outcome. */
void spot_score_add_pit(struct spot_score *score, double lo, double hi);

/* sum += part */
void spot_score_merge(struct spot_score *sum, const struct spot_score *part);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_FORECAST_SCORE_H */
