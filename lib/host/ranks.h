/* SPDX-License-Identifier: MIT */
/* ranks.h - the processes of a foreign trainer on one node; none of them is left behind.
 *
 * A single-threaded guard process between this process and the ranks starts them, adopts their
 * orphans (as a subreaper), and kills all of them when a round is over or when this process has
 * ended for any reason. It is controlled through pipes; this process never waits for a rank.
 *
 * Each rank leads its own session, has /dev/null as standard input, and in every round the same two
 * pipes for its output: a thread of this process reads them, so that no rank blocks on an absent
 * reader. A process group is killed with its rank; processes that left the group are killed when
 * the round is stopped.
 *
 * new -> [start -> ... -> stop -> SPOT_RANK_STOPPED] ... -> free
 *
 * A command that supports waiting (packaging/python/spot/hold.py) has twins: beside each rank a
 * process that has been started, waits, and becomes the rank of the next round. They outlive
 * rounds, and are killed like ranks when this process ends.
 *
 * Not thread-safe. Create it before this process has other threads, and ignore SIGPIPE. */
#ifndef SPOT_HOST_RANKS_H
#define SPOT_HOST_RANKS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "host/rank_env.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_ranks_options {
    char *const *command; /* ends with NULL */
    uint32_t n;           /* ranks, 1 to SPOT_LOCAL_RANKS_MAX */
    double stop_s;        /* from SIGTERM to SIGKILL */
    double stuck_s; /* time after SIGKILL until a process that still exists is given up; 0: 30 */
    double hang_s;  /* a rank without progress for this long is killed; 0: no limit */
    const char *errors;  /* TORCHELASTIC_ERROR_FILE of a rank is this, '.' and its index; NULL */
    const char *log_dir; /* DIR/ROUND/RANK.out and .err; NULL: none */
    bool is_cold;        /* no twins, even if the command supports waiting */
    int out_fd, err_fd;  /* each line of output, prefixed with the rank; -1: none */
    /* called when a log cannot be written, or a process is left behind; may be NULL */
    void (*warn)(const char *fmt, ...) SPOT_PRINTF(1, 2);
};

enum spot_rank_event_kind {
    SPOT_RANK_EXITED,  /* one rank ended: `local`, `status` as of wait(2) */
    SPOT_RANK_SAVED,   /* after spot_ranks_save: nothing more to wait for */
    SPOT_RANK_STOPPED, /* after spot_ranks_stop: no process of the round is left */
    SPOT_RANK_HOLDS,   /* the command supports waiting for its round; reported once */
    SPOT_RANK_WARM,    /* reported on changes; `status`: whether a twin waits for each rank */
    SPOT_RANK_STUCK,   /* internal to spot_ranks_next: `status` is the process that does not end */
};

struct spot_rank_event {
    enum spot_rank_event_kind kind;
    uint32_t round, local; /* restart_count of the ranks concerned */
    int status;
};

struct spot_ranks;

/* Texts of the options are borrowed. Standard signals are those of the caller; ranks start with the
 * defaults. NULL with *err. */
struct spot_ranks *spot_ranks_new(const struct spot_ranks_options *options, struct spot_err *err);

/* Start all ranks; no process of an earlier round may be left. If the command cannot be run, the
 * ranks exit with 127 or 126, as in a shell. Returns 0, or -1 with *err when the guard has ended;
 * so do the next three functions. */
int spot_ranks_start(struct spot_ranks *ranks, const struct spot_rank_env *env,
                     struct spot_err *err);
/* A new round is about to begin: processes that catch SIGUSR1, else SIGTERM, get it.
 * SPOT_RANK_SAVED follows when all processes that got the signal have ended, at once if there were
 * none. Processes that do not catch it are left alone. */
int spot_ranks_save(struct spot_ranks *ranks, struct spot_err *err);
/* End the round: SIGTERM to their process groups, SIGKILL after stop_s, and to all remaining
 * processes as soon as the ranks have ended. Always followed by SPOT_RANK_STOPPED, or by an error
 * of spot_ranks_next. */
int spot_ranks_stop(struct spot_ranks *ranks, struct spot_err *err);
/* Start twins before the first round, because other nodes have found that the command supports
 * waiting. */
int spot_ranks_keep_twins(struct spot_ranks *ranks, struct spot_err *err);

/* Returns 1 with the next event, 0 when there is none within wait_s, -1 with *err (SPOT_ESYS) when
 * the guard has ended, and with it all processes that it had started, or when a process that waits
 * in the kernel for a disk or a device has not ended stuck_s after SIGKILL. That process no longer
 * runs, but keeps its devices open, so this node cannot be used any more. */
int spot_ranks_next(struct spot_ranks *ranks, double wait_s, struct spot_rank_event *event,
                    struct spot_err *err);

/* For callers that poll: readable when there is an event, or the guard has ended. */
int spot_ranks_fd(const struct spot_ranks *ranks);

/* True if a process did not end after SIGKILL. */
bool spot_ranks_are_stuck(const struct spot_ranks *ranks);

/* Stop everything, wait for it, write the remaining output. A process that does not end within
 * stuck_s is left behind, with a warning. May be NULL. */
void spot_ranks_free(struct spot_ranks *ranks);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_HOST_RANKS_H */
