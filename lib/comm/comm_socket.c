/* SPDX-License-Identifier: MIT */
#include "comm/comm_socket.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "comm/sum_route.h"
#include "common/xalloc.h"

struct socket_comm {
    struct spot_comm base;
    struct spot_mesh *mesh;
    struct spot_comm_place place;
    struct spot_comm_socket_types types;
    size_t rank; /* index of this member among the replicas */
    struct spot_sum_route route;
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

/* --- sums: see sum_route.h ------------------------------------------------ */

/* Pieces [begin, end) of a sum's numbers. */
struct range {
    size_t begin, end;
};

static int64_t *at_piece(const struct socket_comm *c, const struct spot_comm_sum *sum, size_t q)
{
    return (int64_t *)sum->data + spot_sum_piece(&c->route, sum->n, q);
}

static size_t count(const struct socket_comm *c, const struct spot_comm_sum *sum, struct range r)
{
    return (size_t)(at_piece(c, sum, r.end) - at_piece(c, sum, r.begin));
}

static struct range collected_by(const struct socket_comm *c, size_t rank)
{
    struct range r;

    spot_sum_collects(&c->route, rank, &r.begin, &r.end);
    return r;
}

static struct range piece_of(size_t q)
{
    return (struct range){ q, q + 1 };
}

static int send_range(const struct socket_comm *c, const struct spot_comm_sum *sum, size_t to,
                      struct range r, uint32_t type, struct spot_err *err)
{
    return spot_mesh_lend(c->mesh, c->place.replica[to], type, sum->tag, at_piece(c, sum, r.begin),
                          count(c, sum, r) * sizeof(int64_t), err);
}

static struct spot_frame *take_range(const struct socket_comm *c, const struct spot_comm_sum *sum,
                                     size_t from, struct range r, uint32_t type,
                                     struct spot_err *err)
{
    return take(c, c->place.replica[from], type, sum->tag, count(c, sum, r) * sizeof(int64_t), err);
}

/* Receive a contribution and add it. Integer sums do not depend on the order. */
static int add_range(const struct socket_comm *c, const struct spot_comm_sum *sum, size_t from,
                     struct range r, uint32_t type, struct spot_err *err)
{
    struct spot_frame *const frame = take_range(c, sum, from, r, type, err);
    int64_t *const to = at_piece(c, sum, r.begin);
    const int64_t *more;

    if (!frame)
        return -1;
    more = (const int64_t *)(const void *)frame->data;
    for (size_t i = 0; i < count(c, sum, r); i++)
        to[i] = (int64_t)((uint64_t)to[i] + (uint64_t)more[i]);
    free(frame);
    return 0;
}

/* Receive numbers that replace the local ones, except the own piece, whose memory is lent. What was
 * sent of the others has arrived: these numbers contain it. */
static int replace_range(const struct socket_comm *c, const struct spot_comm_sum *sum, size_t from,
                         struct range r, uint32_t type, bool keeps_own, struct spot_err *err)
{
    struct spot_frame *const frame = take_range(c, sum, from, r, type, err);
    const int64_t *const first = at_piece(c, sum, r.begin);

    if (!frame)
        return -1;
    for (size_t q = r.begin; q < r.end; q++) {
        int64_t *const to = at_piece(c, sum, q);

        if (q != c->rank || !keeps_own)
            memcpy(to, frame->data + (size_t)(to - first) * sizeof(*to),
                   count(c, sum, piece_of(q)) * sizeof(*to));
    }
    free(frame);
    return 0;
}

/* The k-th of this row after this replica. */
static size_t row_mate(const struct socket_comm *c, size_t k)
{
    const size_t n = spot_sum_row_size(&c->route, c->rank);

    return spot_sum_row_rank(&c->route, c->rank, (c->rank / c->route.n_row + k) % n);
}

/* Step 1, sending. */
static int scatter(struct spot_comm *comm, const struct spot_comm_sum *sum, struct spot_err *err)
{
    const struct socket_comm *const c = of(comm);
    const size_t n = spot_sum_row_size(&c->route, c->rank);

    for (size_t k = 1; k < n; k++) {
        const size_t to = row_mate(c, k);

        if (send_range(c, sum, to, collected_by(c, to), c->types.scatter, err))
            return -1;
    }
    return 0;
}

/* Step 1, receiving, then step 2. */
static int collect(const struct socket_comm *c, const struct spot_comm_sum *sum,
                   struct spot_err *err)
{
    const size_t n = spot_sum_row_size(&c->route, c->rank);
    const struct range own = collected_by(c, c->rank);

    for (size_t k = 1; k < n; k++)
        if (add_range(c, sum, row_mate(c, n - k), own, c->types.scatter, err))
            return -1;
    for (size_t q = own.begin; q < own.end; q++)
        if (q != c->rank && send_range(c, sum, q, piece_of(q), c->types.collect, err))
            return -1;
    return 0;
}

static size_t collector_of_own(const struct socket_comm *c, size_t i)
{
    const size_t row = (c->rank + i) % c->route.n_row;

    return spot_sum_collector(&c->route, row, c->rank);
}

/* Step 2, receiving, then step 3. The own row's collector comes first: its number contains the
 * local one. */
static int add_rows(const struct socket_comm *c, const struct spot_comm_sum *sum,
                    struct spot_err *err)
{
    const struct range own = piece_of(c->rank);
    const size_t first = collector_of_own(c, 0);

    if (first != c->rank && replace_range(c, sum, first, own, c->types.collect, false, err))
        return -1;
    for (size_t i = 1; i < c->route.n_row; i++)
        if (add_range(c, sum, collector_of_own(c, i), own, c->types.collect, err))
            return -1;
    for (size_t i = 0; i < c->route.n_row; i++) {
        const size_t to = collector_of_own(c, i);

        if (to != c->rank && send_range(c, sum, to, own, c->types.spread, err))
            return -1;
    }
    return 0;
}

/* Step 3, receiving, then step 4. */
static int gather(const struct socket_comm *c, const struct spot_comm_sum *sum,
                  struct spot_err *err)
{
    const size_t n = spot_sum_row_size(&c->route, c->rank);
    const struct range own = collected_by(c, c->rank);

    for (size_t q = own.begin; q < own.end; q++)
        if (q != c->rank && replace_range(c, sum, q, piece_of(q), c->types.spread, false, err))
            return -1;
    for (size_t k = 1; k < n; k++)
        if (send_range(c, sum, row_mate(c, k), own, c->types.gather, err))
            return -1;
    return 0;
}

/* Step 4, receiving. */
static int finish(const struct socket_comm *c, const struct spot_comm_sum *sum,
                  struct spot_err *err)
{
    const size_t n = spot_sum_row_size(&c->route, c->rank);

    for (size_t k = 1; k < n; k++) {
        const size_t from = row_mate(c, n - k);

        if (replace_range(c, sum, from, collected_by(c, from), c->types.gather, true, err))
            return -1;
    }
    return 0;
}

typedef int step_fn(const struct socket_comm *, const struct spot_comm_sum *, struct spot_err *);

static int each(const struct socket_comm *c, const struct spot_comm_sum *sum, size_t n,
                step_fn *step, struct spot_err *err)
{
    for (size_t i = 0; i < n; i++)
        if (step(c, &sum[i], err))
            return -1;
    return 0;
}

/* With one row, a sum is sent on before the next one is waited for. */
static int collect_one_row(const struct socket_comm *c, const struct spot_comm_sum *sum,
                           struct spot_err *err)
{
    return collect(c, sum, err) || gather(c, sum, err) ? -1 : 0;
}

static int sum_all(struct spot_comm *comm, enum spot_comm_number number,
                   const struct spot_comm_sum *sum, size_t n, void *stream, struct spot_err *err)
{
    const struct socket_comm *const c = of(comm);
    int rc;

    (void)stream;
    assert(number == SPOT_COMM_I64);
    for (size_t i = 0; i < n; i++)
        if (!sum[i].is_started && scatter(comm, &sum[i], err))
            return -1;
    if (c->route.n_row == 1)
        rc = each(c, sum, n, collect_one_row, err);
    else
        rc = each(c, sum, n, collect, err) || each(c, sum, n, add_rows, err) ||
             each(c, sum, n, gather, err);
    return rc || each(c, sum, n, finish, err) ? -1 : 0;
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

    *c = (struct socket_comm){ { &sockets }, mesh, *place,
                               *types,       0,    spot_sum_route(place->n_replica) };
    while (c->rank < place->n_replica && place->replica[c->rank] != place->me)
        c->rank++;
    assert(!place->n_replica || c->rank < place->n_replica);
    return &c->base;
}
