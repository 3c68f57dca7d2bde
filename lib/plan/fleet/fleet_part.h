/* SPDX-License-Identifier: MIT */
/* fleet_part.h - a demand with some of its offers, and its answer as one of the whole demand. */
#ifndef SPOT_PLAN_FLEET_FLEET_PART_H
#define SPOT_PLAN_FLEET_FLEET_PART_H

#include "plan/fleet.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_fleet_part {
    const struct spot_fleet_demand *whole;
    struct spot_fleet_demand demand; /* its offers and rates are those below */
    struct spot_fleet_offer *offer;
    double *per_s;
    size_t *of; /* [whole->n_offer] the part's offer, SIZE_MAX: not in it */
};

/* The offers with is_in [n_offer]. */
void spot_fleet_part_pick(struct spot_fleet_part *part, const struct spot_fleet_demand *whole,
                          const bool *is_in);
void spot_fleet_part_release(struct spot_fleet_part *part);

/* The answer to the part becomes one to the whole. */
void spot_fleet_part_expand(const struct spot_fleet_part *part, struct spot_fleet_answer *answer);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PLAN_FLEET_FLEET_PART_H */
