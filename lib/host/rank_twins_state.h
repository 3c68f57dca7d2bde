/* SPDX-License-Identifier: MIT */
/* rank_twins_state.h - processes of the command that wait for their round, one for each local rank;
 * private to lib/host, and used by the guard alone.
 *
 * Each process of the command is given the variable SPOT_HOLD: "ASK ANSWER TOKEN", two paths below
 * /proc that lead to pipes of the guard. Who wants to wait opens ANSWER for reading, writes
 * TOKEN and a newline to ASK, and reads ANSWER to its end: NAME=VALUE on a line each, what its
 * round says. Nothing means that it is not needed any more. examples/pytorch/spot_hold.py does
 * that.
 *
 * A rank of a round finds its answer there, so that asking costs it nothing; that it asked tells
 * that the command can wait. From then on twins are started; a command that never asks has none.
 *
 * A rank's answer also has SPOT_HOLD_NEXT: the same three, for a copy of the process (fork) that is
 * to be the next twin. A copy leads a session of its own, is a child of the guard (the rank forks
 * somebody who forks it and ends), and says TOKEN, a space and its id. It has done all that the
 * rank did before, so nothing is done twice; where none comes a twin is started.
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

/* What a process is told by. */
struct spot_hold {
    int fd; /* of the pipe of its answers, both ends; -1: it cannot wait, or waits no more */
    uint32_t token;
    bool has_asked;
};

struct spot_twin_seat {
    struct spot_hold rank, twin;
    struct spot_hold copy; /* that the rank may make of itself; a late one finds it closed */
    pid_t pid;             /* of the twin; 0: none */
    double start_s;        /* not before that; INFINITY: nothing says that the command can wait */
    uint32_t n_died;       /* twins in a row */
};

struct spot_twins {
    uint32_t n;
    int ask[2];        /* read end, write end; -1: nobody can wait */
    bool holds;        /* somebody has asked */
    bool is_wanted;    /* that, or it is known from elsewhere that the command does */
    bool is_nice;      /* a twin's niceness can be taken back */
    uint32_t n_token;  /* given out */
    uint32_t heard[2]; /* what is being read: token and id */
    int n_heard;
    struct spot_twin_seat seat[SPOT_LOCAL_RANKS_MAX];
};

/* is_cold: nobody is ever asked to wait. */
void spot_twins_init(struct spot_twins *twins, uint32_t n, bool is_cold);

/* Before the fork of a process for the seat, and in the child. Returns whether it can wait. */
bool spot_twins_prepare(struct spot_twins *twins, uint32_t local, bool is_twin);
void spot_twins_enter(const struct spot_twins *twins, uint32_t local, bool is_twin);

/* A round begins. Returns the process that becomes its rank, 0: there is none, start one; then,
 * after spot_twins_prepare, it is told as well. */
pid_t spot_twins_take(struct spot_twins *twins, uint32_t local, const struct spot_rank_env *env);
void spot_twins_tell(struct spot_twins *twins, uint32_t local, const struct spot_rank_env *env);

/* The next seat that wants a twin now, UINT32_MAX: none; when one will, INFINITY: none. It was
 * started, or could not be: pid <= 0. */
uint32_t spot_twins_due(const struct spot_twins *twins, double now_s);
double spot_twins_next_s(const struct spot_twins *twins);
void spot_twins_started(struct spot_twins *twins, uint32_t local, pid_t pid);
/* The command can wait, as others have seen. */
void spot_twins_keep(struct spot_twins *twins);

/* Read who asks. */
void spot_twins_hear(struct spot_twins *twins);
/* All seats have one that waits. */
bool spot_twins_are_warm(const struct spot_twins *twins);

/* Is it a twin? One that has ended is started again, ever later. */
bool spot_twins_has(const struct spot_twins *twins, pid_t pid);
void spot_twins_ended(struct spot_twins *twins, pid_t pid);
/* The rank of the seat has ended. */
void spot_twins_rank_ended(struct spot_twins *twins, uint32_t local);
/* Their processes, into pid[n]. Returns how many. */
size_t spot_twins_list(const struct spot_twins *twins, pid_t *pid);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_HOST_RANK_TWINS_STATE_H */
