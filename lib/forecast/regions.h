/* SPDX-License-Identifier: MIT */
/* regions.h - joint losses of the zones of each region that has several zones of one instance
 * type. */
#ifndef SPOT_FORECAST_REGIONS_H
#define SPOT_FORECAST_REGIONS_H

#include "forecast/count_grid.h"
#include "model/forecast_doc.h"

#ifdef __cplusplus
extern "C" {
#endif

/* *out gets an array for the caller to free; strings are borrowed from the grids. Returns the
 * number of regions, in order of the first zone. */
size_t spot_regions_find(const struct spot_count_grids *grids, struct spot_forecast_region **out);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_FORECAST_REGIONS_H */
