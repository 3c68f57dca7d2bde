/* SPDX-License-Identifier: MIT */
/* A new epoch's moves of state between members. Bundles are sent chunk by chunk: while one is
 * encoded, earlier ones are in transit or being decoded by the receiver. */
#include <stdlib.h>

#include "checkpoint/bundle_io.h"
#include "comm/mesh_port.h"
#include "common/xalloc.h"
#include "train/worker_state.h"

enum { QUEUE_BYTE = 4 << 20 }; /* encoded bytes not yet sent, for each receiver */

/* A bundle being received. */
struct arrival {
    uint32_t bundle;
    struct spot_port *port; /* NULL once it is held */
    struct spot_bundle_reader *reader;
};

struct moves {
    struct spot_worker *worker;
    struct arrival *arrival; /* [n] */
    size_t n;
};

void spot_worker_hold(struct spot_worker *w, struct spot_bundle *bundle_take)
{
    if (w->stage)
        spot_stage_forget(w->stage, bundle_take->index);
    if (w->stage_on) /* a new object may have the same address */
        w->stage_on[bundle_take->index] = NULL;
    spot_bundle_free(w->bundle[bundle_take->index]);
    w->bundle[bundle_take->index] = bundle_take;
    spot_mesh_progress(w->agent.mesh);
}

/* --- receiving -------------------------------------------------------------------- */

static void open_arrival(struct spot_worker *w, struct arrival *a, uint32_t from, uint32_t bundle,
                         int64_t step)
{
    a->bundle = bundle;
    a->port = spot_mesh_port(w->agent.mesh, from, SPOT_MSG_BUNDLE, bundle, QUEUE_BYTE);
    a->reader = spot_bundle_reader_new(&w->config.shape, (int)bundle, step);
}

static void close_arrival(struct arrival *a)
{
    if (a->port)
        a->port->close(a->port);
    spot_bundle_reader_free(a->reader);
    *a = (struct arrival){ 0 };
}

/* Wait for more of a bundle and take it. */
static int take_more(struct spot_worker *w, struct arrival *a, struct spot_err *err)
{
    struct spot_bundle *bundle = NULL;
    const int rc = spot_bundle_reader_pull(a->reader, a->port, &bundle, err);

    if (rc < 0)
        spot_agent_set_unfit(&w->agent, spot_bundle_reader_is_short(a->reader));
    if (rc <= 0)
        return rc;
    spot_worker_hold(w, bundle);
    close_arrival(a);
    return 0;
}

/* Take what was received so far, without waiting. */
static int take_arrived(struct moves *m, struct spot_err *err)
{
    for (size_t i = 0; i < m->n; i++)
        while (m->arrival[i].port && m->arrival[i].port->wait(m->arrival[i].port, 0))
            if (take_more(m->worker, &m->arrival[i], err))
                return -1;
    return 0;
}

static int take_rest(struct moves *m, struct spot_err *err)
{
    for (size_t i = 0; i < m->n; i++)
        while (m->arrival[i].port)
            if (take_more(m->worker, &m->arrival[i], err) || take_arrived(m, err))
                return -1;
    return 0;
}

int spot_worker_take_bundle(struct spot_worker *w, uint32_t from, uint32_t bundle, int64_t step,
                            struct spot_err *err)
{
    struct arrival a;
    int rc = 0;

    open_arrival(w, &a, from, bundle, step);
    while (a.port && !rc)
        rc = take_more(w, &a, err);
    close_arrival(&a);
    return rc;
}

/* --- sending ------------------------------------------------------------------- */

/* Sends a bundle, encoded once for all receivers; incoming data are received between two chunks. */
static int send_all(const struct spot_bundle *bundle, struct spot_port *const *port, size_t n_port,
                    struct moves *moves, struct spot_err *err)
{
    struct spot_bundle_writer *writer = spot_bundle_writer_new(bundle, err);
    struct spot_buf piece = { 0 };
    int more = writer ? 1 : -1;

    while (more > 0) {
        piece.n = 0;
        more = spot_bundle_writer_next(writer, &piece, err);
        for (size_t i = 0; i < n_port && more >= 0; i++)
            if (port[i]->write(port[i], piece.data, piece.n, err))
                more = -1;
        if (more >= 0 && moves && take_arrived(moves, err))
            more = -1;
    }
    spot_buf_release(&piece);
    spot_bundle_writer_free(writer);
    return more;
}

/* Sends a bundle during steps: all of it is queued, without waiting. */
int spot_worker_send_bundle(struct spot_worker *w, uint32_t to, uint32_t bundle,
                            struct spot_err *err)
{
    struct spot_port *port = spot_mesh_port(w->agent.mesh, to, SPOT_MSG_BUNDLE, bundle, 0);
    const int rc = send_all(w->bundle[bundle], &port, 1, NULL, err);

    port->close(port);
    return rc;
}

static bool is_ours(const struct spot_worker *w, const struct spot_transfer *t, uint32_t bundle)
{
    return t->origin == SPOT_FROM_MEMBER && t->from == w->agent.id && t->bundle == bundle;
}

static int send_bundle(struct moves *m, uint32_t index, struct spot_err *err)
{
    struct spot_worker *const w = m->worker;
    const struct spot_form *const f = &w->form;
    const struct spot_bundle *const bundle = w->bundle[index];
    struct spot_port **port;
    size_t n = 0;
    int rc;

    if (!bundle || bundle->step != f->step)
        return spot_err_set(err, SPOT_EDATA,
                            "bundle %u of step %lld was requested, but is not held here",
                            (unsigned)index, (long long)f->step);
    if (w->stage && spot_stage_sync(w->stage, (int)index, err))
        return -1; /* for members that kept their place and stage */
    port = spot_xcalloc(f->n_transfer, sizeof(struct spot_port *));
    for (size_t i = 0; i < f->n_transfer; i++)
        if (is_ours(w, &f->transfer[i], index))
            port[n++] = spot_mesh_port(w->agent.mesh, f->transfer[i].to, SPOT_MSG_BUNDLE, index,
                                       QUEUE_BYTE);
    rc = send_all(bundle, port, n, m, err);
    for (size_t i = 0; i < n; i++)
        port[i]->close(port[i]);
    free(port);
    return rc;
}

static int send_bundles(struct moves *m, struct spot_err *err)
{
    const struct spot_worker *const w = m->worker;
    const struct spot_form *const f = &w->form;

    for (size_t i = 0; i < f->n_transfer; i++) {
        bool is_first = is_ours(w, &f->transfer[i], f->transfer[i].bundle);

        for (size_t j = 0; j < i && is_first; j++)
            is_first = !is_ours(w, &f->transfer[j], f->transfer[i].bundle);
        if (is_first && send_bundle(m, f->transfer[i].bundle, err))
            return -1;
    }
    return 0;
}

/* Members cannot deadlock: a mesh receives frames regardless of what its member does, so waiting
 * for free space in a queue is waiting for the network only. */
int spot_worker_move(struct spot_worker *w, struct spot_err *err)
{
    const struct spot_form *const f = &w->form;
    struct moves m = { .worker = w };
    int rc;

    m.arrival = spot_xcalloc(f->n_transfer, sizeof(*m.arrival));
    for (size_t i = 0; i < f->n_transfer; i++)
        if (f->transfer[i].to == w->agent.id && f->transfer[i].origin == SPOT_FROM_MEMBER)
            open_arrival(w, &m.arrival[m.n++], f->transfer[i].from, f->transfer[i].bundle, f->step);
    rc = send_bundles(&m, err) || spot_worker_restore(w, err) || take_rest(&m, err) ? -1 : 0;
    while (m.n)
        close_arrival(&m.arrival[--m.n]);
    free(m.arrival);
    return rc;
}
