/* SPDX-License-Identifier: MIT */
/* forecast_make.h - from what is seen of the series to the document: what spot-predict writes, and
 * what spot-replay plans by at every interval. */
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

/* Take the points of the grids that are new and forecast every series from its newest; names are
 * borrowed from the grids. Fills series, regions and horizon of *forecast. `keeps`: what was
 * learned is used again, by a later call or a state; else it is freed. is_instances: not a load, so
 * that chains and regions are told. The answer is a function of the grids' points alone, whatever
 * the calls in which they came, as long as each grid has all points of its series. */
void spot_forecast_make(struct spot_forecast *forecast, const struct spot_forecaster *model,
                        const struct spot_fc_spec *spec, struct spot_trackeds *trackeds,
                        const struct spot_count_grids *grids, bool keeps, bool is_instances);

/* Of each series only where it is, `now`, and `shock`, whatever the model, in no time. */
void spot_forecast_make_shocks(struct spot_forecast *forecast, const struct spot_forecaster *model,
                               const struct spot_fc_spec *spec, struct spot_trackeds *trackeds,
                               const struct spot_count_grids *grids);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_FORECAST_FORECAST_MAKE_H */
