/* SPDX-License-Identifier: MIT */
/* How the members of an epoch reach each other. */
#include <stdlib.h>
#include <string.h>

#include "comm/comm_socket.h"
#include "common/xalloc.h"
#include "engine/backend.h"
#include "job/worker_state.h"

static bool is_among(const uint32_t *id, size_t n, uint32_t wanted)
{
    for (size_t i = 0; i < n; i++)
        if (id[i] == wanted)
            return true;
    return false;
}

/* Everyone in the grid, then the buddies outside it; behind them the replicas of this stage. */
static struct spot_comm_place place_of(struct spot_worker *w)
{
    const struct spot_form *const f = &w->form;
    uint32_t *const id = spot_xcalloc((size_t)f->D * f->P + f->P + f->D, sizeof(*id));
    struct spot_comm_place place = { .me = w->id, .member = id };
    uint32_t *replica;

    w->comm_member = id;
    for (uint32_t i = 0; i < f->D * f->P; i++)
        id[place.n_member++] = f->member[i];
    for (uint32_t p = 0; p < f->P; p++)
        if (f->buddy[p] && !is_among(id, place.n_member, f->buddy[p]))
            id[place.n_member++] = f->buddy[p];
    w->n_comm_member = place.n_member;
    place.replica = replica = id + place.n_member;
    for (uint32_t d = 0; w->position >= 0 && d < f->D; d++)
        replica[place.n_replica++] = f->member[d * f->P + (uint32_t)w->position % f->P];
    return place;
}

/* --- NCCL ------------------------------------------------------------------ */

static const double connect_limit_s = 60;

static int check_epoch(void *user, struct spot_err *err)
{
    struct spot_worker *const w = user;

    return spot_mesh_check(w->mesh, w->comm_member, w->n_comm_member, err);
}

/* The first of those who connect names the communicator and tells the others; `which` is the tag.
 */
static int share_id(struct spot_worker *w, const struct spot_nccl *nccl, const uint32_t *member,
                    size_t n, uint64_t which, uint8_t *id, struct spot_err *err)
{
    struct spot_frame *frame;

    if (member[0] == w->id) {
        if (nccl->new_id(id, err))
            return -1;
        for (size_t i = 1; i < n; i++)
            if (spot_mesh_send(w->mesh, member[i], SPOT_MSG_COMM, which, id, SPOT_NCCL_ID_BYTE,
                               err))
                return -1;
        return 0;
    }
    frame = spot_mesh_recv(w->mesh, member[0], SPOT_MSG_COMM, which, err);
    if (!frame)
        return -1;
    if (frame->n_byte == SPOT_NCCL_ID_BYTE)
        memcpy(id, frame->data, SPOT_NCCL_ID_BYTE);
    else
        spot_err_set(err, SPOT_ESYS, "member %u sent %zu bytes for NCCL's id of %d",
                     (unsigned)member[0], frame->n_byte, SPOT_NCCL_ID_BYTE);
    n = frame->n_byte;
    free(frame);
    return n == SPOT_NCCL_ID_BYTE ? 0 : -1;
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
    };

    if (!nccl ||
        (how.member_id && share_id(w, nccl, place->member, place->n_member, 0, id[0], err)) ||
        (how.replica_id && share_id(w, nccl, place->replica, place->n_replica, 1, id[1], err)))
        return -1;
    w->comm = nccl->open(&how, err);
    return w->comm ? 0 : -1;
}

int spot_worker_open_comm(struct spot_worker *w, struct spot_err *err)
{
    static const struct spot_comm_socket_types types = { SPOT_MSG_SCATTER, SPOT_MSG_GATHER };
    struct spot_comm_place place;

    if (!spot_form_is_active(&w->form, w->id))
        return 0;
    place = place_of(w);
    if (w->config.comm == SPOT_COMM_NCCL)
        return open_nccl(w, &place, err);
    w->comm = spot_comm_socket_open(w->mesh, &place, &types);
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
