/* SPDX-License-Identifier: MIT */
/* fleet_first.h - fleets found without branching: they serve the load within the quotas, but are
 * not necessarily the cheapest. */
#ifndef SPOT_PLAN_FLEET_FLEET_FIRST_H
#define SPOT_PLAN_FLEET_FLEET_FIRST_H

#include "plan/fleet.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Serves bucket by bucket, those with the fewest offers first, from the offers with the lowest cost
 * per request, as far as their quotas allow. Returns whether everything is served. */
bool spot_fleet_first_greedy(const struct spot_fleet_demand *demand,
                             struct spot_fleet_answer *answer);

/* Counts of the relaxed program [n_offer], rounded up kind by kind. Returns whether
 * it serves the load, within the solver's precision. */
bool spot_fleet_first_round(const struct spot_fleet_demand *demand, const double *count,
                            double deadline_s, struct spot_fleet_answer *answer);

/* True if these numbers of machines suffice; then `answer` has that many of each kind, and a
 * split. */
bool spot_fleet_first_split(const struct spot_fleet_demand *demand, const int64_t *count,
                            double deadline_s, struct spot_fleet_answer *answer);

/* Drop machines that the others can replace, the most expensive first. deadline_s:
 * of processor time. */
void spot_fleet_first_drop(const struct spot_fleet_demand *demand, double deadline_s,
                           struct spot_fleet_answer *answer);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PLAN_FLEET_FLEET_FIRST_H */
