/* SPDX-License-Identifier: MIT */
#include "host/exec_protocol.h"

#include <stdlib.h>
#include <string.h>

#include "cluster/protocol.h"
#include "common/hash.h"
#include "common/xalloc.h"

void spot_exec_put_held(struct spot_buf *out, const struct spot_exec_held *held)
{
    spot_put_text(out, held->run_id);
    spot_put_u32(out, held->restart_count);
    spot_put_u32(out, held->group_rank);
    spot_put_u32(out, held->group_world);
    spot_put_u32(out, held->n_failed);
    spot_put_u32(out, held->state);
    spot_put_u32(out, held->port);
    spot_put_u64(out, held->key);
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
    held->key = spot_get_u64(in);
    if (held->state >= SPOT_EXEC_STATES || held->port > UINT16_MAX ||
        (*held->run_id && held->group_rank >= held->group_world))
        in->bad = true;
}

static void put_env(struct spot_buf *out, const struct spot_rank_env *env)
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
    spot_put_u8(out, env->has_state);
    spot_put_u64(out, env->state_step);
    spot_put_u32(out, env->state_world);
}

static void get_env(struct spot_wire_in *in, struct spot_rank_env *env)
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
    env->has_state = spot_get_u8(in);
    env->state_step = spot_get_u64(in);
    env->state_world = spot_get_u32(in);
    if (env->has_state && !env->state_world)
        in->bad = true;
}

/* --- states ------------------------------------------------------------------------------ */

void spot_exec_holdings_release(struct spot_exec_holdings *all)
{
    free(all->of);
    *all = (struct spot_exec_holdings){ 0 };
}

void spot_exec_put_holdings(struct spot_buf *out, const struct spot_exec_holdings *all)
{
    spot_put_u32(out, (uint32_t)all->n);
    for (size_t i = 0; i < all->n; i++) {
        spot_put_text(out, all->of[i].run_id);
        spot_state_id_put(out, &all->of[i].id);
        spot_put_u32(out, all->of[i].place);
        spot_put_u32(out, all->of[i].world);
        spot_state_saved_put(out, &all->of[i].saved);
    }
}

void spot_exec_get_holdings(struct spot_wire_in *in, struct spot_exec_holdings *all)
{
    const uint32_t n = spot_get_count(in, 44);

    *all = (struct spot_exec_holdings){ .of = spot_xcalloc(n, sizeof(*all->of)), .cap = n };
    for (; !in->bad && all->n < n; all->n++) {
        struct spot_exec_holding *const h = &all->of[all->n];

        spot_get_text(in, h->run_id, sizeof(h->run_id));
        spot_state_id_get(in, &h->id);
        h->place = spot_get_u32(in);
        h->world = spot_get_u32(in);
        spot_state_saved_get(in, &h->saved);
        if (h->place >= h->world || h->world > SPOT_MEMBERS_MAX)
            in->bad = true;
    }
    if (in->bad)
        spot_exec_holdings_release(all);
}

void spot_exec_put_move(struct spot_buf *out, const struct spot_exec_move *move)
{
    spot_put_u64(out, move->serial);
    spot_state_id_put(out, &move->id);
    spot_put_u32(out, move->place);
    spot_put_u32(out, move->from);
    spot_put_u32(out, move->to);
}

void spot_exec_get_move(struct spot_wire_in *in, struct spot_exec_move *move)
{
    move->serial = spot_get_u64(in);
    spot_state_id_get(in, &move->id);
    move->place = spot_get_u32(in);
    move->from = spot_get_u32(in);
    move->to = spot_get_u32(in);
    if (move->from == move->to)
        in->bad = true;
}

void spot_exec_put_peers(struct spot_buf *out, const struct spot_mesh_peer *peer, size_t n)
{
    spot_put_u32(out, (uint32_t)n);
    for (size_t i = 0; i < n; i++) {
        spot_put_u32(out, peer[i].id);
        spot_put_text(out, peer[i].address);
    }
}

struct spot_mesh_peer *spot_exec_get_peers(struct spot_wire_in *in, size_t *n)
{
    struct spot_mesh_peer *peer;

    *n = spot_get_count(in, 8);
    peer = spot_xcalloc(*n, sizeof(*peer));
    for (size_t i = 0; !in->bad && i < *n; i++) {
        peer[i].id = spot_get_u32(in);
        spot_get_text(in, peer[i].address, sizeof(peer[i].address));
        if (!peer[i].id)
            in->bad = true;
    }
    return peer;
}

void spot_exec_form_release(struct spot_exec_form *form)
{
    free(form->peer);
    free(form->move);
    form->peer = NULL;
    form->move = NULL;
    form->n_peer = form->n_move = 0;
}

void spot_exec_put_form(struct spot_buf *out, const struct spot_exec_form *form)
{
    spot_put_u8(out, form->is_kept);
    spot_put_u8(out, form->has_place);
    spot_put_u32(out, form->n_failed);
    put_env(out, &form->env);
    spot_put_u64(out, form->key);
    spot_state_id_put(out, &form->state);
    spot_put_u8(out, form->has_all);
    spot_exec_put_peers(out, form->peer, form->n_peer);
    spot_put_u32(out, (uint32_t)form->n_move);
    for (size_t i = 0; i < form->n_move; i++)
        spot_exec_put_move(out, &form->move[i]);
}

void spot_exec_get_form(struct spot_wire_in *in, struct spot_exec_form *form)
{
    *form = (struct spot_exec_form){ .is_kept = spot_get_u8(in) };
    form->has_place = spot_get_u8(in);
    form->n_failed = spot_get_u32(in);
    get_env(in, &form->env);
    form->key = spot_get_u64(in);
    spot_state_id_get(in, &form->state);
    form->has_all = spot_get_u8(in);
    form->peer = spot_exec_get_peers(in, &form->n_peer);
    form->n_move = spot_get_count(in, 40);
    form->move = spot_xcalloc(form->n_move, sizeof(*form->move));
    for (size_t i = 0; i < form->n_move; i++)
        spot_exec_get_move(in, &form->move[i]);
}

/* Strings are hashed with their terminating zeros, so that "a b" differs from "ab". */
uint64_t spot_exec_hash(char *const *command, uint32_t n_rank, const char *checkpoint)
{
    struct spot_hash_stream *const hash = spot_hash_stream_new();
    uint64_t value;

    for (; *command; command++)
        spot_hash_stream_add(hash, *command, strlen(*command) + 1);
    spot_hash_stream_add(hash, &n_rank, sizeof(n_rank));
    if (checkpoint)
        spot_hash_stream_add(hash, checkpoint, strlen(checkpoint) + 1);
    value = spot_hash_stream_64(hash);
    spot_hash_stream_free(hash);
    return value;
}
