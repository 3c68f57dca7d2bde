/* SPDX-License-Identifier: MIT */
/* fleet_bound.h - lower bounds on the cost of a fleet, and offers that no optimum needs. */
#ifndef SPOT_PLAN_FLEET_FLEET_BOUND_H
#define SPOT_PLAN_FLEET_FLEET_BOUND_H

#include "plan/fleet.h"
#include "plan/lp.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_fleet_relaxed {
    double *count;           /* [n_offer] fractional; NULL unless OPTIMAL */
    double *price, *reduced; /* [n_bucket], [n_offer] at the best bound so far */
    double bound;
};

/* The cheapest fleet with fractional counts: of the offers in is_in [n_offer], adding offers that
 * would pay at its prices, until there are none. SPOT_LP_INFEASIBLE refers to the offers in is_in
 * only. deadline_s: of processor time. */
enum spot_lp_status spot_fleet_relax(const struct spot_fleet_demand *demand, bool *is_in,
                                     double deadline_s, struct spot_fleet_relaxed *relaxed);
void spot_fleet_relaxed_release(struct spot_fleet_relaxed *relaxed);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PLAN_FLEET_FLEET_BOUND_H */
