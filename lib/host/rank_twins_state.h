/* SPDX-License-Identifier: MIT */
/* rank_twins_state.h - twins: processes of the command that wait for their round, one per local
 * rank; private to lib/host, and used by the guard only.
 *
 * Each process of the command gets the variable SPOT_HOLD: "ASK ANSWER TOKEN", two paths below
 * /proc that lead to pipes of the guard. A process that supports waiting opens ANSWER for reading,
 * writes TOKEN and a newline to ASK, and reads ANSWER to its end: one NAME=VALUE per line, the
 * variables of its round. An empty answer means that it is no longer needed.
 * packaging/python/spot/hold.py does that.
 *
 * A rank of a round finds its answer there at once, so that asking costs nothing; that it asked
 * shows that the command supports waiting. From then on twins are started; a command that never
 * asks has none.
 *
 * A rank's answer also has SPOT_HOLD_NEXT: the same three, for a copy of the process (fork) that is
 * to be the next twin. A copy leads its own session, is a child of the guard (by a double fork),
 * and writes TOKEN, a space and its process id. It has done everything that the rank did before, so
 * nothing is repeated; if none is made, a twin is started.
 */
#ifndef SPOT_HOST_RANK_TWINS_STATE_H
#define SPOT_HOST_RANK_TWINS_STATE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "host/rank_env.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Channel by which a process gets its variables. */
struct spot_hold {
    int fd; /* both ends of the pipe for its answer; -1: cannot wait, or no longer waits */
    uint32_t token;
    bool has_asked;
};

struct spot_twin_seat {
    struct spot_hold rank, twin;
    struct spot_hold copy; /* for a copy of the rank; closed when it is too late for one */
    pid_t pid;             /* of the twin; 0: none */
    double start_s;  /* earliest time to start it; INFINITY: the command is not known to support
                        waiting */
    uint32_t n_died; /* twins that died in a row */
};

struct spot_twins {
    uint32_t n;
    int ask[2];        /* read end, write end; -1: waiting is impossible */
    bool holds;        /* a process has asked */
    bool is_wanted;    /* the command is known, from here or elsewhere, to support waiting */
    bool is_nice;      /* a twin's niceness can be reset */
    uint32_t n_token;  /* number of tokens given out */
    uint32_t heard[2]; /* the message being read: token and id */
    int n_heard;
    struct spot_twin_seat seat[SPOT_LOCAL_RANKS_MAX];
};

/* is_cold: no process is asked to wait. */
void spot_twins_init(struct spot_twins *twins, uint32_t n, bool is_cold);

/* Call it before the fork of a process for the seat, and in the child. Returns whether it can
 * wait. */
bool spot_twins_prepare(struct spot_twins *twins, uint32_t local, bool is_twin);
void spot_twins_enter(const struct spot_twins *twins, uint32_t local, bool is_twin);

/* A round begins. Returns the process that becomes the rank, 0 if none waits and one must be
 * started; such a process, after spot_twins_prepare, receives its variables the same way. */
pid_t spot_twins_take(struct spot_twins *twins, uint32_t local, const struct spot_rank_env *env);
void spot_twins_tell(struct spot_twins *twins, uint32_t local, const struct spot_rank_env *env);

/* The next seat that needs a twin now, UINT32_MAX: none; the time when one will, INFINITY: none.
 * The twin was started, or could not be: pid <= 0. */
uint32_t spot_twins_due(const struct spot_twins *twins, double now_s);
double spot_twins_next_s(const struct spot_twins *twins);
void spot_twins_started(struct spot_twins *twins, uint32_t local, pid_t pid);
/* Other nodes have found that the command supports waiting. */
void spot_twins_keep(struct spot_twins *twins);

/* Read the requests to wait. */
void spot_twins_hear(struct spot_twins *twins);
/* True if a twin waits for every seat. */
bool spot_twins_are_warm(const struct spot_twins *twins);

/* True if the process, which has ended, is a twin. It is restarted after increasing delays. */
bool spot_twins_has(const struct spot_twins *twins, pid_t pid);
void spot_twins_ended(struct spot_twins *twins, pid_t pid);
/* The rank of the seat has ended. */
void spot_twins_rank_ended(struct spot_twins *twins, uint32_t local);
/* Process ids of the twins, into pid[n]. Returns how many. */
size_t spot_twins_list(const struct spot_twins *twins, pid_t *pid);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_HOST_RANK_TWINS_STATE_H */
