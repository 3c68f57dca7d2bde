/* SPDX-License-Identifier: MIT */
/* run.h - shared by the commands of spot-run. */
#ifndef SPOT_RUN_RUN_H
#define SPOT_RUN_RUN_H

#include <pthread.h>
#include <stdbool.h>

#include "cli/tool.h"
#include "cluster/notice.h"
#include "common/err.h"
#include "serve/server.h"
#include "train/config.h"

/* The rows of the table in main.c. */
extern const struct spot_cli run_train_command;
extern const struct spot_cli run_serve_command;
extern const struct spot_cli run_generate_command;
extern const struct spot_cli run_exec_command;
extern const struct spot_cli run_commit_command;
extern const struct spot_cli run_ledger_command;
extern const struct spot_cli run_profile_command;
extern const struct spot_cli run_tokenize_command;
extern const struct spot_cli run_import_command;
extern const struct spot_cli run_worker_command;
extern const struct spot_cli run_notice_command;
extern const struct spot_cli run_replan_command;
extern const struct spot_cli run_fleet_command;
extern const struct spot_cli run_roll_command;
extern const struct spot_cli run_stop_command;
extern const struct spot_cli run_status_command;
extern const struct spot_cli run_report_command;
extern const struct spot_cli run_eval_command;
extern const struct spot_cli run_export_command;
extern const struct spot_cli run_audit_command;

/* --- values that users need not choose, and that tests change through the environment --- */

/* The number in the environment under this name, SPOT_TEST_..., or `usual`. Names:
 *   SPOT_TEST_STATE_TIMEOUT_S  limit of a state command through which no byte moves
 *   SPOT_TEST_STORE_LEASE_S    a coordinator not heard from for this long stops leading
 *   SPOT_TEST_ENGINE_START_S   an engine that is not ready after this time is abandoned
 *   SPOT_TEST_ENGINE_SILENT_S  an engine's answer has stopped if no token came for this long
 *   SPOT_TEST_ENGINE_ROOM      an engine that has grown restarts below this many free bytes
 *   SPOT_TEST_FLEET_REST_S     after this time without requests a fleet holds no machines
 *   SPOT_TEST_STALL_S          a worker that makes no progress for this long is dropped
 *   SPOT_TEST_PRECOPY_BYTE     moves of this size or more are pre-copied
 *   SPOT_TEST_STOP_TIME_S      time of a rank from SIGTERM to SIGKILL
 *   SPOT_TEST_MIRROR_RATE      bytes per second of commits sent between nodes; 0: no limit
 *   SPOT_TEST_FINISH_S         limit at the end of a job without progress of the last commit
 *   SPOT_TEST_STATE_LIMIT      bytes of the commits that a node holds
 *   SPOT_TEST_WARM_UP          steps of a profile before it measures
 *   SPOT_TEST_FIRST            workers that must have joined before the first epoch
 *   SPOT_TEST_BUDDIES          0: no stage is mirrored on another failure domain */
double derived(const char *name, double usual);

/* --- requests of a rank of exec to its agent --- */

#define RANK_UNSAID UINT64_MAX
/* A number from the environment of a rank, else `usual`. Returns 0, or -1 with *err. */
int rank_variable(const char *name, uint64_t usual, uint64_t *value, struct spot_err *err);
/* Writes nothing if the value is RANK_UNSAID. */
void rank_put(struct spot_jw *jw, const char *key, uint64_t value);

/* --- the value of --device: a kind of kernel, and which CUDA device --- */

struct device_option {
    char kind[SPOT_KERNEL_NAME_MAX]; /* "auto", "cpu", "cuda", or the name of a kernel */
    /* number of the CUDA device: "auto", or digits within the text */
    const char *number;
};

/* Parses "auto", "cpu", "cuda", "cuda:1", "fma", "cuda-fp32:0". Does not check that such a kernel
 * exists. Returns 0, or -1 with *err (SPOT_EUSAGE). */
int device_option_parse(const char *text, struct device_option *device, struct spot_err *err);

/* --- the option --template-time --- */

/* Use this time for all chats of this process; NULL: the current time. Returns 0, or -1 with *err
 * (SPOT_EUSAGE). */
int template_time_parse(const char *text, struct spot_err *err);

/* --- the weights of a running job, as model directories in memory for a server --- */

/* Parses "ADDR" or "ADDR,N": follow the weights of the job there, every N commits (default 1). Sets
 * `follow` and `drop` of the server, whose model and key file it uses. Returns 0, or -1 with *err.
 */
int serve_follow_begin(const char *text, struct spot_server_options *server, struct spot_err *err);
void serve_follow_end(void); /* may be called if nothing is followed */

/* --- notices that the machine of a worker or of an exec node will be taken away; they have the
 * same effect as SIGTERM --- */

struct leave_on_notice {
    struct spot_notice_options watched; /* from the options; `from` NULL: no source of notices */
    bool on_rebalance, is_quiet;
    pthread_t thread; /* the thread that handles SIGTERM */
    struct spot_notice_watch *watch;
};

/* If `from` is "aws@http://ADDRESS[:PORT]", that address is used instead of the cloud's. To be
 * called once. */
void notice_split(struct spot_notice_options *o);

/* Call it from the thread that handles SIGTERM. Returns 0, or -1 with *err. Must be stopped in
 * either case; `leave` must stay valid until then. */
int leave_on_notice_start(struct leave_on_notice *leave, struct spot_err *err);
void leave_on_notice_stop(struct leave_on_notice *leave);

#endif /* SPOT_RUN_RUN_H */
