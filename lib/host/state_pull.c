/* SPDX-License-Identifier: MIT */
#include "host/state_pull.h"

#include <stdlib.h>

#include "common/xalloc.h"

struct spot_state_pull {
    struct spot_state_store *store;
    struct spot_exec_move move;
    spot_state_say_fn say;
    void *user;
    struct spot_state_record record;
    struct spot_state_piece *piece; /* [n_piece] of the record; NULL: it has not come */
    size_t n_piece, first, n_asked; /* [first, first + n_asked) are on their way */
    uint64_t taken_byte;
};

/* --- receiver ----------------------------------------------------------------------------- */

struct spot_state_pull *spot_state_pull_new(struct spot_state_store *store,
                                            const struct spot_exec_move *move,
                                            spot_state_say_fn say, void *user)
{
    struct spot_state_pull *const p = spot_xcalloc(1, sizeof(*p));

    p->store = store;
    p->move = *move;
    p->say = say;
    p->user = user;
    return p;
}

void spot_state_pull_free(struct spot_state_pull *p)
{
    if (!p)
        return;
    spot_state_store_expect(p->store, NULL);
    spot_state_record_release(&p->record);
    free(p->piece);
    free(p);
}

uint64_t spot_state_pull_taken(const struct spot_state_pull *p)
{
    return p->taken_byte;
}

int spot_state_pull_begin(struct spot_state_pull *p, struct spot_err *err)
{
    struct spot_buf out = { 0 };

    spot_state_id_put(&out, &p->move.id);
    spot_put_u32(&out, p->move.place);
    return p->say(p->user, SPOT_MSG_EXEC_FETCH, p->move.serial, &out, err);
}

/* The next run of missing pieces; when there is none, the state is complete. */
static enum spot_state_step ask(struct spot_state_pull *p, struct spot_err *err)
{
    struct spot_buf out = { 0 };
    size_t n_byte = 0;

    for (p->first += p->n_asked, p->n_asked = 0; p->first < p->n_piece; p->first++)
        if (!spot_state_store_has(p->store, p->piece[p->first].hash))
            break;
    while (p->first + p->n_asked < p->n_piece && n_byte < SPOT_STATE_PULL_BYTE &&
           !spot_state_store_has(p->store, p->piece[p->first + p->n_asked].hash))
        n_byte += p->piece[p->first + p->n_asked++].n_byte;
    if (!p->n_asked) {
        spot_state_store_expect(p->store, NULL);
        return spot_state_store_add(p->store, &p->record, err) ? SPOT_STATE_FAILED
                                                               : SPOT_STATE_COMPLETE;
    }
    spot_state_id_put(&out, &p->move.id);
    spot_put_u32(&out, p->move.place);
    spot_put_u32(&out, (uint32_t)p->first);
    spot_put_u32(&out, (uint32_t)p->n_asked);
    return p->say(p->user, SPOT_MSG_EXEC_WANT, p->move.serial, &out, err) ? SPOT_STATE_FAILED
                                                                          : SPOT_STATE_MOVED;
}

static enum spot_state_step take_record(struct spot_state_pull *p, const struct spot_frame *frame,
                                        struct spot_err *err)
{
    struct spot_wire_in in = spot_wire_in(frame->data, frame->n_byte);

    if (!frame->n_byte) {
        spot_err_set(err, SPOT_EDATA, "the state of place %lu is not held there",
                     (unsigned long)p->move.place);
        return SPOT_STATE_FAILED;
    }
    if (p->piece || spot_state_record_get(&in, &p->record, err)) {
        spot_err_set(err, SPOT_EDATA, "a record of a state came twice, or is malformed");
        return SPOT_STATE_FAILED;
    }
    if (spot_state_id_compare(&p->record.id, &p->move.id) || p->record.place != p->move.place) {
        spot_err_set(err, SPOT_EDATA, "not the state that was expected");
        return SPOT_STATE_FAILED;
    }
    p->piece = spot_state_record_pieces(&p->record, &p->n_piece);
    spot_state_store_expect(p->store, &p->record);
    return ask(p, err);
}

static enum spot_state_step take_pieces(struct spot_state_pull *p, const struct spot_frame *frame,
                                        struct spot_err *err)
{
    struct spot_wire_in in = spot_wire_in(frame->data, frame->n_byte);

    for (size_t i = 0; p->piece && i < p->n_asked; i++) {
        const struct spot_state_piece *const piece = &p->piece[p->first + i];
        const uint8_t *const data = spot_get_bytes(&in, piece->n_byte);

        if (!data)
            break;
        if (spot_state_store_put(p->store, piece, data, err))
            return SPOT_STATE_FAILED;
        p->taken_byte += piece->n_byte;
    }
    if (spot_wire_in_done(&in) && p->n_asked)
        return ask(p, err);
    spot_err_set(err, SPOT_EDATA, "not the pieces of a state that were requested");
    return SPOT_STATE_FAILED;
}

enum spot_state_step spot_state_pull_take(struct spot_state_pull *p, const struct spot_frame *frame,
                                          struct spot_err *err)
{
    return frame->type == SPOT_MSG_EXEC_RECORD ? take_record(p, frame, err)
                                               : take_pieces(p, frame, err);
}

/* --- sender --------------------------------------------------------------------------------- */

static void put_pieces(struct spot_state_store *store, const struct spot_state_record *record,
                       size_t first, size_t n, struct spot_buf *out)
{
    size_t n_piece;
    struct spot_state_piece *const piece = spot_state_record_pieces(record, &n_piece);

    for (size_t i = first; i < n_piece && i - first < n && out->n < 2 * SPOT_STATE_PULL_BYTE; i++) {
        if (spot_state_store_get(store, &piece[i], spot_buf_more(out, piece[i].n_byte), NULL)) {
            out->n = 0; /* the record is gone with it */
            break;
        }
        out->n += piece[i].n_byte;
    }
    free(piece);
}

int spot_state_serve(struct spot_state_store *store, const struct spot_frame *frame,
                     spot_state_say_fn say, void *user, struct spot_err *err)
{
    struct spot_wire_in in = spot_wire_in(frame->data, frame->n_byte);
    const bool is_fetch = frame->type == SPOT_MSG_EXEC_FETCH;
    const struct spot_state_record *record;
    struct spot_state_id id;
    struct spot_buf out = { 0 };
    uint32_t place, first = 0, n = 0;

    spot_state_id_get(&in, &id);
    place = spot_get_u32(&in);
    if (!is_fetch) {
        first = spot_get_u32(&in);
        n = spot_get_u32(&in);
    }
    if (!spot_wire_in_done(&in))
        return spot_err_set(err, SPOT_EDATA, "malformed request for a state");
    record = spot_state_store_find(store, &id, place);
    if (record && is_fetch)
        spot_state_record_put(&out, record);
    else if (record)
        put_pieces(store, record, first, n, &out);
    return say(user, is_fetch ? SPOT_MSG_EXEC_RECORD : SPOT_MSG_EXEC_PIECES, frame->tag, &out, err);
}
