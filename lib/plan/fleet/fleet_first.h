/* SPDX-License-Identifier: MIT */
/* fleet_first.h - fleets that are found without branching: they answer the load within the quotas,
 * and are the cheapest only by luck. */
#ifndef SPOT_PLAN_FLEET_FLEET_FIRST_H
#define SPOT_PLAN_FLEET_FLEET_FIRST_H

#include "plan/fleet.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Bucket by bucket, that of the fewest offers first: from the offers whose machine costs least by
 * request, as far as their quotas go. Also of slices. Returns whether all is answered. */
bool spot_fleet_first_greedy(const struct spot_fleet_demand *demand,
                             struct spot_fleet_answer *answer);

/* Counts of the relaxed program [n_offer], rounded up kind by kind. Not of slices. Returns whether
 * it is one, to within what the solver computes. */
bool spot_fleet_first_round(const struct spot_fleet_demand *demand, const double *count,
                            double deadline_s, struct spot_fleet_answer *answer);

/* Machines without which the others do are dropped, the most expensive first. Not of slices.
 * deadline_s: of processor time. */
void spot_fleet_first_drop(const struct spot_fleet_demand *demand, double deadline_s,
                           struct spot_fleet_answer *answer);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PLAN_FLEET_FLEET_FIRST_H */
