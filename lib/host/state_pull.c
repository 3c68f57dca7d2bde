/* SPDX-License-Identifier: MIT */
#include "host/state_pull.h"

#include <stdlib.h>

#include "common/clock.h"
#include "common/xalloc.h"

/* The other end of a transfer between members. */
struct member {
    struct spot_mesh *mesh;
    uint32_t id;
};

struct spot_state_pull {
    struct spot_state_store *store;
    struct spot_exec_move move;
    spot_state_say_fn say;
    void *user;
    struct member from; /* over a mesh */
    double rate_byte_per_s, began_s;
    struct spot_state_record record;
    struct spot_state_piece *piece; /* [n_piece] of the record; NULL: not received yet */
    size_t n_piece, next;           /* next: the first piece that was not examined yet */
    struct {
        size_t first, n;
    } run[SPOT_STATE_PULL_RUNS]; /* requested runs, in order */
    size_t n_run;
    uint64_t taken_byte;
};

static int say_over_mesh(void *user, uint32_t type, uint64_t tag, struct spot_buf *out_take,
                         struct spot_err *err)
{
    const struct member *const to = user;
    const int rc = spot_mesh_send(to->mesh, to->id, type, tag, out_take->data, out_take->n, err);

    spot_buf_release(out_take);
    return rc;
}

/* Waits; if the member is lost, the next wait fails. */
static enum spot_state_step wait_for(const struct member *m, struct spot_err *err)
{
    return spot_mesh_check(m->mesh, &m->id, 1, err) ? SPOT_STATE_FAILED : SPOT_STATE_WAITS;
}

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

struct spot_state_pull *spot_state_pull_over_mesh(struct spot_state_store *store,
                                                  const struct spot_exec_move *move,
                                                  struct spot_mesh *mesh, double rate_byte_per_s)
{
    struct spot_state_pull *const p = spot_state_pull_new(store, move, say_over_mesh, NULL);

    p->from = (struct member){ mesh, move->from };
    p->user = &p->from;
    p->rate_byte_per_s = rate_byte_per_s;
    p->began_s = spot_clock_s();
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

static int want(struct spot_state_pull *p, size_t first, size_t n, struct spot_err *err)
{
    struct spot_buf out = { 0 };

    spot_state_id_put(&out, &p->move.id);
    spot_put_u32(&out, p->move.place);
    spot_put_u32(&out, (uint32_t)first);
    spot_put_u32(&out, (uint32_t)n);
    return p->say(p->user, SPOT_MSG_EXEC_WANT, p->move.serial, &out, err);
}

/* Request the next run of missing pieces, if there is one. */
static int ask_for_run(struct spot_state_pull *p, struct spot_err *err)
{
    size_t first, n_byte = 0;

    while (p->next < p->n_piece && spot_state_store_has(p->store, p->piece[p->next].hash))
        p->next++;
    first = p->next;
    while (p->next < p->n_piece && n_byte < SPOT_STATE_PULL_BYTE &&
           !spot_state_store_has(p->store, p->piece[p->next].hash))
        n_byte += p->piece[p->next++].n_byte;
    if (p->next == first)
        return 0;
    p->run[p->n_run].first = first;
    p->run[p->n_run++].n = p->next - first;
    return want(p, first, p->next - first, err);
}

/* Request what is missing; if nothing is, the state is complete. */
static enum spot_state_step ask(struct spot_state_pull *p, struct spot_err *err)
{
    size_t before;

    do {
        before = p->n_run;
        if (p->n_run < SPOT_STATE_PULL_RUNS && ask_for_run(p, err))
            return SPOT_STATE_FAILED;
    } while (p->n_run > before);
    if (p->n_run)
        return SPOT_STATE_MOVED;
    spot_state_store_expect(p->store, NULL);
    return want(p, p->n_piece, 0, err) || spot_state_store_add(p->store, &p->record, err)
               ? SPOT_STATE_FAILED
               : SPOT_STATE_COMPLETE;
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
    p->piece = spot_state_record_pieces(&p->record, 1, &p->n_piece);
    spot_state_store_expect(p->store, &p->record);
    return ask(p, err);
}

static enum spot_state_step take_pieces(struct spot_state_pull *p, const struct spot_frame *frame,
                                        struct spot_err *err)
{
    struct spot_wire_in in = spot_wire_in(frame->data, frame->n_byte);

    for (size_t i = 0; p->n_run && i < p->run[0].n; i++) {
        const struct spot_state_piece *const piece = &p->piece[p->run[0].first + i];
        const uint8_t *const data = spot_get_bytes(&in, piece->n_byte);

        if (!data)
            break;
        if (spot_state_store_put(p->store, piece, data, err))
            return SPOT_STATE_FAILED;
        p->taken_byte += piece->n_byte;
    }
    if (!p->n_run || !spot_wire_in_done(&in)) {
        spot_err_set(err, SPOT_EDATA, "not the pieces of a state that were requested");
        return SPOT_STATE_FAILED;
    }
    p->n_run--;
    for (size_t i = 0; i < p->n_run; i++)
        p->run[i] = p->run[i + 1];
    return ask(p, err);
}

enum spot_state_step spot_state_pull_take(struct spot_state_pull *p, const struct spot_frame *frame,
                                          struct spot_err *err)
{
    return frame->type == SPOT_MSG_EXEC_RECORD ? take_record(p, frame, err)
                                               : take_pieces(p, frame, err);
}

enum spot_state_step spot_state_pull_step(struct spot_state_pull *p, struct spot_err *err)
{
    const uint32_t type = p->piece ? SPOT_MSG_EXEC_PIECES : SPOT_MSG_EXEC_RECORD;
    enum spot_state_step step;
    struct spot_frame *frame;

    if ((p->rate_byte_per_s > 0 &&
         (double)p->taken_byte > p->rate_byte_per_s * (spot_clock_s() - p->began_s)) ||
        !spot_mesh_wait(p->from.mesh, p->from.id, type, p->move.serial, 0))
        return wait_for(&p->from, err);
    frame = spot_mesh_recv(p->from.mesh, p->from.id, type, p->move.serial, err);
    if (!frame)
        return SPOT_STATE_FAILED;
    step = spot_state_pull_take(p, frame, err);
    free(frame);
    return step;
}

/* --- sender --------------------------------------------------------------------------------- */

static void put_pieces(struct spot_state_store *store, const struct spot_state_record *record,
                       size_t first, size_t n, struct spot_buf *out)
{
    size_t n_piece;
    struct spot_state_piece *const piece = spot_state_record_pieces(record, 1, &n_piece);

    for (size_t i = first; i < n_piece && i - first < n && out->n < 2 * SPOT_STATE_PULL_BYTE; i++) {
        if (spot_state_store_get(store, &piece[i], spot_buf_more(out, piece[i].n_byte), NULL)) {
            out->n = 0; /* the record is removed with it */
            break;
        }
        out->n += piece[i].n_byte;
    }
    free(piece);
}

/* A FETCH or WANT. */
struct request {
    bool is_fetch;
    struct spot_state_id id;
    uint32_t place, first, n;
};

static int parse_request(const struct spot_frame *frame, struct request *r, struct spot_err *err)
{
    struct spot_wire_in in = spot_wire_in(frame->data, frame->n_byte);

    *r = (struct request){ .is_fetch = frame->type == SPOT_MSG_EXEC_FETCH };
    spot_state_id_get(&in, &r->id);
    r->place = spot_get_u32(&in);
    if (!r->is_fetch) {
        r->first = spot_get_u32(&in);
        r->n = spot_get_u32(&in);
    }
    return spot_wire_in_done(&in) ? 0
                                  : spot_err_set(err, SPOT_EDATA, "malformed request for a state");
}

static bool is_last(const struct request *r)
{
    return !r->is_fetch && !r->n;
}

/* Appends nothing to *out if the piece is not held or is damaged. */
static void answer(struct spot_state_store *store, const struct request *r, struct spot_buf *out)
{
    const struct spot_state_record *const record = spot_state_store_find(store, &r->id, r->place);

    if (record && r->is_fetch)
        spot_state_record_put(out, record);
    else if (record)
        put_pieces(store, record, r->first, r->n, out);
}

static uint32_t type_of_answer(const struct request *r)
{
    return r->is_fetch ? SPOT_MSG_EXEC_RECORD : SPOT_MSG_EXEC_PIECES;
}

int spot_state_serve(struct spot_state_store *store, const struct spot_frame *frame,
                     spot_state_say_fn say, void *user, struct spot_err *err)
{
    struct spot_buf out = { 0 };
    struct request r;

    if (parse_request(frame, &r, err))
        return -1;
    if (is_last(&r))
        return 0;
    answer(store, &r, &out);
    return say(user, type_of_answer(&r), frame->tag, &out, err);
}

/* A state that cannot be sent is an error; it is reported to the coordinator, which cancels the
 * transfer. */
static enum spot_state_step serve_member(struct spot_state_store *store, struct member *to,
                                         const struct spot_frame *frame, struct spot_err *err)
{
    struct spot_buf out = { 0 };
    struct request r;

    if (parse_request(frame, &r, err))
        return SPOT_STATE_FAILED;
    if (is_last(&r))
        return SPOT_STATE_COMPLETE;
    answer(store, &r, &out);
    if (out.n)
        return say_over_mesh(to, type_of_answer(&r), frame->tag, &out, err) ? SPOT_STATE_FAILED
                                                                            : SPOT_STATE_MOVED;
    spot_buf_release(&out);
    spot_err_set(err, SPOT_EDATA, "the state of place %lu is not held here",
                 (unsigned long)r.place);
    return SPOT_STATE_FAILED;
}

enum spot_state_step spot_state_serve_step(struct spot_state_store *store, struct spot_mesh *mesh,
                                           uint32_t peer, uint64_t serial, struct spot_err *err)
{
    const bool is_first = spot_mesh_has(mesh, peer, SPOT_MSG_EXEC_FETCH, serial);
    struct member to = { mesh, peer };
    enum spot_state_step step;
    struct spot_frame *frame;

    if (!is_first && !spot_mesh_has(mesh, peer, SPOT_MSG_EXEC_WANT, serial))
        return wait_for(&to, err);
    frame = spot_mesh_recv(mesh, peer, is_first ? SPOT_MSG_EXEC_FETCH : SPOT_MSG_EXEC_WANT, serial,
                           err);
    step = frame ? serve_member(store, &to, frame, err) : SPOT_STATE_FAILED;
    free(frame);
    return step;
}
