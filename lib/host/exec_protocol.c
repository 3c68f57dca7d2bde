/* SPDX-License-Identifier: MIT */
#include "host/exec_protocol.h"

#include <string.h>

#include "common/hash.h"

void spot_exec_put_held(struct spot_buf *out, const struct spot_exec_held *held)
{
    spot_put_text(out, held->run_id);
    spot_put_u32(out, held->restart_count);
    spot_put_u32(out, held->group_rank);
    spot_put_u32(out, held->group_world);
    spot_put_u32(out, held->n_failed);
    spot_put_u32(out, held->state);
    spot_put_u32(out, held->port);
}

void spot_exec_get_held(struct spot_wire_in *in, struct spot_exec_held *held)
{
    spot_get_text(in, held->run_id, sizeof(held->run_id));
    held->restart_count = spot_get_u32(in);
    held->group_rank = spot_get_u32(in);
    held->group_world = spot_get_u32(in);
    held->n_failed = spot_get_u32(in);
    held->state = spot_get_u32(in);
    held->port = spot_get_u32(in);
    if (held->state >= SPOT_EXEC_STATES || held->port > UINT16_MAX ||
        (*held->run_id && held->group_rank >= held->group_world))
        in->bad = true;
}

void spot_exec_put_env(struct spot_buf *out, const struct spot_rank_env *env)
{
    spot_put_text(out, env->run_id);
    spot_put_text(out, env->master_address);
    spot_put_u32(out, env->master_port);
    spot_put_u32(out, env->group_rank);
    spot_put_u32(out, env->group_world);
    spot_put_u32(out, env->first_rank);
    spot_put_u32(out, env->world);
    spot_put_u32(out, env->local_world);
    spot_put_u32(out, env->restart_count);
    spot_put_u32(out, env->max_restarts);
}

void spot_exec_get_env(struct spot_wire_in *in, struct spot_rank_env *env)
{
    spot_get_text(in, env->run_id, sizeof(env->run_id));
    spot_get_text(in, env->master_address, sizeof(env->master_address));
    env->master_port = spot_get_u32(in);
    env->group_rank = spot_get_u32(in);
    env->group_world = spot_get_u32(in);
    env->first_rank = spot_get_u32(in);
    env->world = spot_get_u32(in);
    env->local_world = spot_get_u32(in);
    env->restart_count = spot_get_u32(in);
    env->max_restarts = spot_get_u32(in);
}

/* With their ends: "a b" is not "ab". */
uint64_t spot_exec_hash(char *const *command, uint32_t n_rank)
{
    struct spot_hash_stream *const hash = spot_hash_stream_new();
    uint64_t value;

    for (; *command; command++)
        spot_hash_stream_add(hash, *command, strlen(*command) + 1);
    spot_hash_stream_add(hash, &n_rank, sizeof(n_rank));
    value = spot_hash_stream_64(hash);
    spot_hash_stream_free(hash);
    return value;
}
