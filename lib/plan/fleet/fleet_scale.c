/* SPDX-License-Identifier: MIT */
#include "plan/fleet_scale.h"

const char *const spot_fleet_side_name[3] = { "same", "up", "down" };

bool spot_fleet_scale_step(struct spot_fleet_scale *scale, enum spot_fleet_side side, bool is_empty,
                           double time_s, double up_s, double down_s)
{
    bool is_due;

    if (side != scale->side || time_s < scale->since_s)
        *scale = (struct spot_fleet_scale){ side, time_s };
    is_due =
        is_empty || (side != SPOT_FLEET_SAME &&
                     time_s - scale->since_s >= (side == SPOT_FLEET_UP ? up_s : down_s) - 1e-9);
    if (is_due)
        *scale = (struct spot_fleet_scale){ SPOT_FLEET_SAME, time_s };
    return is_due;
}
