/* SPDX-License-Identifier: MIT */
/* ranks.h - the processes of someone else's trainer on one node, and nothing of them left behind.
 *
 * Between us and the ranks stands a guard: a process of one thread that starts them, adopts
 * whatever they leave behind (it is a subreaper), and kills all of that when a round is over, or
 * when we are gone, however we went. We talk to it through pipes and never wait for a rank.
 *
 * Each rank leads a session of its own, has /dev/null as standard input, and the same two pipes for
 * its output in every round: a thread of ours empties them, so that no rank ever waits for a reader
 * that is gone. A process group goes with its rank; what has left the group goes when the round is
 * stopped.
 *
 *   new -> [start -> ... -> stop -> SPOT_RANK_STOPPED] ... -> free
 *
 * A command that can wait (examples/pytorch/spot_hold.py) has twins: beside each rank a process of
 * it that has begun, waits, and becomes the rank of the next round. They outlive rounds, and die as
 * ranks do when we are gone.
 *
 * Not thread-safe. Make it before this process has other threads, and ignore SIGPIPE.
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
    const char *hook;     /* run by sh(1) when the ranks are to save; NULL: they get SIGUSR1 */
    const char *log_dir;  /* DIR/ROUND/RANK.out and .err; NULL: none */
    bool is_cold;         /* no twins, also of a command that can wait */
    int out_fd, err_fd;   /* each line of theirs, with the rank in front; -1: nowhere */
    void (*warn)(const char *fmt, ...) SPOT_PRINTF(1, 2); /* of a log that cannot be written */
};

enum spot_rank_event_kind {
    SPOT_RANK_EXITED,  /* one rank ended: `local`, `status` as wait(2) has it */
    SPOT_RANK_SAVED,   /* after spot_ranks_save: nothing more is waited for */
    SPOT_RANK_STOPPED, /* after spot_ranks_stop: no process of the round is left */
    SPOT_RANK_HOLDS,   /* the command can wait for its round; once */
    SPOT_RANK_WARM,    /* `status`: for each rank one waits now; when that changes */
};

struct spot_rank_event {
    enum spot_rank_event_kind kind;
    uint32_t round, local; /* restart_count of the ranks that are meant */
    int status;
};

struct spot_ranks;

/* Texts of the options are borrowed. Standard signals are as the caller has them; ranks start with
 * the defaults. NULL with *err. */
struct spot_ranks *spot_ranks_new(const struct spot_ranks_options *options, struct spot_err *err);

/* Start all of them; nothing of an earlier round may be left. A command that cannot be run is a
 * rank that exits with 127 or 126, as in a shell. Returns 0, or -1 with *err when the guard is
 * gone, as do the other three. */
int spot_ranks_start(struct spot_ranks *ranks, const struct spot_rank_env *env,
                     struct spot_err *err);
/* A new round is near: the hook is run, or those that catch SIGUSR1 get it, and `left_s` says how
 * long there is. SPOT_RANK_SAVED comes when the hook has ended; without one when all that got the
 * signal have ended, at once if nobody catches it. Who does not catch it is left alone. */
int spot_ranks_save(struct spot_ranks *ranks, double left_s, struct spot_err *err);
/* End the round: SIGTERM to their groups, SIGKILL after stop_s, and to all that is left as soon as
 * the ranks have ended. Always followed by SPOT_RANK_STOPPED. */
int spot_ranks_stop(struct spot_ranks *ranks, struct spot_err *err);
/* The command can wait, as other nodes have seen: have twins before the first round. */
int spot_ranks_keep_twins(struct spot_ranks *ranks, struct spot_err *err);

/* Returns 1 with the next event, 0 when there is none within wait_s, -1 with *err (SPOT_ESYS) when
 * the guard is gone: then so is all that it had started. */
int spot_ranks_next(struct spot_ranks *ranks, double wait_s, struct spot_rank_event *event,
                    struct spot_err *err);

/* For who waits for more than that: readable when there is an event, or the guard is gone. */
int spot_ranks_fd(const struct spot_ranks *ranks);

/* Stop what runs, wait for it, write what is left of its output. May be NULL. */
void spot_ranks_free(struct spot_ranks *ranks);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_HOST_RANKS_H */
