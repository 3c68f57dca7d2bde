/* SPDX-License-Identifier: MIT */
/* exec_agent.h - the agent's side of an exec job: one node, its ranks of the command. */
#ifndef SPOT_HOST_EXEC_AGENT_H
#define SPOT_HOST_EXEC_AGENT_H

#include <stdbool.h>

#include "cluster/agent.h"
#include "common/err.h"
#include "host/ranks.h"
#include "host/state_store.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_exec_agent_options {
    struct spot_agent_options agent;
    struct spot_ranks *ranks; /* borrowed, nothing started */
    uint32_t n_rank;
    uint64_t hash;                  /* spot_exec_hash */
    bool is_cold;                   /* as the ranks' options: it is never waited for */
    const char *live;               /* what ranks know as SPOT_STATE_DIR */
    struct spot_state_store *store; /* of what is committed there; borrowed */
    const char *socket; /* path at which ranks ask (rank_socket.h); they know it already */
};

/* Work until the job is done; the caller then frees the ranks, which stops what runs. *has_joined:
 * a coordinator has taken it in. Returns 0, or -1 with *err: as spot_agent_run, SPOT_EINFEASIBLE
 * also when the job has failed. */
int spot_exec_agent_run(const struct spot_exec_agent_options *options, bool *has_joined,
                        struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_HOST_EXEC_AGENT_H */
