/* SPDX-License-Identifier: MIT */
#include "host/rank_env.h"

#include <stdio.h>
#include <stdlib.h>

static void set_number(const char *name, uint32_t value)
{
    char text[16];

    snprintf(text, sizeof(text), "%lu", (unsigned long)value);
    setenv(name, text, 1);
}

void spot_rank_env_set(const struct spot_rank_env *env, uint32_t local_rank)
{
    set_number("LOCAL_RANK", local_rank);
    set_number("LOCAL_WORLD_SIZE", env->local_world);
    set_number("RANK", env->first_rank + local_rank);
    set_number("WORLD_SIZE", env->world);
    set_number("GROUP_RANK", env->group_rank);
    set_number("GROUP_WORLD_SIZE", env->group_world);
    setenv("ROLE_NAME", "default", 1);
    set_number("ROLE_RANK", env->first_rank + local_rank); /* there is one role */
    set_number("ROLE_WORLD_SIZE", env->world);
    setenv("MASTER_ADDR", env->master_address, 1);
    set_number("MASTER_PORT", env->master_port);
    set_number("TORCHELASTIC_RESTART_COUNT", env->restart_count);
    set_number("TORCHELASTIC_MAX_RESTARTS", env->max_restarts);
    setenv("TORCHELASTIC_RUN_ID", env->run_id, 1);
    setenv("TORCHELASTIC_USE_AGENT_STORE", "False", 1); /* rank 0 opens the store itself */
    setenv("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1", 0);
    if (env->local_world > 1)
        setenv("OMP_NUM_THREADS", "1", 0); /* as torchrun: ranks would fight for the cores */
}
