/* SPDX-License-Identifier: MIT */
#include "host/rank_env.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Called for each variable of the round. */
typedef void (*put_fn)(void *user, const char *name, const char *value);

static void put_number(put_fn put, void *user, const char *name, uint32_t value)
{
    char text[16];

    snprintf(text, sizeof(text), "%lu", (unsigned long)value);
    put(user, name, text);
}

/* Variables of the state. NULL: unset the variable, even if it was inherited. */
static void each_of_state(const struct spot_rank_env *env, put_fn put, void *user)
{
    char step[24], world[16];

    snprintf(step, sizeof(step), "%llu", (unsigned long long)env->state_step);
    snprintf(world, sizeof(world), "%lu", (unsigned long)env->state_world);
    put(user, "SPOT_STATE_STEP", env->has_state ? step : NULL);
    put(user, "SPOT_STATE_WORLD", env->has_state ? world : NULL);
}

/* Variables whose values are new in each round. */
static void each(const struct spot_rank_env *env, uint32_t local_rank, put_fn put, void *user)
{
    put_number(put, user, "RANK", env->first_rank + local_rank);
    put_number(put, user, "WORLD_SIZE", env->world);
    put_number(put, user, "GROUP_RANK", env->group_rank);
    put_number(put, user, "GROUP_WORLD_SIZE", env->group_world);
    put_number(put, user, "ROLE_RANK", env->first_rank + local_rank); /* there is one role */
    put_number(put, user, "ROLE_WORLD_SIZE", env->world);
    put(user, "MASTER_ADDR", env->master_address);
    put_number(put, user, "MASTER_PORT", env->master_port);
    put_number(put, user, "TORCHELASTIC_RESTART_COUNT", env->restart_count);
    put_number(put, user, "TORCHELASTIC_MAX_RESTARTS", env->max_restarts);
    put(user, "TORCHELASTIC_RUN_ID", env->run_id);
    each_of_state(env, put, user);
}

static void set(void *user, const char *name, const char *value)
{
    (void)user;
    if (value)
        setenv(name, value, 1);
    else
        unsetenv(name);
}

static void unset(void *user, const char *name, const char *value)
{
    (void)user;
    (void)value;
    unsetenv(name);
}

static void set_lasting(uint32_t local_world, uint32_t local_rank)
{
    put_number(set, NULL, "LOCAL_RANK", local_rank);
    put_number(set, NULL, "LOCAL_WORLD_SIZE", local_world);
    setenv("ROLE_NAME", "default", 0);
    setenv("TORCHELASTIC_USE_AGENT_STORE", "False", 1); /* rank 0 opens the store itself */
    setenv("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1", 0);
    if (local_world > 1)
        setenv("OMP_NUM_THREADS", "1", 0); /* as torchrun: ranks would fight for the cores */
}

void spot_rank_env_set(const struct spot_rank_env *env, uint32_t local_rank)
{
    set_lasting(env->local_world, local_rank);
    each(env, local_rank, set, NULL);
}

void spot_rank_env_set_lasting(uint32_t local_world, uint32_t local_rank)
{
    const struct spot_rank_env none = { 0 };

    set_lasting(local_world, local_rank);
    each(&none, local_rank, unset, NULL); /* inherited from a job around this one */
}

struct text {
    char *at;
    size_t n, n_max;
};

static void add_line(void *user, const char *name, const char *value)
{
    struct text *const t = user;
    int n;

    if (!value)
        return;
    n = snprintf(t->at + t->n, t->n_max - t->n, "%s=%.*s\n", name, (int)strcspn(value, "\n"),
                 value);
    if (n > 0 && (size_t)n < t->n_max - t->n)
        t->n += (size_t)n;
}

size_t spot_rank_env_print(const struct spot_rank_env *env, uint32_t local_rank, char *text,
                           size_t n)
{
    struct text t = { .at = text, .n_max = n };

    each(env, local_rank, add_line, &t);
    return t.n;
}
