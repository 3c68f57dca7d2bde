/* SPDX-License-Identifier: MIT */
/* plan_fleet_hold.h - spot-plan fleet --kind replicas. */
#ifndef SPOT_PLAN_PLAN_FLEET_HOLD_H
#define SPOT_PLAN_PLAN_FLEET_HOLD_H

#include <stdint.h>

#include "cli/tool.h"
#include "plan/fleet_hold.h"

struct plan_fleet_hold {
    const struct spot_tool_common *common;
    const char *catalogue, *forecast, *current, *state, *requests;
    uint64_t n;
    double availability, cold_s; /* cold_s 0: a step of the forecast */
    double per_replica;          /* requests a second, of `requests` */
};

int plan_fleet_hold(const struct plan_fleet_hold *options, struct spot_err *err);

#endif /* SPOT_PLAN_PLAN_FLEET_HOLD_H */
