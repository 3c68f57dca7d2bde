/* SPDX-License-Identifier: MIT */
/* bottleneck.h - the assignment that minimises the largest single cost.
 *
 * Binary search over the distinct costs, each threshold decided by bipartite matching on bit sets.
 */
#ifndef SPOT_PLAN_BOTTLENECK_H
#define SPOT_PLAN_BOTTLENECK_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* cost[n_row * n_col], INFINITY forbids a pair. Matches the shorter side in full; *least gets the
 * largest cost used (0 if there is no pair) and col_of_row[n_row] one such matching, -1 for
 * unmatched rows. False if there is none. */
bool spot_bottleneck(int n_row, int n_col, const double *cost, double *least, int *col_of_row);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PLAN_BOTTLENECK_H */
