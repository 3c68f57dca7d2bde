/* SPDX-License-Identifier: MIT */
/* Sums over the members of a tensor group: over the mesh, or over NCCL from device to device. */
#include <stdlib.h>

#include "comm/nccl_id.h"
#include "engine/backend.h"
#include "serve/relay_state.h"

/* Several contexts that share a device start NCCL one after the other. */
static const double connect_limit_s = 60, call_limit_s = 20;

/* Level by level up the tree: the neighbour of this member at a level has the other half of the
 * sum. Both add the same two numbers, so both have the same bits. */
int spot_relay_exchange(void *user, float *sum, size_t n, struct spot_err *err)
{
    struct spot_relay *const r = user;
    const uint32_t m = r->config.position % r->config.M;

    for (uint32_t bit = 1; bit < r->config.M; bit *= 2) {
        const uint32_t other = spot_relay_member(r, spot_relay_stage(r), m ^ bit);
        const uint64_t tag = r->n_sum++;
        struct spot_frame *frame;
        const float *part;

        if (spot_relay_send(r, other, SPOT_MSG_PART, tag, sum, n, err))
            return -1;
        frame = spot_relay_recv(r, other, SPOT_MSG_PART, tag, n, err);
        if (!frame)
            return -1;
        part = (const float *)(const void *)frame->data;
        for (size_t i = 0; i < n; i++)
            sum[i] += part[i];
        free(frame);
    }
    return 0;
}

int spot_relay_swap(void *user, uint32_t bit, float *sum, float *other, size_t n, void *stream,
                    struct spot_err *err)
{
    struct spot_relay *const r = user;
    const uint32_t peer = r->group[(r->config.position % r->config.M) ^ bit];
    const uint64_t tag = r->n_sum++;
    const struct spot_comm_piece piece[] = {
        { true, peer, SPOT_MSG_PART, tag, sum, n * sizeof(*sum), false },
        { false, peer, SPOT_MSG_PART, tag, other, n * sizeof(*other), false },
    };

    if (!r->comm)
        return spot_err_set(err, SPOT_ESYS, "the communicator has ended");
    return r->comm->kind->exchange(r->comm, piece, 2, stream, err);
}

static int check_epoch(void *user, struct spot_err *err)
{
    struct spot_relay *const r = user;

    return spot_mesh_check(r->mesh, r->group, r->config.M, err);
}

int spot_relay_connect(struct spot_relay *r, struct spot_err *err)
{
    const uint32_t M = r->config.M, p = spot_relay_stage(r);
    const struct spot_nccl *nccl;
    uint8_t id[SPOT_NCCL_ID_BYTE];
    struct spot_nccl_open how = { .member_id = id,
                                  .check = check_epoch,
                                  .user = r,
                                  .timeout_s = connect_limit_s,
                                  .call_limit_s = call_limit_s };

    if (M < 2 || !r->config.is_nccl)
        return 0;
    for (uint32_t m = 0; m < M; m++)
        r->group[m] = spot_relay_member(r, p, m);
    how.place = (struct spot_comm_place){ .me = r->group[r->config.position % M],
                                          .member = r->group,
                                          .n_member = M };
    nccl = spot_cuda_nccl(err);
    if (!nccl ||
        spot_nccl_share_id(nccl, r->mesh, how.place.me, r->group, M, SPOT_MSG_NCCL, 0, id, err))
        return -1;
    r->comm = nccl->open(&how, err);
    return r->comm ? 0 : -1;
}

void spot_relay_disconnect(struct spot_relay *r)
{
    if (r->comm)
        r->comm->kind->close(r->comm);
    r->comm = NULL;
}
