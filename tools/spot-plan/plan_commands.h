/* SPDX-License-Identifier: MIT */
/* plan_commands.h - the subcommands of spot-plan. */
#ifndef SPOT_PLAN_COMMANDS_H
#define SPOT_PLAN_COMMANDS_H

int plan_train_main(int argc, char **argv);
int plan_job_main(int argc, char **argv);

#endif /* SPOT_PLAN_COMMANDS_H */
