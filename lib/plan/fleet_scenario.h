/* SPDX-License-Identifier: MIT */
/* fleet_scenario.h - joint availability of several zones, drawn from a forecast.
 *
 * A forecast has the distribution of each series at each step, but no joint distribution. A
 * scenario gives each series a normal number sqrt(all) * G + sqrt(region - all) * R + sqrt(1 -
 * region) * E with one G for all, one R per region and one E per series; its probability is the
 * rank of the series at every step (a Gaussian copula: the distribution of each series is as
 * forecast, and the ranks of two series correlate by `region` within a region and by `all` across
 * regions). If the forecast describes joint losses of a region, `region` is set so that two of its
 * zones lose instances in the same interval as often as described, but is at least `all`. A fleet
 * can count on the minimum over the steps that it must survive without replacement. If the forecast
 * gives the probability that a request is granted, then in the worst scenarios of a series, as many
 * as requests are refused, it can only count on the instances that it holds. */
#ifndef SPOT_PLAN_FLEET_SCENARIO_H
#define SPOT_PLAN_FLEET_SCENARIO_H

#include <stddef.h>
#include <stdint.h>

#include "model/forecast_doc.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_fleet_copula {
    const struct spot_forecast *forecast;
    int64_t steps;      /* that a fleet must survive, 1.. */
    double all, region; /* 0 <= all <= region <= 1 */
    uint64_t seed;
    const int64_t *held; /* [n_column] that run; NULL: none */
};

/* alike [n_series]: the correlation of ranks within the region of each; `region` of the copula
 * where the forecast does not tell it. */
void spot_fleet_alike(const struct spot_fleet_copula *copula, double *alike);

/* The series for a zone and type, SIZE_MAX: none. A series without a type applies to all. */
size_t spot_fleet_series(const struct spot_forecast *forecast, const char *zone, const char *type);

/* there [n][stride]: column k of each row gets the count of series[k]; SIZE_MAX leaves it
 * unchanged. Scenario i depends only on the seed and i. */
void spot_fleet_draw(const struct spot_fleet_copula *copula, const size_t *series, size_t n_column,
                     size_t first, size_t n, int32_t *there, size_t stride);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PLAN_FLEET_SCENARIO_H */
