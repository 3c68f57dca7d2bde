/* SPDX-License-Identifier: MIT */
/* spot-migrate - who sends what to whom, and the sending. */

#include "migrate.h"
#include "migrate_commands.h"

int main(int argc, char **argv)
{
    static const struct spot_command command[] = {
        { "plan", "who sends what to whom when the grid changes", migrate_plan_main },
        { "assign", "solve assignment problems, each with its proof", migrate_assign_main },
        { "pack", "safetensors to a verified .zst stream", migrate_pack },
        { "unpack", "a stream back to the very file", migrate_unpack },
        { "verify", "check every hash of a stream", migrate_verify },
        { "list", "the tensors of a stream", migrate_list },
        { "extract", "one tensor of a stream", migrate_extract },
        { "send", "move a file to another machine", migrate_send },
        { "recv", "take a file that is moved here", migrate_recv },
        { "bench", "measure codecs and copies here", migrate_bench },
        { 0 },
    };

    return spot_tool_dispatch("spot-migrate", "Plan and stream the moves of tensor state.", command,
                              argc, argv);
}
