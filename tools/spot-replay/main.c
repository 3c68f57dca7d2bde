/* SPDX-License-Identifier: MIT */
#include "cli/tool.h"
#include "replay.h"

int main(int argc, char **argv)
{
    static const struct spot_cli *const command[] = {
        &replay_generate_command, &replay_describe_command,
        &replay_import_command,   &replay_live_command,
        &replay_train_command,    &replay_serve_command,
        &replay_deadline_command, &replay_share_command,
        &replay_fleet_command,    NULL,
    };

    return spot_tool_dispatch("spot-replay",
                              "Make, import, describe and replay traces of preemptible machines.",
                              command, argc, argv);
}
