/* SPDX-License-Identifier: MIT */
/* grid_choice.h - chooses the grid for the present members, and divides bundles into stages. */
#ifndef SPOT_TRAIN_GRID_CHOICE_H
#define SPOT_TRAIN_GRID_CHOICE_H

#include <stdint.h>

#include "model/grid.h"
#include "model/shape.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The grid for n > 0 members. `want`: the wanted grid, or zeros. A wanted grid that does not fit
 * loses pipelines, then depth, then tensor parallelism: D = n / (P M), else (1, n / M, M), else (1,
 * n / M, M) of the largest M that fits. By default every member holds everything and shares the
 * microbatches: (n, 1, 1). D <= n_microbatch, P <= n_bundle and M divides n_shard always. */
struct spot_grid spot_grid_choose(uint32_t n, const struct spot_grid *want, int64_t n_microbatch,
                                  int n_bundle, int64_t n_shard);

/* Multiply-adds of bundles [begin, end) for one sequence, up to a common factor. */
double spot_grid_cost(const struct spot_shape *shape, uint32_t begin, uint32_t end);

/* Sequential work of a step on a grid, in that unit: the slowest stage processes all microbatches
 * of the longest pipeline, the others one to fill it and one to drain it; a tensor group shares the
 * work. Communication is not included. */
double spot_grid_work(const struct spot_shape *shape, const struct spot_grid *grid,
                      int64_t n_microbatch);

/* Divide the bundles into P stages so that the slowest is as fast as possible; stage[P + 1] gets
 * the boundaries. Exact dynamic programming over multiply-adds; ties leave more to later stages. */
void spot_grid_stages(const struct spot_shape *shape, uint32_t P, uint32_t *stage);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TRAIN_GRID_CHOICE_H */
