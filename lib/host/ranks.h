/* SPDX-License-Identifier: MIT */
/* ranks.h - the processes of a foreign trainer on one node, all of which are cleaned up.
 *
 * A guard process stands between us and the ranks: single-threaded, it starts them, adopts their
 * orphans (as a subreaper), and kills all of them when a round is over, or when we are gone for
 * whatever reason. We communicate with it through pipes and never wait for a rank.
 *
 * Each rank leads a session of its own, has /dev/null as standard input, and the same two pipes for
 * its output in every round: a thread of ours reads them, so that no rank ever blocks on a reader
 * that is gone. A process group is killed with its rank; processes that left the group are killed
 * when the round is stopped.
 *
 *   new -> [start -> ... -> stop -> SPOT_RANK_STOPPED] ... -> free
 *
 * A command that supports waiting (packaging/python/spot/hold.py) has twins: beside each rank a
 * process that has been started, waits, and becomes the rank of the next round. They outlive
 * rounds, and die as ranks do when we are gone.
 *
 * Not thread-safe. Create it before this process has other threads, and ignore SIGPIPE.
 */
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
    double stuck_s;       /* from SIGKILL until one that is still there is given up; 0: 30 */
    double hang_s;        /* a rank that has not moved for so long is killed; 0: none is */
    const char *errors;   /* TORCHELASTIC_ERROR_FILE of a rank is this, '.' and its index; NULL */
    const char *log_dir;  /* DIR/ROUND/RANK.out and .err; NULL: none */
    bool is_cold;         /* no twins, even if the command supports waiting */
    int out_fd, err_fd;   /* each line of output, prefixed with the rank; -1: none */
    /* of a log that cannot be written, and of a process that is left behind; NULL */
    void (*warn)(const char *fmt, ...) SPOT_PRINTF(1, 2);
};

enum spot_rank_event_kind {
    SPOT_RANK_EXITED,  /* one rank ended: `local`, `status` as wait(2) has it */
    SPOT_RANK_SAVED,   /* after spot_ranks_save: nothing more to wait for */
    SPOT_RANK_STOPPED, /* after spot_ranks_stop: no process of the round is left */
    SPOT_RANK_HOLDS,   /* the command supports waiting for its round; once */
    SPOT_RANK_WARM,    /* `status`: whether a twin waits for each rank; when that changes */
    SPOT_RANK_STUCK,   /* to spot_ranks_next alone: `status` is the process that does not end */
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

/* Start all of them; no process of an earlier round may be left. A command that cannot be run is a
 * rank that exits with 127 or 126, as in a shell. Returns 0, or -1 with *err when the guard is
 * gone, as do the other three. */
int spot_ranks_start(struct spot_ranks *ranks, const struct spot_rank_env *env,
                     struct spot_err *err);
/* A new round is about to begin: processes that catch SIGUSR1, else SIGTERM, get it.
 * SPOT_RANK_SAVED follows when all that got it have ended, at once if there were none. Processes
 * that do not catch it are left alone. */
int spot_ranks_save(struct spot_ranks *ranks, struct spot_err *err);
/* End the round: SIGTERM to their process groups, SIGKILL after stop_s, and to all remaining
 * processes as soon as the ranks have ended. Always followed by SPOT_RANK_STOPPED, or by an error
 * of spot_ranks_next. */
int spot_ranks_stop(struct spot_ranks *ranks, struct spot_err *err);
/* The command supports waiting, as other nodes have seen: start twins before the first round. */
int spot_ranks_keep_twins(struct spot_ranks *ranks, struct spot_err *err);

/* Returns 1 with the next event, 0 when there is none within wait_s, -1 with *err (SPOT_ESYS) when
 * the guard is gone, and with it everything that it had started, or when a process that waits in
 * the kernel, for a disk or a device, has not ended stuck_s after SIGKILL. It runs no more, but
 * holds what it has open, so this node is of no more use. */
int spot_ranks_next(struct spot_ranks *ranks, double wait_s, struct spot_rank_event *event,
                    struct spot_err *err);

/* For callers that poll: readable when there is an event, or the guard is gone. */
int spot_ranks_fd(const struct spot_ranks *ranks);

/* Was there one that did not end? Who reads the error of spot_ranks_next knows. */
bool spot_ranks_are_stuck(const struct spot_ranks *ranks);

/* Stop everything, wait for it, write the remaining output. What does not end within stuck_s is
 * left behind, with a warning. May be NULL. */
void spot_ranks_free(struct spot_ranks *ranks);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_HOST_RANKS_H */
