/* SPDX-License-Identifier: MIT */
/* spot-plan - what to run on the instances that there are and will be. */

#include "cli/tool.h"
#include "plan_commands.h"

int main(int argc, char **argv)
{
    static const struct spot_cli *const command[] = {
        &plan_train_command,
        &plan_serve_command,
        &plan_fleet_command,
        &plan_deadline_command,
        &plan_share_command,
        &plan_job_command,
        NULL,
    };

    return spot_tool_dispatch("spot-plan", "Decide what runs on preemptible machines.", command,
                              argc, argv);
}
