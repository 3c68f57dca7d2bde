/* SPDX-License-Identifier: MIT */
/* exec_node.h - a node of an exec job: its directory of state, its ranks, and its agent. */
#ifndef SPOT_RUN_EXEC_NODE_H
#define SPOT_RUN_EXEC_NODE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "leave_on_notice.h"

/* The options of a node, and what is known of it besides. */
struct exec_node {
    const char *join, *key_file, *name, *domain, *hook, *log_dir, *state_dir, *checkpoint;
    uint64_t n_rank;
    double rank_stall_s, join_timeout_s, state_limit;
    bool is_cold, is_quiet;
    struct leave_on_notice leave;
    char **command;    /* what the ranks run */
    uint64_t hash;     /* of the job: nodes of another one are refused */
    char *private_dir; /* of the coordinator that started this node; NULL */
    bool is_local;     /* started by a coordinator, at whose terminal it speaks */
};

/* Set in the environment of a local node; its ranks do not have it. */
#define EXEC_LOCAL_ENV "SPOT_LOCAL_NODE"

/* Until the job is over or the node has left. Returns 0, or -1 with *err. */
int exec_node_run(struct exec_node *node, struct spot_err *err);

#endif /* SPOT_RUN_EXEC_NODE_H */
