/* SPDX-License-Identifier: MIT */
/* fleet_part.h - a demand restricted to some of its offers, and the mapping back of its answer. */
#ifndef SPOT_PLAN_FLEET_FLEET_PART_H
#define SPOT_PLAN_FLEET_FLEET_PART_H

#include "plan/fleet.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_fleet_part {
    const struct spot_fleet_demand *whole;
    struct spot_fleet_demand demand; /* its offers and rates point to the members below */
    struct spot_fleet_offer *offer;
    double *per_s;
    size_t *of; /* [whole->n_offer] index in the part, SIZE_MAX: not in it */
};

/* Take the offers with is_in [n_offer]. */
void spot_fleet_part_pick(struct spot_fleet_part *part, const struct spot_fleet_demand *whole,
                          const bool *is_in);
void spot_fleet_part_release(struct spot_fleet_part *part);

/* Convert the answer for the part to one for the whole. */
void spot_fleet_part_expand(const struct spot_fleet_part *part, struct spot_fleet_answer *answer);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PLAN_FLEET_FLEET_PART_H */
