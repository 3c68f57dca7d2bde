/* SPDX-License-Identifier: MIT */
/* rank_env.h - the environment variables of a rank of a foreign trainer.
 *
 * The names are those of torchrun, so that scripts written for it run unchanged.
 */
#ifndef SPOT_HOST_RANK_ENV_H
#define SPOT_HOST_RANK_ENV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    SPOT_RUN_ID_MAX = 64,
    SPOT_MASTER_MAX = 136,
    SPOT_LOCAL_RANKS_MAX = 256,
    SPOT_RANK_ENV_TEXT_MAX = 1024 /* maximum size of spot_rank_env_print's output */
};

/* The ranks of one node in one round. */
struct spot_rank_env {
    uint32_t group_rank, group_world; /* of the node; number of nodes */
    uint32_t first_rank, world,
        local_world; /* of the first rank here; number of all ranks; of those here */
    uint32_t restart_count, max_restarts; /* rounds before this one; failures tolerated */
    uint32_t master_port;                 /* free on the node of rank 0 when it was chosen */
    char master_address[SPOT_MASTER_MAX]; /* of that node, without the port */
    char run_id[SPOT_RUN_ID_MAX];         /* of the job */
    bool has_state; /* its directory holds a commit, of state_step and state_world */
    uint64_t state_step;
    uint32_t state_world; /* made by this many nodes */
};

/* Set it in the environment of this process, which is to become the local rank. */
void spot_rank_env_set(const struct spot_rank_env *env, uint32_t local_rank);
/* Set only the variables that are the same in every round, and unset the rest. */
void spot_rank_env_set_lasting(uint32_t local_world, uint32_t local_rank);
/* Print the other variables, one NAME=VALUE per line. Returns the number of bytes. */
size_t spot_rank_env_print(const struct spot_rank_env *env, uint32_t local_rank, char *text,
                           size_t n);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_HOST_RANK_ENV_H */
