/* SPDX-License-Identifier: MIT */
/* fleet_season.h - forecasts the load of the next ticks from the past, using repetition if there is
 * any.
 *
 * For each lag of 1 to SPOT_FLEET_LAGS ticks it tracks the recent error of predicting the load by
 * the load `lag` ticks before. For each future tick the best lag that is long enough is used: a
 * short one if nothing repeats, a day or the period of a job if something does. Its recent errors
 * give the distribution. A second distribution is that of the loads that followed loads similar to
 * the last one; it is used if fleets chosen by it would recently have cost less. */
#ifndef SPOT_SIM_FLEET_SEASON_H
#define SPOT_SIM_FLEET_SEASON_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_FLEET_LAGS = 576, SPOT_FLEET_LOADS = 8 };

/* Divide n ascending values into a few parts, from[i] to from[i + 1], finer at the top. */
void spot_fleet_season_parts(size_t n, size_t from[SPOT_FLEET_LOADS + 1]);

struct spot_fleet_season;

/* Loads of n_bucket sizes, forecast up to n_ahead ticks ahead. */
struct spot_fleet_season *spot_fleet_season_new(size_t n_bucket, size_t n_ahead);
void spot_fleet_season_free(struct spot_fleet_season *season);

/* Observe a tick with load [n_bucket]. */
void spot_fleet_season_step(struct spot_fleet_season *season, const double *load);

/* Forecast the tick `ahead` (1: the next, at most n_ahead) as at most SPOT_FLEET_LOADS loads: load
 * [SPOT_FLEET_LOADS][n_bucket], weight [SPOT_FLEET_LOADS] with sum 1. Returns their number; at
 * least one tick must have been observed. */
size_t spot_fleet_season_next(const struct spot_fleet_season *season, size_t ahead, double *load,
                              double *weight);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SIM_FLEET_SEASON_H */
