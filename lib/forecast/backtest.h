/* SPDX-License-Identifier: MIT */
/* backtest.h - scores one model on the history of one series, from rolling origins. */
#ifndef SPOT_FORECAST_BACKTEST_H
#define SPOT_FORECAST_BACKTEST_H

#include <stddef.h>

#include "forecast/count_grid.h"
#include "forecast/forecaster.h"
#include "forecast/predictor.h"
#include "forecast/score.h"

#ifdef __cplusplus
extern "C" {
#endif

/* No origins before this one: a forecast needs some history. */
enum { SPOT_BACKTEST_ORIGIN_MIN = 30 };

/* Up to n_wanted origins from time from_s on, evenly spaced, each with a whole horizon after it.
 * Returns how many; they are distinct and sorted. */
size_t spot_backtest_origins(const struct spot_count_grid *g, size_t horizon, double from_s,
                             size_t n_wanted, size_t *origin);

struct spot_backtest {
    const struct spot_count_grid *grid;
    const struct spot_forecaster *model;
    struct spot_fc_spec spec; /* its cap is the grid's */
    const size_t *origin;     /* [n_origin] indices of the newest value known, sorted */
    size_t n_origin;
    /* called for each distribution p [cap + 1] of the value `step` after an origin; NULL: none */
    void (*dist)(void *user, size_t origin, int step, const double *p);
    void *user;
};

/* Adds to step [horizon]; prob [horizon * (cap + 1)] gets the distributions at the last origin.
 * Returns the CPU time per origin in seconds: one value observed and one forecast made. */
double spot_backtest_run(const struct spot_backtest *b, struct spot_score *step, double *prob);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_FORECAST_BACKTEST_H */
