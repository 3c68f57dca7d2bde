/* SPDX-License-Identifier: MIT */
/* migrate_commands.h - the subcommands that decide; each returns the exit status. */
#ifndef SPOT_MIGRATE_COMMANDS_H
#define SPOT_MIGRATE_COMMANDS_H

int migrate_assign_main(int argc, char **argv);
int migrate_plan_main(int argc, char **argv);

#endif /* SPOT_MIGRATE_COMMANDS_H */
