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

/* --- a node of an exec job: its state directory, its ranks, and its agent --- */

/* The options of a node, and other facts about it. */
struct exec_node {
    struct spot_exec_agent_options agent; /* from the options and the command */
    struct spot_ranks_options ranks;
    const char *state_dir, *checkpoint;
    uint64_t n_rank;
    bool is_quiet;
    struct leave_on_notice leave;
    char *private_dir; /* directory of the coordinator that started this node; NULL */
    bool is_local;     /* started by a coordinator, whose terminal it writes to */
};

/* Set in the environment of a local node to the name of its job, as below; its ranks do not have
 * it. */
#define EXEC_LOCAL_ENV "SPOT_LOCAL_NODE"

/* The name for which nodes lock the directory of the checkpoints: the same for all nodes of a job,
 * and for its next coordinator. `address`: of the coordinator, as given; NULL for a job that nobody
 * else can join. The host does not count, as it has several names. */
void exec_name_job(const char *address, char *name, size_t n);

/* Run until the job is over or the node has left. Returns 0, or -1 with *err. */
int exec_node_run(struct exec_node *node, struct spot_err *err);

/* --- command lines of torchrun, as spot-run exec understands them --- */

struct exec_torchrun {
    const char *nproc, *endpoint, *master_addr, *id; /* as given; NULL */
    uint64_t master_port, node_rank;                 /* UINT64_MAX: not given */
    bool is_module, no_python;
};

/* Parse "4", "cpu", "gpu" or "auto", the number of ranks on this node. Returns 0, or -1 with *err.
 */
int exec_torchrun_ranks(const struct exec_torchrun *t, uint64_t *n, struct spot_err *err);
/* A node runs here: check that the script, if the first word of the command is one for Python, can
 * be read. Otherwise its ranks would fail one round after another. Returns 0, or -1 with *err. */
int exec_torchrun_check(const struct exec_torchrun *t, const char *word, struct spot_err *err);
/* Put Python in front of a script or a module. Allocated once. */
char **exec_torchrun_command(const struct exec_torchrun *t, char **operand, size_t n);

enum exec_torchrun_part {
    EXEC_ALONE, /* no endpoint is given */
    EXEC_LEADS, /* the endpoint is on this host and free: other nodes join here */
    EXEC_JOINS, /* another process or another host has it */
};
/* *endpoint: "HOST:PORT", allocated. Returns the role, or -1 with *err. */
int exec_torchrun_meet(const struct exec_torchrun *t, char **endpoint, struct spot_err *err);
/* True if the endpoint is free now. */
bool exec_torchrun_is_free(const char *endpoint);

#endif /* SPOT_RUN_EXEC_PARTS_H */
