/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "comm/mesh_port.h"
#include "common/xalloc.h"
#include "host/state_transfer.h"
#include "shard/stream.h"

struct spot_state_taker {
    struct spot_state_store *store;
    struct spot_mesh *mesh;
    struct spot_state_move move;
    uint64_t tag;

    struct spot_state_record record; /* as offered */
    struct spot_state_piece *piece;  /* [n_piece] that are wanted, in the order of the stream */
    size_t n_piece;
    struct spot_sink sink;
    struct spot_stream_reader *reader;
    struct spot_port *port; /* NULL: OFFER has not come */
    uint64_t taken_byte;
};

/* --- the stream ------------------------------------------------------------------------------ */

/* The very pieces that were asked for. */
static int begin(void *user, const struct spot_st *st, const void *header, size_t n_header,
                 struct spot_err *err)
{
    const struct spot_state_taker *const t = user;
    bool is_right = st->n_tensor == t->n_piece;

    (void)header;
    (void)n_header;
    for (size_t i = 0; is_right && i < t->n_piece; i++) {
        char hex[SPOT_HASH_HEX];

        spot_hash128_hex(t->piece[i].hash, hex);
        is_right = !strcmp(st->tensor[i].name, hex) &&
                   st->tensor[i].end - st->tensor[i].begin == t->piece[i].n_byte;
    }
    return is_right
               ? 0
               : spot_err_set(err, SPOT_EDATA, "not the pieces of a state that were requested");
}

static int take_piece(void *user, const struct spot_chunk *chunk, const void *raw,
                      struct spot_err *err)
{
    struct spot_state_taker *const t = user;

    t->taken_byte += chunk->raw_byte;
    if (chunk->tensor >= t->n_piece || chunk->raw_byte != t->piece[chunk->tensor].n_byte)
        return spot_err_set(err, SPOT_EDATA, "a piece of a state was cut");
    return spot_state_store_put(t->store, &t->piece[chunk->tensor], raw, err);
}

/* --- the whole ---------------------------------------------------------------------------------
 */

struct spot_state_taker *spot_state_taker_new(struct spot_state_store *store,
                                              struct spot_mesh *mesh,
                                              const struct spot_state_move *move)
{
    struct spot_state_taker *const t = spot_xcalloc(1, sizeof(*t));

    t->store = store;
    t->mesh = mesh;
    t->move = *move;
    t->tag = move->serial;
    t->sink = (struct spot_sink){ .begin = begin, .on_chunk = take_piece, .user = t };
    return t;
}

uint64_t spot_state_taker_taken(const struct spot_state_taker *t)
{
    return t->taken_byte;
}

void spot_state_taker_free(struct spot_state_taker *t)
{
    if (!t)
        return;
    spot_state_store_expect(t->store, NULL);
    if (t->port)
        t->port->close(t->port);
    spot_stream_reader_free(t->reader);
    spot_state_record_release(&t->record);
    free(t->piece);
    free(t);
}

static enum spot_state_step complete(struct spot_state_taker *t, struct spot_err *err)
{
    spot_state_store_expect(t->store, NULL);
    return spot_state_store_add(t->store, &t->record, err) ? SPOT_STATE_FAILED
                                                           : SPOT_STATE_COMPLETE;
}

/* Say what is not here yet. */
static int say_want(struct spot_state_taker *t, struct spot_err *err)
{
    struct spot_buf list = { 0 }, out = { 0 };
    size_t n_all;
    int rc;

    t->piece = spot_state_record_pieces(&t->record, &n_all);
    for (size_t i = 0; i < n_all; i++)
        if (!spot_state_store_has(t->store, t->piece[i].hash)) {
            spot_put_u32(&list, (uint32_t)i);
            t->piece[t->n_piece++] = t->piece[i];
        }
    spot_put_u32(&out, (uint32_t)t->n_piece);
    if (list.n)
        spot_buf_add(&out, list.data, list.n);
    rc = spot_mesh_send(t->mesh, t->move.peer, SPOT_MSG_STATE_WANT, t->tag, out.data, out.n, err);
    spot_buf_release(&list);
    spot_buf_release(&out);
    return rc;
}

static enum spot_state_step take_offer(struct spot_state_taker *t, struct spot_err *err)
{
    struct spot_frame *frame;
    struct spot_wire_in in;
    int rc;

    if (!spot_mesh_wait(t->mesh, t->move.peer, SPOT_MSG_STATE_OFFER, t->tag, 0))
        return SPOT_STATE_WAITS;
    frame = spot_mesh_recv(t->mesh, t->move.peer, SPOT_MSG_STATE_OFFER, t->tag, err);
    if (!frame)
        return SPOT_STATE_FAILED;
    in = spot_wire_in(frame->data, frame->n_byte);
    rc = spot_state_record_get(&in, &t->record, err);
    free(frame);
    if (!rc &&
        (spot_state_id_compare(&t->record.id, &t->move.id) || t->record.place != t->move.place))
        rc = spot_err_set(err, SPOT_EDATA, "not the state that was expected");
    if (rc || say_want(t, err))
        return SPOT_STATE_FAILED;
    spot_state_store_expect(t->store, &t->record);
    if (!t->n_piece)
        return complete(t, err);
    t->port = spot_mesh_port(t->mesh, t->move.peer, SPOT_MSG_STATE_DATA, t->tag, 0);
    t->reader = spot_stream_reader_new(&t->sink, "state");
    return SPOT_STATE_MOVED;
}

enum spot_state_step spot_state_taker_step(struct spot_state_taker *t, struct spot_err *err)
{
    int rc;

    if (!t->port)
        return take_offer(t, err);
    if (!t->port->wait(t->port, 0))
        return SPOT_STATE_WAITS;
    rc = spot_stream_reader_pull(t->reader, t->port, err);
    if (rc < 0)
        return SPOT_STATE_FAILED;
    return rc ? complete(t, err) : SPOT_STATE_MOVED;
}
