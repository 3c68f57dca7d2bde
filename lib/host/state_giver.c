/* SPDX-License-Identifier: MIT */
#include <stdlib.h>

#include "comm/mesh_port.h"
#include "common/clock.h"
#include "common/xalloc.h"
#include "host/state_transfer.h"
#include "shard/stream.h"

enum { QUEUE_BYTE = 4 << 20 }; /* coded and not yet taken by the wire */

struct spot_state_giver {
    struct spot_state_store *store;
    struct spot_mesh *mesh;
    struct spot_state_move move;
    uint64_t tag;
    double rate_byte_per_s;
    bool has_offered;

    struct spot_state_piece *piece; /* [n_piece], of the record */
    size_t n_piece;
    uint32_t *wanted; /* [n_wanted] */
    size_t n_wanted;

    struct spot_port *port; /* NULL: WANT has not come */
    struct spot_source source;
    uint64_t *begin; /* [n_wanted] in the data of the stream */
    struct spot_buf header, out;
    struct spot_stream_writer *writer;
    uint64_t sent_byte;
    double began_s;
};

struct spot_state_giver *spot_state_giver_new(struct spot_state_store *store,
                                              struct spot_mesh *mesh,
                                              const struct spot_state_move *move,
                                              double rate_byte_per_s)
{
    struct spot_state_giver *const g = spot_xcalloc(1, sizeof(*g));

    g->store = store;
    g->mesh = mesh;
    g->move = *move;
    g->tag = move->serial;
    g->rate_byte_per_s = rate_byte_per_s;
    return g;
}

void spot_state_giver_free(struct spot_state_giver *g)
{
    if (!g)
        return;
    if (g->port)
        g->port->close(g->port);
    spot_stream_writer_free(g->writer);
    spot_buf_release(&g->header);
    spot_buf_release(&g->out);
    free(g->begin);
    free(g->wanted);
    free(g->piece);
    free(g);
}

uint64_t spot_state_giver_sent(const struct spot_state_giver *g)
{
    return g->sent_byte;
}

static int offer(struct spot_state_giver *g, struct spot_err *err)
{
    const struct spot_state_record *const record =
        spot_state_store_find(g->store, &g->move.id, g->move.place);
    struct spot_buf out = { 0 };
    int rc;

    if (!record)
        return spot_err_set(err, SPOT_EDATA, "the state of place %lu is not held here",
                            (unsigned long)g->move.place);
    g->piece = spot_state_record_pieces(record, &g->n_piece);
    spot_state_record_put(&out, record);
    rc = spot_mesh_send(g->mesh, g->move.peer, SPOT_MSG_STATE_OFFER, g->tag, out.data, out.n, err);
    spot_buf_release(&out);
    g->has_offered = true;
    return rc;
}

/* --- what is wanted ------------------------------------------------------------------------ */

/* Each piece is one chunk of the stream, since it is not larger than one. */
static int read_piece(void *user, uint64_t at, void *data, size_t n_byte, struct spot_err *err)
{
    struct spot_state_giver *const g = user;
    size_t low = 0, high = g->n_wanted;

    while (high - low > 1) {
        const size_t middle = low + (high - low) / 2;

        if (g->begin[middle] <= at)
            low = middle;
        else
            high = middle;
    }
    if (g->begin[low] != at || g->piece[g->wanted[low]].n_byte != n_byte)
        return spot_err_set(err, SPOT_EDATA, "a piece of a state was cut");
    g->sent_byte += n_byte;
    return spot_state_store_get(g->store, &g->piece[g->wanted[low]], data, err);
}

static void make_header(struct spot_state_giver *g)
{
    struct spot_st_tensor *const t = spot_xcalloc(g->n_wanted, sizeof(*t));
    char *const names = spot_xcalloc(g->n_wanted, SPOT_HASH_HEX);
    uint64_t at = 0;

    g->begin = spot_xcalloc(g->n_wanted, sizeof(*g->begin));
    for (size_t i = 0; i < g->n_wanted; i++) {
        const struct spot_state_piece *const piece = &g->piece[g->wanted[i]];
        char *const name = names + i * SPOT_HASH_HEX;

        spot_hash128_hex(piece->hash, name);
        t[i].name = name;
        t[i].dtype = SPOT_DT_U8;
        t[i].n_dim = 1;
        t[i].dim[0] = piece->n_byte;
        g->begin[i] = at;
        at += piece->n_byte;
    }
    spot_st_write(t, g->n_wanted, &g->header);
    free(t);
    free(names);
}

static int begin_stream(struct spot_state_giver *g, struct spot_err *err)
{
    const struct spot_stream_options options = { .codec = SPOT_CODEC_RAW,
                                                 .chunk_byte = SPOT_STATE_CHUNK_BYTE,
                                                 .no_frame_check = true };

    make_header(g);
    g->source = (struct spot_source){
        .header = g->header.data, .n_header = g->header.n, .read = read_piece, .user = g
    };
    g->port = spot_mesh_port(g->mesh, g->move.peer, SPOT_MSG_STATE_DATA, g->tag, 0);
    g->writer = spot_stream_writer_new(&options, g->header.data, g->header.n, &g->out, err);
    g->began_s = spot_clock_s();
    return g->writer ? 0 : -1;
}

/* Ascending, so that none comes twice. */
static int parse_want(struct spot_state_giver *g, const struct spot_frame *frame,
                      struct spot_err *err)
{
    struct spot_wire_in in = spot_wire_in(frame->data, frame->n_byte);
    const size_t n = spot_get_count(&in, 4);

    g->wanted = spot_xcalloc(n, sizeof(*g->wanted));
    for (; g->n_wanted < n; g->n_wanted++) {
        const uint32_t i = spot_get_u32(&in);

        if (i >= g->n_piece || (g->n_wanted && i <= g->wanted[g->n_wanted - 1]))
            in.bad = true;
        g->wanted[g->n_wanted] = in.bad ? 0 : i;
    }
    return spot_wire_in_done(&in) ? 0
                                  : spot_err_set(err, SPOT_EDATA, "malformed request for a state");
}

static enum spot_state_step take_want(struct spot_state_giver *g, struct spot_err *err)
{
    struct spot_frame *frame;
    int rc;

    if (!spot_mesh_wait(g->mesh, g->move.peer, SPOT_MSG_STATE_WANT, g->tag, 0))
        return SPOT_STATE_WAITS;
    frame = spot_mesh_recv(g->mesh, g->move.peer, SPOT_MSG_STATE_WANT, g->tag, err);
    if (!frame)
        return SPOT_STATE_FAILED;
    rc = parse_want(g, frame, err);
    free(frame);
    if (rc)
        return SPOT_STATE_FAILED;
    if (!g->n_wanted)
        return SPOT_STATE_COMPLETE;
    return begin_stream(g, err) ? SPOT_STATE_FAILED : SPOT_STATE_MOVED;
}

/* --- steps ----------------------------------------------------------------------------------- */

static bool must_wait(const struct spot_state_giver *g)
{
    return spot_mesh_queued(g->mesh, g->move.peer) > QUEUE_BYTE ||
           (g->rate_byte_per_s > 0 &&
            (double)g->sent_byte > g->rate_byte_per_s * (spot_clock_s() - g->began_s));
}

static enum spot_state_step send_more(struct spot_state_giver *g, struct spot_err *err)
{
    int more;

    if (must_wait(g))
        return spot_mesh_check(g->mesh, &g->move.peer, 1, err) ? SPOT_STATE_FAILED
                                                               : SPOT_STATE_WAITS;
    more = spot_stream_writer_next(g->writer, &g->source, &g->out, err);
    if (more < 0 || g->port->write(g->port, g->out.data, g->out.n, err))
        return SPOT_STATE_FAILED;
    g->out.n = 0;
    return more ? SPOT_STATE_MOVED : SPOT_STATE_COMPLETE;
}

enum spot_state_step spot_state_giver_step(struct spot_state_giver *g, struct spot_err *err)
{
    if (!g->has_offered)
        return offer(g, err) ? SPOT_STATE_FAILED : SPOT_STATE_MOVED;
    return g->port ? send_more(g, err) : take_want(g, err);
}
