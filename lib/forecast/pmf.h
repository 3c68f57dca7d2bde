/* SPDX-License-Identifier: MIT */
/* pmf.h - probability mass functions over the counts 0..cap, as plain arrays [cap + 1]. */
#ifndef SPOT_FORECAST_PMF_H
#define SPOT_FORECAST_PMF_H

#ifdef __cplusplus
extern "C" {
#endif

/* All mass on k, which is clamped to 0..cap. */
void spot_pmf_point(double *p, int cap, int k);

/* A normal distribution rounded to the nearest count, its tails folded to 0 and cap:
 * P(k) = Phi((k + 1/2 - mean) / sd) - Phi((k - 1/2 - mean) / sd). sd below 0.05 is 0.05. */
void spot_pmf_normal(double *p, int cap, double mean, double sd);

/* p += weight * q. */
void spot_pmf_add(double *p, const double *q, int cap, double weight);

/* Divide by the sum; a distribution without mass becomes the point `fallback`. */
void spot_pmf_normalize(double *p, int cap, int fallback);

double spot_pmf_mean(const double *p, int cap);

/* The least k with P(Y <= k) >= prob. */
int spot_pmf_quantile(const double *p, int cap, double prob);

/* Ranked probability score sum_{k=0..cap} (F(k) - 1{y <= k})^2; |y - m| for a point at m.
 * Source: Epstein 1969; the CRPS of a distribution on the integers. */
double spot_pmf_crps(const double *p, int cap, int y);

/* P(Y < now). */
double spot_pmf_below(const double *p, int now);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_FORECAST_PMF_H */
