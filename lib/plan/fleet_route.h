/* SPDX-License-Identifier: MIT */
/* fleet_route.h - the minimum load that a router leaves unserved, for requests of several sizes.
 *
 * Loads and capacities may change from call to call. Prices beta >= 0 of the types prove
 *   unserved >= sum_b load_b min(1, min_g beta_g / per_s_bg) - sum_g beta_g capacity_g
 * for every load and every capacity, so the prices of earlier calls form a pool of bounds.
 */
#ifndef SPOT_PLAN_FLEET_ROUTE_H
#define SPOT_PLAN_FLEET_ROUTE_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct spot_fleet_route;

/* per_s [n_bucket][n_type], 0: that type cannot; borrowed. */
struct spot_fleet_route *spot_fleet_route_new(const double *per_s, size_t n_bucket, size_t n_type);
void spot_fleet_route_free(struct spot_fleet_route *route);

/* The minimum of requests per second left unserved, for load_per_s [n_bucket] and capacity [n_type]
 * in machines. Exact; the prices that prove it are added to the pool. */
double spot_fleet_route_left(struct spot_fleet_route *route, const double *load_per_s,
                             const double *capacity);

/* A lower bound for all splits, from the pool. */
double spot_fleet_route_below(const struct spot_fleet_route *route, const double *load_per_s,
                              const double *capacity);

/* Of the last answer: requests per second of bucket b assigned to type g, [n_bucket][n_type]. NULL
 * if there is no split. */
const double *spot_fleet_route_split(const struct spot_fleet_route *route);

/* The prices of bound i of the pool, [n_type], and min(1, min_g price_g / per_s_bg), [n_bucket];
 * false after the last. */
bool spot_fleet_route_cut(const struct spot_fleet_route *route, size_t i, const double **price,
                          const double **level);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PLAN_FLEET_ROUTE_H */
