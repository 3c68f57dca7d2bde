/* SPDX-License-Identifier: MIT */
/* fleet_scale.h - when a fleet follows its load: hysteresis as in SkyServe's autoscaler.
 *
 * A wanted fleet is adopted only when it has been larger, or smaller, than the current one for a
 * whole delay, at every decision: up_s (default 300) if the current fleet does not serve the load,
 * down_s (1200) if less would suffice. Equality, or a change of side, restarts the clock. Without a
 * current fleet there is no delay.
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

/* At time_s the wanted fleet is on `side` of the current one. Returns true if it should be adopted,
 * which restarts the clock. */
bool spot_fleet_scale_step(struct spot_fleet_scale *scale, enum spot_fleet_side side, bool is_empty,
                           double time_s, double up_s, double down_s);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PLAN_FLEET_SCALE_H */
