/* SPDX-License-Identifier: MIT */
/* exec_job.h - a foreign trainer as a workload of a group: the coordinator's side.
 *
 * Nodes come and go; after each change, and after each failure, the ranks of all nodes are
 * restarted with the environment of torchrun and a fresh rendezvous. Guarantees and limits:
 * docs/design/22-exec.md.
 */
#ifndef SPOT_HOST_EXEC_JOB_H
#define SPOT_HOST_EXEC_JOB_H

#include <stdint.h>

#include "cluster/group.h"
#include "common/err.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_exec_options {
    struct spot_group_options group;
    uint64_t hash;   /* spot_exec_hash of the command; agents with another command are refused */
    uint32_t n_rank; /* per node */
    uint32_t n_min, n_max; /* nodes */
    uint64_t max_restarts; /* limit on restarts after failures of ranks */
    const char *state;     /* a directory for commits on the coordinator's machine; NULL: none */
    double state_every_s;  /* minimum time between two copies to `state` */
    const char *state_command; /* commits are also copied through this command, state_command.h;
                                  NULL: not */
    double state_timeout_s;    /* maximum time that a run of it may move no byte */
    bool places_all;           /* every node gets the states of all places, even if none was lost */
    double finish_s; /* at the end: maximum time without progress while nodes receive the last
                        commit */
    double mirror_byte_per_s; /* for states sent to a buddy, per node; 0: no limit */
    double save_s;       /* time for ranks to save before a planned end of a round, at most .8 of a
                            notice's time; < 0: .8 of the notice's time, or 10 s if that is not known */
    double slow_after_s; /* time for which a rank must be slow to count as slow; 0: 10 */
    double slow_factor;  /* a node with a rank slower than the median by this factor gets no place;
                            0: no limit */
    bool hands_out; /* at the end every node gets the last commit: scripts save by themselves */
    void (*note)(const char *fmt, ...)
        SPOT_PRINTF(1, 2); /* called with news of the job, for people; may be NULL */
    double late_s;         /* warn when a commit has waited this long for other nodes; 0: 5 */
};

/* Coordinate until all ranks have exited with 0. Returns 0, or -1 with *err: SPOT_EINFEASIBLE after
 * too many failures, SPOT_EPREEMPTED when stopped first, or the group's error. */
int spot_exec_run(const struct spot_exec_options *options, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_HOST_EXEC_JOB_H */
