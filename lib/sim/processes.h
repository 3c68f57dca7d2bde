/* SPDX-License-Identifier: MIT */
/* processes.h - the host of a supervisor that is this machine: real processes, time and signals.
 * Every child leads a process group of its own and is killed with the whole group, also when we
 * die. */
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
    sigset_t child_mask; /* what children start with */
    sigset_t wait_for;   /* blocked: taken by `wait` alone */
    struct spot_guard guard;
    bool has_foreign; /* we inherited children that we must not kill */
};

extern const struct spot_host spot_processes_host; /* its self is a struct spot_processes */

/* Up to n_max processes at once. Signals are held from here on. Returns 0, or -1 with *err. */
int spot_processes_init(struct spot_processes *p, char **command, size_t n_max,
                        struct spot_err *err);

/* Kill everything at once, whatever happens, and wait for it. */
void spot_processes_release(struct spot_processes *p);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SIM_PROCESSES_H */
