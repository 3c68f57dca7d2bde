/* SPDX-License-Identifier: MIT */
/* place_bound.h - a lower bound on the makespan of every placement, from cuts and thresholds.
 *
 * For a set H of senders, what only nodes of H hold must leave through their links: with one
 * position per node those bytes are additive over the pairs of a placement, so their minimum is an
 * assignment problem, and minimum / bandwidth(H) a bound. A convex combination of such sets gives a
 * bound as well (Lagrange); the weights are improved by subgradient steps, and the set that each
 * minimiser violates most is added to the family. Pairs that receive for longer than a threshold
 * are forbidden: a placement either uses one of them, or obeys the bound of the rest.
 */
#ifndef SPOT_PLAN_MIGRATION_PLACE_BOUND_H
#define SPOT_PLAN_MIGRATION_PLACE_BOUND_H

#include "plan/migration/place.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Called with each minimiser, which is a placement worth scoring. Returns the best makespan known
 * so far. */
typedef double (*spot_place_try_fn)(void *user, const int *node_of_position);

/* p->cut is not NULL, p->slots is NULL; floor_s holds for every placement, best_s is the makespan
 * of one. Returns a bound in [floor_s, best_s]. */
double spot_place_bound(const struct spot_place_problem *p, double floor_s, double best_s,
                        spot_place_try_fn ask, void *user);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PLAN_MIGRATION_PLACE_BOUND_H */
