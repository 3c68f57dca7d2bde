/* SPDX-License-Identifier: MIT */
#include "cli/tool.h"
#include "replay.h"

int main(int argc, char **argv)
{
    static const struct spot_command command[] = {
        { "generate", "make a trace of a seeded law", replay_generate_main },
        { "describe", "show what a trace is like", replay_describe_main },
        { "import", "turn a public or cloud format into a trace", replay_import_main },
        { "live", "play a trace for real: start and kill copies of a command", replay_live_main },
        { "train", "a training job against a trace, under many policies", replay_train_main },
        { 0 },
    };

    return spot_tool_dispatch("spot-replay",
                              "Make, import, describe and replay traces of preemptible machines.",
                              command, argc, argv);
}
