/* SPDX-License-Identifier: MIT */
/* Communicators between the members of an epoch. */
#include <stdlib.h>

#include "comm/comm_socket.h"
#include "comm/nccl_id.h"
#include "common/xalloc.h"
#include "engine/backend.h"
#include "train/worker_state.h"

static bool is_among(const uint32_t *id, size_t n, uint32_t wanted)
{
    for (size_t i = 0; i < n; i++)
        if (id[i] == wanted)
            return true;
    return false;
}

static void add_member(struct spot_comm_place *place, uint32_t *id, uint32_t wanted)
{
    if (wanted && !is_among(id, place->n_member, wanted))
        id[place->n_member++] = wanted;
}

/* The members that communicate: all members of the grid, then mirrors outside it; after them the
 * replicas of this stage. */
static struct spot_comm_place place_of(struct spot_worker *w)
{
    const struct spot_form *const f = &w->form;
    uint32_t *const id =
        spot_xcalloc(spot_form_size(f) + f->P + f->n_precopy + spot_form_replicas(f), sizeof(*id));
    struct spot_comm_place place = { .me = w->agent.id, .member = id };
    uint32_t *replica;

    w->comm_member = id;
    for (uint32_t i = 0; i < spot_form_size(f); i++)
        id[place.n_member++] = f->member[i];
    for (uint32_t p = 0; p < f->P; p++)
        add_member(&place, id, f->buddy[p]);
    for (size_t i = 0; i < f->n_precopy; i++)
        add_member(&place, id, f->precopy[i].to);
    w->n_comm_member = place.n_member;
    place.replica = replica = id + place.n_member;
    for (uint32_t i = 0; w->position >= 0 && i < spot_form_replicas(f); i++)
        replica[place.n_replica++] = spot_form_replica(f, spot_form_place(f, w->position).p, i);
    return place;
}

/* --- NCCL ------------------------------------------------------------------ */

/* Long enough for several contexts that share a device, which start NCCL one after the other. */
static const double connect_limit_s = 60, call_limit_s = 20;

static int check_epoch(void *user, struct spot_err *err)
{
    struct spot_worker *const w = user;

    return spot_mesh_check(w->agent.mesh, w->comm_member, w->n_comm_member, err);
}

static int share_id(struct spot_worker *w, const struct spot_nccl *nccl, const uint32_t *member,
                    size_t n, uint64_t which, uint8_t *id, struct spot_err *err)
{
    return spot_nccl_share_id(nccl, w->agent.mesh, w->agent.id, member, n, SPOT_MSG_COMM, which, id,
                              err);
}

/* Pipelines of one stage without buddies exchange nothing. */
static int open_nccl(struct spot_worker *w, const struct spot_comm_place *place,
                     struct spot_err *err)
{
    const struct spot_nccl *const nccl = spot_cuda_nccl(err);
    const bool exchanges = place->n_member > w->form.D;
    uint8_t id[2][SPOT_NCCL_ID_BYTE] = { { 0 } };
    const struct spot_nccl_open how = {
        .place = *place,
        .member_id = exchanges ? id[0] : NULL,
        .replica_id = place->n_replica > 1 ? id[1] : NULL,
        .check = check_epoch,
        .user = w,
        .timeout_s = connect_limit_s,
        .call_limit_s = call_limit_s,
    };

    if (!nccl ||
        (how.member_id && share_id(w, nccl, place->member, place->n_member, 0, id[0], err)) ||
        (how.replica_id && share_id(w, nccl, place->replica, place->n_replica, 1, id[1], err)))
        return -1;
    w->comm = nccl->open(&how, err);
    return w->comm ? 0 : -1;
}

/* --- the tensor group ------------------------------------------------------- */

/* All members of a group make the same exchanges in the same order, so a counter suffices as
 * tag. */
static int exchange_in_group(void *user, const struct spot_stage_piece *piece, size_t n,
                             struct spot_err *err)
{
    struct spot_worker *const w = user;
    const struct spot_form_place at = spot_form_place(&w->form, w->position);
    struct spot_comm_piece *const out = spot_xcalloc(n, sizeof(*out));
    const uint64_t tag = w->n_group_exchange++;
    int rc;

    for (size_t i = 0; i < n; i++)
        out[i] = (struct spot_comm_piece){
            .is_send = piece[i].is_send,
            .peer = spot_form_member(&w->form, at.d, at.p, (uint32_t)piece[i].peer),
            .type = SPOT_MSG_TENSOR,
            .tag = tag,
            .data = piece[i].data,
            .n_byte = piece[i].n_byte,
        };
    rc = w->comm->kind->exchange(
        w->comm, out, n, w->comm->kind->is_device ? spot_stage_stream(w->stage) : NULL, err);
    free(out);
    return rc;
}

struct spot_stage_group spot_worker_group(struct spot_worker *w)
{
    if (w->position < 0 || w->form.M < 2)
        return (struct spot_stage_group){ 0 };
    return (struct spot_stage_group){ .m = (int)spot_form_place(&w->form, w->position).m,
                                      .M = (int)w->form.M,
                                      .is_device = w->config.comm == SPOT_COMM_NCCL,
                                      .exchange = exchange_in_group,
                                      .user = w };
}

int spot_worker_open_comm(struct spot_worker *w, struct spot_err *err)
{
    static const struct spot_comm_socket_types types = { SPOT_MSG_SCATTER, SPOT_MSG_COLLECT,
                                                         SPOT_MSG_SPREAD, SPOT_MSG_GATHER };
    struct spot_comm_place place;

    if (!spot_form_is_active(&w->form, w->agent.id))
        return 0;
    place = place_of(w);
    w->n_group_exchange = 0;
    if (w->config.comm == SPOT_COMM_NCCL)
        return open_nccl(w, &place, err);
    w->comm = spot_comm_socket_open(w->agent.mesh, &place, &types);
    return 0;
}

void spot_worker_close_comm(struct spot_worker *w)
{
    if (w->comm)
        w->comm->kind->close(w->comm);
    w->comm = NULL;
    free(w->comm_member);
    w->comm_member = NULL;
}
