/* SPDX-License-Identifier: MIT */
/* processes.h - the real host of a supervisor: processes, time and signals of this machine. Every
 * child leads its own process group and is killed with the whole group, also when this process
 * dies. */
#ifndef SPOT_SIM_PROCESSES_H
#define SPOT_SIM_PROCESSES_H

#include <signal.h>
#include <stdbool.h>

#include "common/err.h"
#include "sim/guard.h"
#include "sim/supervisor.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_processes {
    char **command;      /* NULL-terminated, borrowed; {node} and {zone} in it are replaced */
    sigset_t child_mask; /* signal mask that children start with */
    sigset_t wait_for;   /* blocked: received only by `wait` */
    struct spot_guard guard;
    bool has_foreign; /* this process inherited children that must not be killed */
};

extern const struct spot_host spot_processes_host; /* its self is a struct spot_processes */

/* Up to n_max processes at once. Blocks signals from here on. Returns 0, or -1 with *err. */
int spot_processes_init(struct spot_processes *p, char **command, size_t n_max,
                        struct spot_err *err);

/* Kill all processes immediately, and wait for them. */
void spot_processes_release(struct spot_processes *p);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SIM_PROCESSES_H */
