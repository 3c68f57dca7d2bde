/* SPDX-License-Identifier: MIT */
/* exec_parts.h - the parts of spot-run exec. */
#ifndef SPOT_RUN_EXEC_PARTS_H
#define SPOT_RUN_EXEC_PARTS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "host/exec_agent.h"
#include "host/ranks.h"
#include "run.h"

/* --- a node of an exec job: its directory of state, its ranks, and its agent --- */

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

/* --- command lines of torchrun, as spot-run exec understands them --- */

struct exec_torchrun {
    const char *nproc, *endpoint, *master_addr, *id; /* as given; NULL */
    uint64_t master_port, node_rank;                 /* UINT64_MAX: not given */
    bool is_module, no_python;
};

/* "4", "cpu", "gpu" or "auto": so many ranks on this node. 0, or -1 with *err. */
int exec_torchrun_ranks(const struct exec_torchrun *t, uint64_t *n, struct spot_err *err);
/* Python in front of a script or a module. Allocated once. */
char **exec_torchrun_command(const struct exec_torchrun *t, char **operand, size_t n);

enum exec_torchrun_part {
    EXEC_ALONE, /* no endpoint is named */
    EXEC_LEADS, /* it is of this host, and free: where nodes join */
    EXEC_JOINS, /* another process has it, or another host */
};
/* *endpoint gets "HOST:PORT", allocated. The part, or -1 with *err. */
int exec_torchrun_meet(const struct exec_torchrun *t, char **endpoint, struct spot_err *err);
/* Whether it is free now. */
bool exec_torchrun_is_free(const char *endpoint);

#endif /* SPOT_RUN_EXEC_PARTS_H */
