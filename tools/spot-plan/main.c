/* SPDX-License-Identifier: MIT */
/* spot-plan - what to run on the machines there are and will be. */

#include "cli/tool.h"
#include "plan_commands.h"

int main(int argc, char **argv)
{
    static const struct spot_command command[] = {
        { "train", "the grid a training job should run on next", plan_train_main },
        { "job", "a job document of step times that you measured", plan_job_main },
        { 0 },
    };

    return spot_tool_dispatch("spot-plan", "Decide what runs on preemptible machines.", command,
                              argc, argv);
}
