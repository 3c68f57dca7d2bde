/* SPDX-License-Identifier: MIT */
/* fleet_recourse.h - the share of the load that a capacity by type leaves unserved, and its
 * globally valid cuts (fleet_risk.h). */
#ifndef SPOT_PLAN_FLEET_FLEET_RECOURSE_H
#define SPOT_PLAN_FLEET_FLEET_RECOURSE_H

#include "plan/fleet_risk.h"
#include "plan/fleet_route.h"
#include "plan/lp.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_fleet_recourse {
    const struct spot_fleet_risk *risk;
    double rate_per_s; /* sum over buckets */
    double *load;      /* [n_bucket] as parts of the sum */
    double *room;      /* [n_type] scratch */
    struct spot_fleet_route *route;
    double *price;   /* [n_cut][n_type] price of a machine, in parts of the load */
    double *level;   /* [n_cut] */
    double *known;   /* [n_known][n_type + 1] capacities and their unserved shares */
    uint32_t *table; /* [n_table] index + 1 into known, 0: empty */
    double *enough;  /* [n_enough][n_type] capacities that serve everything */
    size_t *some;    /* [n_type] scratch: types of which there is capacity */
    size_t n_cut, n_known, n_table, n_enough, cap_price, cap_level, cap_known, cap_enough, n_solved;
};

void spot_fleet_recourse_init(struct spot_fleet_recourse *r, const struct spot_fleet_risk *risk);
void spot_fleet_recourse_release(struct spot_fleet_recourse *r);

/* capacity [n_type], machines. The exact unserved share; a new cut is added to the pool. */
double spot_fleet_recourse_at(struct spot_fleet_recourse *r, const double *capacity);

/* A lower bound from the pool, and its cut (SIZE_MAX: none is above 0). */
double spot_fleet_recourse_below(const struct spot_fleet_recourse *r, const double *capacity,
                                 size_t *cut);

/* The split of each bucket at a capacity: share [n_bucket][n_type], sums of 1 if all is served. */
void spot_fleet_recourse_split(struct spot_fleet_recourse *r, const double *capacity,
                               double *share);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PLAN_FLEET_FLEET_RECOURSE_H */
