/* SPDX-License-Identifier: MIT */
/* market_grid.h - one tick of the dynamic program over places. */
#ifndef SPOT_PLAN_DEADLINE_MARKET_GRID_H
#define SPOT_PLAN_DEADLINE_MARKET_GRID_H

#include <stdbool.h>
#include <stdint.h>

#include "plan/deadline.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The current state: idle where it last ran (n_place), spot or on demand at a place with the ticks
 * since a launch in progress, 0: completed (n_place * 2 * n_age), nothing launched yet (the last).
 * Work left is on levels of unit_s. */
struct market_grid {
    const struct spot_market *market;
    int64_t n_level, n_age, n_mode;
    double unit_s, tick; /* the latter in units */
    double *buffer;      /* [2 * n_place + 1][n_level] */
};

/* parts_max: divisions of a tick, such that restarts and speeds are whole numbers of units. */
void market_grid_init(struct market_grid *grid, const struct spot_market *market, double work_s,
                      int parts_max);
void market_grid_set_unit(struct market_grid *grid, double work_s, double unit_s);
void market_grid_release(struct market_grid *grid);

int64_t market_grid_mode(const struct market_grid *grid, const struct spot_market_now *now);

/* With `ticks` left and spot available as in `has_spot` [n_place]: value [n_mode][n_level] and
 * action (may be NULL), place * 3 + mode, from next, the values a tick later. Levels below `from`
 * are not computed. */
void market_grid_relax(const struct market_grid *grid, const bool *has_spot, int64_t ticks,
                       const double *next, int64_t from, double *value, uint8_t *action);

/* The cost of running on demand at the refuge after the deadline, when the job is late. */
double market_grid_late(const struct market_grid *grid, int64_t level);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PLAN_DEADLINE_MARKET_GRID_H */
