/* SPDX-License-Identifier: MIT */
/* exec_node.h - a node of an exec job: its directory of state, its ranks, and its agent. */
#ifndef SPOT_RUN_EXEC_NODE_H
#define SPOT_RUN_EXEC_NODE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "host/exec_agent.h"
#include "host/ranks.h"
#include "leave_on_notice.h"

/* The options of a node, and what is known of it besides. */
struct exec_node {
    struct spot_exec_agent_options agent; /* what its options and the command say */
    struct spot_ranks_options ranks;
    const char *state_dir, *checkpoint;
    uint64_t n_rank;
    bool is_quiet;
    struct leave_on_notice leave;
    char *private_dir; /* of the coordinator that started this node; NULL */
    bool is_local;     /* started by a coordinator, at whose terminal it speaks */
};

/* Set in the environment of a local node; its ranks do not have it. */
#define EXEC_LOCAL_ENV "SPOT_LOCAL_NODE"

/* Until the job is over or the node has left. Returns 0, or -1 with *err. */
int exec_node_run(struct exec_node *node, struct spot_err *err);

#endif /* SPOT_RUN_EXEC_NODE_H */
