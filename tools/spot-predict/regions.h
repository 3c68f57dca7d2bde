/* SPDX-License-Identifier: MIT */
/* regions.h - the regions of a trace that have several zones of one instance type. */
#ifndef SPOT_PREDICT_REGIONS_H
#define SPOT_PREDICT_REGIONS_H

#include "model/forecast_doc.h"
#include "predict.h"

/* *out gets an array for the caller to free; strings are borrowed from the grids. Returns how
 * many, in order of the first zone. */
size_t regions_find(const struct spot_count_grids *grids, struct spot_forecast_region **out);

#endif /* SPOT_PREDICT_REGIONS_H */
