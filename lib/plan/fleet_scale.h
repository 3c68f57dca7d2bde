/* SPDX-License-Identifier: MIT */
/* fleet_scale.h - when a fleet follows its load: hysteresis as SkyServe's autoscaler has it.
 *
 * The fleet wanted must have been on one side of the one held for the whole of a delay, at every
 * decision, before it is taken: up_s (default 300) where what is held does not answer the load,
 * down_s (1200) where less would do. Agreement, or a change of side, starts the clock anew. Where
 * nothing is held there is nothing to wait for.
 */
#ifndef SPOT_PLAN_FLEET_SCALE_H
#define SPOT_PLAN_FLEET_SCALE_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

enum spot_fleet_side { SPOT_FLEET_SAME, SPOT_FLEET_UP, SPOT_FLEET_DOWN };
extern const char *const spot_fleet_side_name[3];

struct spot_fleet_scale {
    enum spot_fleet_side side;
    double since_s; /* of the first decision on that side */
};

/* Now at time_s the wanted fleet is on `side` of what is held. Returns whether to take it; the
 * clock starts anew where it is taken. */
bool spot_fleet_scale_step(struct spot_fleet_scale *scale, enum spot_fleet_side side, bool is_empty,
                           double time_s, double up_s, double down_s);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PLAN_FLEET_SCALE_H */
