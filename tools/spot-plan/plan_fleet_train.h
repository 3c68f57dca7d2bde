/* SPDX-License-Identifier: MIT */
/* plan_fleet_train.h - spot-plan fleet --kind train. */
#ifndef SPOT_PLAN_PLAN_FLEET_TRAIN_H
#define SPOT_PLAN_PLAN_FLEET_TRAIN_H

#include "cli/tool.h"

struct plan_fleet_train {
    const struct spot_tool_common *common;
    const char *job, *catalogue, *forecast, *market, *solver, *current;
    double loss, loss_now, samples, deadline_s, restart_s, loss_per_h;
    bool explain;
};

int plan_fleet_train(const struct plan_fleet_train *options, struct spot_err *err);

#endif /* SPOT_PLAN_PLAN_FLEET_TRAIN_H */
