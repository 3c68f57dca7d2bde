/* SPDX-License-Identifier: MIT */
/* forecast_make.h - makes the forecast document from the observed series: the one that spot-predict
 * writes, and that spot-replay uses for its plans at every interval. */
#ifndef SPOT_FORECAST_FORECAST_MAKE_H
#define SPOT_FORECAST_FORECAST_MAKE_H

#include <stdbool.h>

#include "forecast/count_grid.h"
#include "forecast/forecaster.h"
#include "forecast/tracked.h"
#include "model/forecast_doc.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Observe the new points of the grids and forecast every series from its newest; names are borrowed
 * from the grids. Fills series, regions and horizon of *forecast. `keeps`: the learned state is
 * kept for a later call or a file; else it is freed. is_instances: the series are instances, not a
 * load, so chains and regions are included. The result depends only on the grids' points, not on
 * how they are divided over calls, as long as each grid has all points of its series. */
void spot_forecast_make(struct spot_forecast *forecast, const struct spot_forecaster *model,
                        const struct spot_fc_spec *spec, struct spot_trackeds *trackeds,
                        const struct spot_count_grids *grids, bool keeps, bool is_instances);

/* Fast: fills only zone, type, `now` and `shock` of each series, for any model. */
void spot_forecast_make_shocks(struct spot_forecast *forecast, const struct spot_forecaster *model,
                               const struct spot_fc_spec *spec, struct spot_trackeds *trackeds,
                               const struct spot_count_grids *grids);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_FORECAST_FORECAST_MAKE_H */
