/* SPDX-License-Identifier: MIT */
/* spot-migrate - plans which node sends what to which, and transfers it. */

#include "migrate.h"

int main(int argc, char **argv)
{
    static const struct spot_cli *const command[] = {
        &migrate_plan_command,
        &migrate_assign_command,
        &migrate_pack_command,
        &migrate_unpack_command,
        &migrate_send_command,
        &migrate_recv_command,
        NULL,
    };

    return spot_tool_dispatch("spot-migrate", "Plan and stream the moves of tensor state.", command,
                              argc, argv);
}
