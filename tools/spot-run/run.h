/* SPDX-License-Identifier: MIT */
/* run.h - the commands of spot-run. */
#ifndef SPOT_RUN_RUN_H
#define SPOT_RUN_RUN_H

#include "cli/tool.h"

/* The rows of the table in main.c. */
extern const struct spot_command run_train_command;
extern const struct spot_command run_serve_command;
extern const struct spot_command run_generate_command;
extern const struct spot_command run_exec_command;
extern const struct spot_command run_commit_command;
extern const struct spot_command run_ledger_command;
extern const struct spot_command run_profile_command;
extern const struct spot_command run_tokenize_command;
extern const struct spot_command run_import_command;
extern const struct spot_command run_worker_command;
extern const struct spot_command run_notice_command;
extern const struct spot_command run_replan_command;
extern const struct spot_command run_fleet_command;
extern const struct spot_command run_roll_command;
extern const struct spot_command run_stop_command;
extern const struct spot_command run_status_command;
extern const struct spot_command run_report_command;
extern const struct spot_command run_eval_command;
extern const struct spot_command run_export_command;
extern const struct spot_command run_audit_command;

#endif /* SPOT_RUN_RUN_H */
