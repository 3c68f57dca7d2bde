/* SPDX-License-Identifier: MIT */
/* crew.h - the running copies of a command, one per machine that the trace offers.
 *
 * A member is a machine: it keeps its name while its process exits and is
 * started again. Leaving takes it off the crew; its process gets the notice and
 * lives on until it exits or its grace is over. Every child leads a process
 * group of its own and goes down with all of it.
 */
#ifndef SPOT_SPOT_REPLAY_INSTANCES_H
#define SPOT_SPOT_REPLAY_INSTANCES_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "common/err.h"
#include "guard.h"

struct crew_member {
    char *name;
    size_t series;
    const char *zone, *instance_type; /* borrowed from the trace */
    pid_t pid;                        /* 0: not running */
    size_t seat;                      /* in the guard's table while it runs */
    uint64_t n_start;
    double since_time_s; /* trace time at which the trace began to want it */
    double start_s;      /* real time of its last start */
    double due_s;        /* not running: start not before; leaving: kill then */
    double backoff_s;
    bool is_leaving, is_killed;
};

struct crew {
    char **command;       /* NULL-terminated, borrowed */
    size_t n_running_max; /* starts wait while so many run */
    double grace_s;
    double from_s, speedup, origin_s; /* trace time = from_s + speedup * real */
    FILE *log;
    sigset_t child_mask; /* what children start with */
    struct guard guard;
    bool has_foreign; /* whoever ran us left us children that are not ours to kill */

    size_t n, cap;
    struct crew_member *member; /* [n], in order of arrival */
    size_t n_running;
    struct {
        int64_t start, notice, kill, exit;
    } total;
};

/* Seconds since origin_s, and the trace time of a real time. */
double crew_now_s(const struct crew *crew);
double crew_trace_s(const struct crew *crew, double real_s);

/* Take on a machine; `name` is copied. Its process starts at the next crew_start_due. */
void crew_add(struct crew *crew, const char *name, size_t series, const char *zone,
              const char *instance_type, double time_s);

/* Member i leaves at trace time time_s: SIGTERM now and SIGKILL after the grace,
 * or SIGKILL now without notice. One that never ran is dropped. Indices of later
 * members may change. Returns 0, or -1 when the log cannot be written. */
int crew_leave(struct crew *crew, size_t i, double time_s, bool has_notice, const char *why,
               struct spot_err *err);

/* Start what is due. Returns -1 if the command cannot be run at all. */
int crew_start_due(struct crew *crew, struct spot_err *err);

/* Kill those whose grace is over. */
int crew_kill_due(struct crew *crew, struct spot_err *err);

/* Take note of every child that ended. */
int crew_reap(struct crew *crew, struct spot_err *err);

/* Real time of the next start or kill, infinity if there is none. */
double crew_next_s(const struct crew *crew);

/* Kill everything at once, whatever happens, wait for it, and free the members. */
void crew_release(struct crew *crew);

#endif /* SPOT_SPOT_REPLAY_INSTANCES_H */
