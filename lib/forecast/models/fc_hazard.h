/* SPDX-License-Identifier: MIT */
/* fc_hazard.h - what the model `pool` uses of the model `hazard`. */
#ifndef SPOT_FORECAST_MODELS_FC_HAZARD_H
#define SPOT_FORECAST_MODELS_FC_HAZARD_H

#include "forecast/forecaster.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Mix the hazard table's forecast for the instances present into prob [horizon * (cap + 1)], a
 * forecast made at the count `now`: of the mass at and below `now` the share K / (K + losses)
 * becomes the distribution of the survivors, where `losses` is the number of intervals of the
 * series with losses, and K = 5. Mass above `now` is unchanged: a hazard table says nothing about
 * arrivals.
 *   state   of the model `hazard`, which must have observed `now`
 *   dist    scratch, as large as prob */
void spot_hazard_mix(const struct spot_fc_spec *spec, const void *state, int now, double *dist,
                     double *prob);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_FORECAST_MODELS_FC_HAZARD_H */
