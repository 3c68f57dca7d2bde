/* SPDX-License-Identifier: MIT */
#include "comm/comm_socket.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"

struct socket_comm {
    struct spot_comm base;
    struct spot_mesh *mesh;
    struct spot_comm_place place;
    struct spot_comm_socket_types types;
    size_t rank; /* index of this member among the replicas */
};

static struct socket_comm *of(struct spot_comm *comm)
{
    return (struct socket_comm *)(void *)comm;
}

/* Receives a frame of exactly n_byte; NULL with *err. */
static struct spot_frame *take(const struct socket_comm *c, uint32_t peer, uint32_t type,
                               uint64_t tag, size_t n_byte, struct spot_err *err)
{
    struct spot_frame *frame = spot_mesh_recv(c->mesh, peer, type, tag, err);

    if (!frame || frame->n_byte == n_byte)
        return frame;
    spot_err_set(err, SPOT_ESYS, "member %u sent %zu bytes, expected %zu", (unsigned)peer,
                 frame->n_byte, n_byte);
    free(frame);
    return NULL;
}

/* All sends are queued first, so that members do not wait for each other. */
static int exchange(struct spot_comm *comm, const struct spot_comm_piece *piece, size_t n,
                    void *stream, struct spot_err *err)
{
    const struct socket_comm *const c = of(comm);

    (void)stream;
    for (size_t i = 0; i < n; i++)
        if (piece[i].is_send && (piece[i].is_lent ? spot_mesh_lend : spot_mesh_send)(
                                    c->mesh, piece[i].peer, piece[i].type, piece[i].tag,
                                    piece[i].data, piece[i].n_byte, err))
            return -1;
    for (size_t i = 0; i < n; i++) {
        struct spot_frame *frame;

        if (piece[i].is_send)
            continue;
        frame = take(c, piece[i].peer, piece[i].type, piece[i].tag, piece[i].n_byte, err);
        if (!frame)
            return -1;
        memcpy(piece[i].data, frame->data, frame->n_byte);
        free(frame);
    }
    return 0;
}

/* --- sums ---------------------------------------------------------------- */

struct share {
    int64_t *sum;
    size_t n;
};

/* Share r of the numbers of a sum. */
static struct share share_of(const struct socket_comm *c, const struct spot_comm_sum *sum, size_t r)
{
    const size_t n = sum->n, D = c->place.n_replica;
    const size_t begin = n / D * r + n % D * r / D, end = n / D * (r + 1) + n % D * (r + 1) / D;

    return (struct share){ (int64_t *)sum->data + begin, end - begin };
}

/* Send share r of a sum to the replica `to`. */
static int send_share(const struct socket_comm *c, const struct spot_comm_sum *sum, size_t to,
                      size_t r, uint32_t type, struct spot_err *err)
{
    const struct share share = share_of(c, sum, r);

    return spot_mesh_lend(c->mesh, c->place.replica[to], type, sum->tag, share.sum,
                          share.n * sizeof(*share.sum), err);
}

static void add_sums(int64_t *sum, const int64_t *more, size_t n)
{
    for (size_t i = 0; i < n; i++)
        sum[i] = (int64_t)((uint64_t)sum[i] + (uint64_t)more[i]);
}

/* Receive share r of a sum from the replica `from`, and add it to the local values or replace
 * them. */
static int take_share(const struct socket_comm *c, const struct spot_comm_sum *sum, size_t from,
                      size_t r, uint32_t type, struct spot_err *err)
{
    const struct share share = share_of(c, sum, r);
    struct spot_frame *frame =
        take(c, c->place.replica[from], type, sum->tag, share.n * sizeof(*share.sum), err);

    if (!frame)
        return -1;
    if (type == c->types.scatter)
        add_sums(share.sum, (const int64_t *)(const void *)frame->data, share.n);
    else
        memcpy(share.sum, frame->data, frame->n_byte);
    free(frame);
    return 0;
}

/* Send to every other replica its share. */
static int scatter(struct spot_comm *comm, const struct spot_comm_sum *sum, struct spot_err *err)
{
    const struct socket_comm *const c = of(comm);
    const size_t D = c->place.n_replica, me = c->rank;

    for (size_t k = 1; k < D; k++)
        if (send_share(c, sum, (me + k) % D, (me + k) % D, c->types.scatter, err))
            return -1;
    return 0;
}

/* Add up my share and send it to every other replica. */
static int gather(const struct socket_comm *c, const struct spot_comm_sum *sum,
                  struct spot_err *err)
{
    const size_t D = c->place.n_replica, me = c->rank;

    for (size_t k = 1; k < D; k++)
        if (take_share(c, sum, (me + D - k) % D, me, c->types.scatter, err))
            return -1;
    for (size_t k = 1; k < D; k++)
        if (send_share(c, sum, (me + k) % D, me, c->types.gather, err))
            return -1;
    return 0;
}

/* Each replica sends the others their shares, sums its own share and sends the result to all.
 * Integer sums do not depend on the order of arrival. */
static int sum_all(struct spot_comm *comm, enum spot_comm_number number,
                   const struct spot_comm_sum *sum, size_t n, void *stream, struct spot_err *err)
{
    const struct socket_comm *const c = of(comm);
    const size_t D = c->place.n_replica, me = c->rank;

    (void)stream;
    assert(number == SPOT_COMM_I64);
    for (size_t i = 0; i < n; i++)
        if (!sum[i].is_started && scatter(comm, &sum[i], err))
            return -1;
    for (size_t i = 0; i < n; i++)
        if (gather(c, &sum[i], err))
            return -1;
    for (size_t i = 0; i < n; i++)
        for (size_t k = 1; k < D; k++)
            if (take_share(c, &sum[i], (me + D - k) % D, (me + D - k) % D, c->types.gather, err))
                return -1;
    return 0;
}

/* --- open and close ---------------------------------------------------------------- */

static void close_comm(struct spot_comm *comm)
{
    free(comm);
}

static const struct spot_comm_kind sockets = { "sockets", false,   exchange,
                                               scatter,   sum_all, close_comm };

struct spot_comm *spot_comm_socket_open(struct spot_mesh *mesh, const struct spot_comm_place *place,
                                        const struct spot_comm_socket_types *types)
{
    struct socket_comm *const c = spot_xcalloc(1, sizeof(*c));

    *c = (struct socket_comm){ { &sockets }, mesh, *place, *types, 0 };
    while (c->rank < place->n_replica && place->replica[c->rank] != place->me)
        c->rank++;
    assert(!place->n_replica || c->rank < place->n_replica);
    return &c->base;
}
