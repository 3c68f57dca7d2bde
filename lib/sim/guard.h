/* SPDX-License-Identifier: MIT */
/* guard.h - a process that outlives this one just long enough to kill its children.
 *
 * The parent-death signal reaches only direct children, and only those that did not change their
 * identity. The guard waits for the end of a pipe that only this process holds open; when it has
 * ended, for any reason, the guard kills every process group that is still in the table.
 */
#ifndef SPOT_SIM_GUARD_H
#define SPOT_SIM_GUARD_H

#include <stddef.h>
#include <sys/types.h>

#include "common/err.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_guard {
    pid_t pid;
    int pipe_fd; /* write end; closed on exec */
    size_t n_seat;
    volatile pid_t *group; /* [n_seat], shared with the guard; 0 for a free seat */
};

/* Returns 0, or -1 with *err (SPOT_ESYS). */
int spot_guard_start(struct spot_guard *guard, size_t n_seat, struct spot_err *err);

/* End and reap the guard, which kills the groups still in the table. */
void spot_guard_stop(struct spot_guard *guard);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SIM_GUARD_H */
