/* SPDX-License-Identifier: MIT */
/* fc_hazard.h - what the pool takes from the model `hazard`. */
#ifndef SPOT_FORECAST_MODELS_FC_HAZARD_H
#define SPOT_FORECAST_MODELS_FC_HAZARD_H

#include "forecast/forecaster.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Mix into prob [horizon * (cap + 1)], a forecast made at the count `now`, what the table says of
 * the instances that are there: of the mass on `now` and below it the share K / (K + losses)
 * becomes the distribution of the survivors, where `losses` are the intervals of the series that
 * had some, and K = 5. What lies above stays: a table of hazards says nothing about arrivals.
 *   state   of the model `hazard`, which must have observed `now`
 *   dist    scratch, as large as prob */
void spot_hazard_mix(const struct spot_fc_spec *spec, const void *state, int now, double *dist,
                     double *prob);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_FORECAST_MODELS_FC_HAZARD_H */
