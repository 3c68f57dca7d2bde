/* SPDX-License-Identifier: MIT */
/* migrate_commands.h - the commands of spot-migrate. */
#ifndef SPOT_MIGRATE_COMMANDS_H
#define SPOT_MIGRATE_COMMANDS_H

#include "cli/tool.h"

/* The rows of the table in main.c. */
extern const struct spot_command migrate_plan_command;
extern const struct spot_command migrate_assign_command;
extern const struct spot_command migrate_pack_command;
extern const struct spot_command migrate_unpack_command;
extern const struct spot_command migrate_list_command;
extern const struct spot_command migrate_extract_command;
extern const struct spot_command migrate_send_command;
extern const struct spot_command migrate_recv_command;

#endif /* SPOT_MIGRATE_COMMANDS_H */
