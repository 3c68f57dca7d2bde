/* SPDX-License-Identifier: MIT */
/* fleet_season.h - the load of the next ticks from those that came, where it may repeat.
 *
 * For each lag of 1 to SPOT_FLEET_LAGS ticks it is known how well the load of so long before has
 * told that of now, of late. The best lag of those that reach far enough speaks for a tick ahead:
 * a lag of one tick where nothing repeats, that of a day or of a job where something does. How far
 * it was off of late is the distribution. A second one is what came after ticks whose load was like
 * the last; it speaks where fleets chosen by it would have cost less of late.
 */
#ifndef SPOT_SIM_FLEET_SEASON_H
#define SPOT_SIM_FLEET_SEASON_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_FLEET_LAGS = 576, SPOT_FLEET_LOADS = 8 };

/* Part i of n that rise, as a few: those from [i] to [i + 1], finer at the top. */
void spot_fleet_season_parts(size_t n, size_t from[SPOT_FLEET_LOADS + 1]);

struct spot_fleet_season;

/* Loads of n_bucket sizes, asked for up to n_ahead ticks ahead. */
struct spot_fleet_season *spot_fleet_season_new(size_t n_bucket, size_t n_ahead);
void spot_fleet_season_free(struct spot_fleet_season *season);

/* A tick is over, in which load [n_bucket] came. */
void spot_fleet_season_step(struct spot_fleet_season *season, const double *load);

/* The load of the tick `ahead` (1: the next, n_ahead at most) as SPOT_FLEET_LOADS loads at most:
 * load [SPOT_FLEET_LOADS][n_bucket], weight [SPOT_FLEET_LOADS] of sum 1. Returns how many; one
 * tick at least must have come. */
size_t spot_fleet_season_next(const struct spot_fleet_season *season, size_t ahead, double *load,
                              double *weight);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SIM_FLEET_SEASON_H */
