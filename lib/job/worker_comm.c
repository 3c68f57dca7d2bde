/* SPDX-License-Identifier: MIT */
/* How the members of an epoch reach each other. */
#include <stdlib.h>

#include "comm/comm_socket.h"
#include "common/xalloc.h"
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
    place.replica = replica = id + place.n_member;
    for (uint32_t d = 0; w->position >= 0 && d < f->D; d++)
        replica[place.n_replica++] = f->member[d * f->P + (uint32_t)w->position % f->P];
    return place;
}

int spot_worker_open_comm(struct spot_worker *w, struct spot_err *err)
{
    static const struct spot_comm_socket_types types = { SPOT_MSG_SCATTER, SPOT_MSG_GATHER };
    struct spot_comm_place place;

    (void)err;
    if (!spot_form_is_active(&w->form, w->id))
        return 0;
    place = place_of(w);
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
