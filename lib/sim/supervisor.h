/* SPDX-License-Identifier: MIT */
/* supervisor.h - the running copies of a command, one for each machine that the trace offers.
 *
 * A member is a machine: it keeps its name while its process exits and is restarted. Leaving
 * removes it from the list; its process gets the notice and lives until it exits or its grace
 * period is over. Clock and processes are behind struct spot_host: the real ones are in
 * processes.h, tests have their own.
 */
#ifndef SPOT_SIM_SUPERVISOR_H
#define SPOT_SIM_SUPERVISOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "common/err.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_instance {
    char *name;
    size_t series;
    const char *zone, *instance_type; /* borrowed from the trace */
    pid_t pid;                        /* 0: not running */
    uint64_t n_start;
    double since_time_s; /* trace time at which the trace first offered it */
    double start_s;      /* real time of its last start */
    double due_s;        /* not running: start not before; leaving: kill then */
    int n_quick;         /* number of exits in succession, each soon after its start */
    bool is_leaving, is_killed;
};

/* What a supervisor needs from its machine. */
struct spot_host {
    double (*now_s)(void *self);
    /* Start the process of an instance, the leader of a group. Returns its id, or -1 with *err. */
    pid_t (*spawn)(void *self, const struct spot_instance *m, struct spot_err *err);
    void (*signal)(void *self, pid_t group, int signal);
    /* A process that ended, with its whole group; 0 when there is none. */
    pid_t (*reap)(void *self, int *status);
    /* Sleep this long, or until a signal: returns it, or 0. SIGCHLD if a process ended. */
    int (*wait)(void *self, double left_s);
};

struct spot_supervisor {
    const struct spot_host *host;
    void *self;           /* of the host */
    size_t n_running_max; /* starts wait while this many run */
    double grace_s;
    double from_s, speedup, origin_s; /* trace time = from_s + speedup * real */
    FILE *log;

    size_t n, cap;
    struct spot_instance *member; /* [n], in order of arrival */
    size_t n_running;
    struct {
        int64_t start, notice, kill, exit;
    } total;
};

/* Seconds since the start, and the trace time of a real time. */
double spot_supervisor_now_s(const struct spot_supervisor *s);
double spot_supervisor_trace_s(const struct spot_supervisor *s, double real_s);

/* Add a machine; `name` is copied. Its process starts at the next spot_supervisor_start_due. */
void spot_supervisor_add(struct spot_supervisor *s, const char *name, size_t series,
                         const char *zone, const char *instance_type, double time_s);

/* Member i leaves at trace time time_s: SIGTERM now and SIGKILL after the grace,
 * or SIGKILL now without notice. One that never ran is dropped. Indices of later
 * members may change. Returns 0, or -1 when the log cannot be written. */
int spot_supervisor_leave(struct spot_supervisor *s, size_t i, double time_s, bool has_notice,
                          const char *why, struct spot_err *err);

/* Start what is due. Returns -1 if the command cannot be run at all. */
int spot_supervisor_start_due(struct spot_supervisor *s, struct spot_err *err);

/* Kill those whose grace period is over. */
int spot_supervisor_kill_due(struct spot_supervisor *s, struct spot_err *err);

/* Record every process that ended. */
int spot_supervisor_reap(struct spot_supervisor *s, struct spot_err *err);

/* Real time of the next start or kill, infinity if there is none. */
double spot_supervisor_next_s(const struct spot_supervisor *s);

/* Free the members; the host ends running processes. */
void spot_supervisor_release(struct spot_supervisor *s);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SIM_SUPERVISOR_H */
