/* SPDX-License-Identifier: MIT */
/* spot-run - trains and serves on machines that come and go. */
#include "cli/tool.h"
#include "run.h"

int main(int argc, char **argv)
{
    static const struct spot_cli *const command[] = {
        &run_train_command,   &run_serve_command,    &run_generate_command,
        &run_exec_command,    &run_ledger_command,   &run_commit_command,
        &run_profile_command, &run_tokenize_command, &run_worker_command,
        &run_notice_command,  &run_replan_command,   &run_roll_command,
        &run_fleet_command,   &run_stop_command,     &run_status_command,
        &run_report_command,  &run_eval_command,     &run_export_command,
        &run_import_command,  &run_audit_command,    NULL,
    };

    return spot_tool_dispatch("spot-run", "Train and serve models on machines that come and go.",
                              command, argc, argv);
}
