/* SPDX-License-Identifier: MIT */
/* ranks_state.h - shared by ranks.c and the guard; private to lib/host. */
#ifndef SPOT_HOST_RANKS_STATE_H
#define SPOT_HOST_RANKS_STATE_H

#include <stddef.h>
#include <sys/types.h>

#include "host/ranks.h"

#ifdef __cplusplus
extern "C" {
#endif

enum spot_rank_order { SPOT_RANK_START, SPOT_RANK_SAVE, SPOT_RANK_STOP, SPOT_RANK_KEEP_TWINS };

/* Written to a pipe in one piece: below PIPE_BUF. */
struct spot_rank_command {
    enum spot_rank_order order;
    struct spot_rank_env env; /* START */
};

/* What the guard inherits from us. */
struct spot_rank_guard {
    const struct spot_ranks_options *options;
    int command_fd, event_fd; /* end of file on command_fd means that the agent has ended */
    int (*out)[2]; /* [n + 1], write ends for standard output and error; the last: node */
};

/* Exit status of the guard, which otherwise exits with 0: a process did not end. */
enum { SPOT_GUARD_LEFT_ONE = 3 };
void spot_rank_guard_run(const struct spot_rank_guard *guard);

/* rank_kill.c: send SIGKILL to every child of this process except `keep`, and to those it adopts as
 * a result. Returns 0, or a process that still exists after limit_s: it waits in the kernel for a
 * disk or a device. */
pid_t spot_rank_kill_children(const pid_t *keep, size_t n_keep, double limit_s);
/* Send SIGUSR1 to the process if it catches that, else to its descendants that do; if none does,
 * the same with SIGTERM. Returns the number of processes signalled. */
size_t spot_rank_tell(pid_t pid);
enum { SPOT_RANK_CHILDREN_MAX = 1024 };
size_t spot_rank_children(pid_t pid, pid_t child[SPOT_RANK_CHILDREN_MAX]);

/* rank_pulse.c: detects ranks without progress. */
struct spot_rank_pulse {
    pid_t pid;
    unsigned long long ticks, byte;
    double looked_s, since_s, killed_s;
};
/* True when the rank has made no progress for limit_s. */
bool spot_rank_pulse_look(struct spot_rank_pulse *pulse, pid_t pid, double limit_s);
/* Write to fd where in the kernel its threads wait. */
void spot_rank_pulse_tell(int fd, pid_t pid, uint32_t rank, double limit_s);
void spot_rank_pulse_probe(pid_t pid) __attribute__((noreturn));

#ifdef __cplusplus
}
#endif

#endif /* SPOT_HOST_RANKS_STATE_H */
