/* SPDX-License-Identifier: MIT */
/* replay.h - the subcommands of spot-replay, one file each. */
#ifndef SPOT_REPLAY_REPLAY_H
#define SPOT_REPLAY_REPLAY_H

#include "cli/tool.h"

/* The rows of the table in main.c. */
extern const struct spot_command replay_generate_command;
extern const struct spot_command replay_describe_command;
extern const struct spot_command replay_import_command;
extern const struct spot_command replay_live_command;
extern const struct spot_command replay_train_command;
extern const struct spot_command replay_serve_command;
extern const struct spot_command replay_deadline_command;
extern const struct spot_command replay_share_command;
extern const struct spot_command replay_fleet_command;
extern const struct spot_command replay_price_command;

/* --policy list of a kind (peers/registry.h). */
void replay_list(const char *kind);

#endif /* SPOT_REPLAY_REPLAY_H */
