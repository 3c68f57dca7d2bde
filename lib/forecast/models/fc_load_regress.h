/* SPDX-License-Identifier: MIT */
/* fc_load_regress.h - a load `step` intervals on, as a regression on where its levels stand now.
 *
 *   y(t + step) = long(t) + b1 (short - long)(t) + b2 (quick - short)(t) + b3 (trend - short)(t)
 *
 * long and short are means of the newest 60 and 12 values, quick a smoothed level, trend a damped
 * one told `step` ahead. So b1 says how much of a level is kept so long, b2 and b3 how much of what
 * is newer: one negative binomial between the windows, where a mixture is as wide as all of them.
 * b by discounted ridge regression around (1, 0, 0), the mean of 12, in units of a Poisson spread;
 * the variance is that of what it told before. Source: Hoerl and Kennard 1970.
 */
#ifndef SPOT_FORECAST_MODELS_FC_LOAD_REGRESS_H
#define SPOT_FORECAST_MODELS_FC_LOAD_REGRESS_H

#include "forecast/models/fc_load_mix.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Of weight 1. Only pairs of values that lie `step` apart in the past are learned from. */
struct spot_load_part spot_load_regress(const struct spot_load_mix *mix, int step);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_FORECAST_MODELS_FC_LOAD_REGRESS_H */
