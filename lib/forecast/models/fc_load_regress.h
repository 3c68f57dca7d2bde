/* SPDX-License-Identifier: MIT */
/* fc_load_regress.h - a load `step` intervals ahead, as a regression on its current levels.
 *
 *   y(t + step) = long(t) + b1 (short - long)(t) + b2 (quick - short)(t) + b3 (trend - short)(t)
 *
 * long and short are means of the newest 60 and 12 values, quick a smoothed level, trend a damped
 * one extrapolated `step` ahead. So b1 is the share of a level that persists for that time, b2 and
 * b3 the shares of newer movements: one negative binomial between the windows, where a mixture
 * would be as wide as all of them. b by discounted ridge regression around (1, 0, 0), the mean of
 * 12, in units of a Poisson spread; the variance is that of its earlier forecasts. Source: Hoerl
 * and Kennard 1970.
 */
#ifndef SPOT_FORECAST_MODELS_FC_LOAD_REGRESS_H
#define SPOT_FORECAST_MODELS_FC_LOAD_REGRESS_H

#include "forecast/models/fc_load_mix.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A part of weight 1. Learns only from pairs of values that are `step` apart in the past. */
struct spot_load_part spot_load_regress(const struct spot_load_mix *mix, int step);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_FORECAST_MODELS_FC_LOAD_REGRESS_H */
