/* SPDX-License-Identifier: MIT */
/* grid_window.h - the few grids that a plan for many instances considers.
 *
 * Counts move little within a plan's horizon, and of all grids for a count only the fastest few
 * are ever run. */
#ifndef SPOT_PLAN_TRAIN_GRID_WINDOW_H
#define SPOT_PLAN_TRAIN_GRID_WINDOW_H

#include "model/throughput.h"

#ifdef __cplusplus
extern "C" {
#endif

/* For every count n_low..n_high the fastest and the widest grid of each of the best `n_stage` stage
 * counts, and D x P if d > 0; ascending as in throughput->grid_order, grid[] has room for
 * throughput->n_grid. Returns how many. */
int spot_grid_window(const struct spot_throughput *throughput, int n_low, int n_high, int n_stage,
                     int d, int p, int *grid);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PLAN_TRAIN_GRID_WINDOW_H */
