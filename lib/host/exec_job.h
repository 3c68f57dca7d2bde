/* SPDX-License-Identifier: MIT */
/* exec_job.h - someone else's trainer as a workload of a group: the coordinator's side.
 *
 * Nodes come and go; after each change, and after each failure, the ranks of all nodes are started
 * again with the environment of torchrun and a fresh rendezvous. What is promised and what not:
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
    uint64_t hash;             /* spot_exec_hash: agents run this command, or are refused */
    uint32_t n_rank;           /* on each node */
    uint32_t n_min, n_max;     /* nodes */
    uint32_t max_restarts;     /* after ranks that failed */
    const char *state;         /* a directory for commits beside the coordinator; NULL: none */
    double state_every_s;      /* between two copies to `state` */
    const char *state_command; /* they go on behind it, state_command.h; NULL: they stay there */
    double state_timeout_s;    /* of a run of it through which no byte moves */
    bool places_all; /* each node gets the states of all places, also where none was lost */
    double mirror_byte_per_s; /* of states that go to a buddy, from each node; 0: no limit */
    double save_s;            /* that ranks have before a round ends which could go on */
};

/* Coordinate until all ranks have exited with 0. Returns 0, or -1 with *err: SPOT_EINFEASIBLE after
 * too many failures, SPOT_EPREEMPTED when stopped before, what the group says. */
int spot_exec_run(const struct spot_exec_options *options, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_HOST_EXEC_JOB_H */
