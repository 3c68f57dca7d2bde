/* SPDX-License-Identifier: MIT */
/* fan.h - figures of forecasts: the fan of a distribution over time, and how calibrated
 * distributions were. */
#ifndef SPOT_PREDICT_FAN_H
#define SPOT_PREDICT_FAN_H

#include "cli/plot.h"
#include "predict.h"

enum { FAN_SERIES = 5, FAN_PAST = 60 };

/* The panel of one fan and the arrays it draws. */
struct fan {
    char title[160];
    struct spot_series series[FAN_SERIES];
    struct spot_figure figure;
    double *data;
};

/* The newest counts known at index `origin` of the grid, 50 % and 90 % bands of the distributions
 * prob [horizon * (cap + 1)], their median, and what came where the grid knows it. */
void fan_make(struct fan *fan, const struct spot_count_grid *g, size_t origin, const double *prob,
              int horizon, const char *model);
void fan_release(struct fan *fan);

#endif /* SPOT_PREDICT_FAN_H */
