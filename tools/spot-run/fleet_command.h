/* SPDX-License-Identifier: MIT */
/* fleet_command.h - runs commands of the user, several at once, each bounded in time and output. */
#ifndef SPOT_RUN_FLEET_COMMAND_H
#define SPOT_RUN_FLEET_COMMAND_H

#include <stdbool.h>
#include <stddef.h>

#include "common/buf.h"
#include "common/err.h"

enum {
    FLEET_COMMANDS_AT_ONCE = 16,
    FLEET_COMMAND_ENV = 14,
    FLEET_OUTPUT_MAX = 64 << 20, /* bytes of standard output */
};

struct fleet_command {
    const char *script;           /* sh -c SCRIPT; its standard error is ours */
    char *env[FLEET_COMMAND_ENV]; /* NAME=VALUE, up to a NULL; freed by fleet_command_release */
    size_t out_max;               /* more output ends it */
    struct spot_buf out;          /* its standard output */
    bool is_ok;                   /* it exited with 0, in time, within its output */
    char why[96];                 /* if not */
};

struct fleet_runner;

/* Commands of more than limit_s are killed with all of their process group, and so are all if this
 * process dies. NULL with *err. */
struct fleet_runner *fleet_runner_new(double limit_s, struct spot_err *err);
void fleet_runner_free(struct fleet_runner *runner);
/* Returns when all have ended. */
void fleet_run(struct fleet_runner *runner, struct fleet_command *command, size_t n);
/* One, which must succeed: 0, or -1 with *err that begins with `what`. */
int fleet_run_one(struct fleet_runner *runner, struct fleet_command *command, const char *what,
                  struct spot_err *err);

/* Add NAME=VALUE. */
void fleet_command_set(struct fleet_command *command, const char *name, const char *value);
void fleet_command_release(struct fleet_command *command);

#endif /* SPOT_RUN_FLEET_COMMAND_H */
