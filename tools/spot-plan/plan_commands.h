/* SPDX-License-Identifier: MIT */
/* plan_commands.h - the subcommands of spot-plan. */
#ifndef SPOT_PLAN_COMMANDS_H
#define SPOT_PLAN_COMMANDS_H

#include "cli/tool.h"

/* The rows of the table in main.c. */
extern const struct spot_command plan_train_command;
extern const struct spot_command plan_serve_command;
extern const struct spot_command plan_fleet_command;
extern const struct spot_command plan_deadline_command;
extern const struct spot_command plan_share_command;
extern const struct spot_command plan_job_command;

#endif /* SPOT_PLAN_COMMANDS_H */
