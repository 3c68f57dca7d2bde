/* SPDX-License-Identifier: MIT */
/* price_dist.h - the distribution of a price as points with probabilities, and its scores. */
#ifndef SPOT_FORECAST_PRICE_DIST_H
#define SPOT_FORECAST_PRICE_DIST_H

#include <stddef.h>

#include "forecast/score.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_price_point {
    double usd_per_h, prob;
};

/* point [n], n >= 1, prices strictly ascending, probabilities above 0 with sum 1. */
struct spot_price_dist {
    size_t n, cap;
    struct spot_price_point *point;
};

void spot_price_dist_add(struct spot_price_dist *dist, double usd_per_h, double prob);
/* Sort, merge equal prices, normalise the sum to 1: call it after the last add. */
void spot_price_dist_settle(struct spot_price_dist *dist);
void spot_price_dist_clear(struct spot_price_dist *dist); /* keeps the memory */
void spot_price_dist_release(struct spot_price_dist *dist);

double spot_price_dist_mean(const struct spot_price_dist *dist);
/* The least price that is not exceeded with probability `prob`. */
double spot_price_dist_quantile(const struct spot_price_dist *dist, double prob);
double spot_price_dist_below(const struct spot_price_dist *dist, double usd_per_h);   /* P(Y < ) */
double spot_price_dist_at_most(const struct spot_price_dist *dist, double usd_per_h); /* P(Y <= ) */

/* Integral of (F(x) - 1{x >= y})^2, usd/h: twice the pinball loss averaged over all quantiles. */
double spot_price_dist_crps(const struct spot_price_dist *dist, double y);

/* Adds the score of a forecast made at price `now` with outcome `y` (score.h; the drop is a lower
 * price); pinball gets the mean loss of the quantiles .05, .15 .. .95. */
void spot_price_dist_score(const struct spot_price_dist *dist, double now, double y,
                           struct spot_score *score, double *pinball);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_FORECAST_PRICE_DIST_H */
