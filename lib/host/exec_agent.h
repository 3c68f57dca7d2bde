/* SPDX-License-Identifier: MIT */
/* exec_agent.h - the agent's side of an exec job: one node and its ranks of the command. */
#ifndef SPOT_HOST_EXEC_AGENT_H
#define SPOT_HOST_EXEC_AGENT_H

#include <stdbool.h>

#include "cluster/agent.h"
#include "common/err.h"
#include "host/rank_files.h"
#include "host/ranks.h"
#include "host/state_dir.h"
#include "host/state_store.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_exec_agent_options {
    struct spot_agent_options agent;
    struct spot_ranks *ranks; /* borrowed, not yet started */
    uint32_t n_rank;
    uint64_t hash;                      /* spot_exec_hash */
    bool is_cold;                       /* as in the ranks' options: never wait for twins */
    const struct spot_state_dir *state; /* with the ranks' SPOT_STATE_DIR; borrowed */
    struct spot_state_store *store;     /* for commits made there; borrowed */
    /* files that the script saves by itself; borrowed, may be NULL */
    struct spot_rank_files *files;
    const char *job;    /* for which their directory is locked */
    const char *errors; /* as in the ranks' options; NULL */
    const char *socket; /* path of the ranks' socket (rank_socket.h), known to them already */
    double late_s;      /* warn when a commit has waited this long for other ranks; 0: 5 */
    void (*warn)(const char *fmt, ...)
        SPOT_PRINTF(1, 2); /* called with that warning; may be NULL */
};

/* Work until the job is done; the caller then frees the ranks, which stops what still runs.
 * *has_joined: a coordinator accepted it. Returns 0, or -1 with *err: as spot_agent_run,
 * SPOT_EINFEASIBLE also when the job has failed. */
int spot_exec_agent_run(const struct spot_exec_agent_options *options, bool *has_joined,
                        struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_HOST_EXEC_AGENT_H */
