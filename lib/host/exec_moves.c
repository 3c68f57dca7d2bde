/* SPDX-License-Identifier: MIT */
/* States sent to and from this node, a few pieces at a time beside the ranks, and how a state is
 * laid out for the ranks that start from it. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/safe_dir.h"
#include "common/xalloc.h"
#include "host/exec_agent_state.h"

static const double slice_s = 0.004; /* then orders and ranks are checked */

static void drop(struct spot_exec_agent *e, size_t i)
{
    spot_state_pull_free(e->transfer[i].pull);
    e->n_transfer--;
    for (; i < e->n_transfer; i++) /* in the order of the requests */
        e->transfer[i] = e->transfer[i + 1];
}

void spot_exec_moves_end(struct spot_exec_agent *e)
{
    while (e->n_transfer)
        drop(e, e->n_transfer - 1);
}

static int say(void *user, uint32_t type, uint64_t tag, struct spot_buf *out_take,
               struct spot_err *err)
{
    struct spot_exec_agent *const e = user;

    return spot_agent_send(&e->agent, type, tag, out_take, err);
}

int spot_exec_move_add(struct spot_exec_agent *e, const struct spot_exec_move *move, bool is_due,
                       struct spot_err *err)
{
    const struct spot_exec_transfer t = { .move = *move,
                                          .is_due = is_due,
                                          .is_served = move->from == e->agent.id };

    if (!t.is_served && move->to != e->agent.id)
        return spot_err_set(err, SPOT_ESYS, "the coordinator ordered a move between others");
    e->transfer = spot_xgrow(e->transfer, &e->cap_transfer, e->n_transfer + 1, sizeof(t));
    e->transfer[e->n_transfer++] = t;
    return 0;
}

int spot_exec_on_move(struct spot_exec_agent *e, const struct spot_frame *frame,
                      struct spot_err *err)
{
    struct spot_wire_in in = spot_wire_in(frame->data, frame->n_byte);
    struct spot_exec_move move;

    e->rate_byte_per_s = spot_get_f64(&in);
    spot_exec_get_move(&in, &move);
    if (!spot_wire_in_done(&in))
        return spot_err_set(err, SPOT_ESYS, "the coordinator sent a malformed MOVE");
    return spot_exec_move_add(e, &move, false, err);
}

void spot_exec_move_cancel(struct spot_exec_agent *e, uint64_t serial)
{
    for (size_t i = e->n_transfer; i-- > 0;)
        if (e->transfer[i].move.serial == serial)
            drop(e, i);
}

bool spot_exec_moves_due(const struct spot_exec_agent *e)
{
    for (size_t i = 0; i < e->n_transfer; i++)
        if (e->transfer[i].is_due)
            return true;
    return false;
}

bool spot_exec_moves_take(const struct spot_exec_agent *e)
{
    for (size_t i = 0; i < e->n_transfer; i++)
        if (!e->transfer[i].is_served)
            return true;
    return false;
}

/* --- one transfer --- */

/* Report the end of a transfer: the receiver reports both success and failure, the sender only
 * failure. Nothing is reported for an epoch that is over. */
static int tell_end(struct spot_exec_agent *e, const struct spot_exec_transfer *t,
                    enum spot_state_step end, const struct spot_err *why, struct spot_err *err)
{
    struct spot_buf out = { 0 };

    if (end == SPOT_STATE_FAILED ? why->code == SPOT_EPREEMPTED : t->is_served)
        return 0;
    spot_put_text(&out, end == SPOT_STATE_FAILED ? why->msg : "");
    spot_put_u64(&out, t->pull ? spot_state_pull_taken(t->pull) : 0);
    return spot_agent_send(&e->agent, SPOT_MSG_EXEC_MOVED, t->move.serial, &out, err);
}

static enum spot_state_step begin_pull(struct spot_exec_agent *e, struct spot_exec_transfer *t,
                                       struct spot_err *why)
{
    t->pull = t->move.from ? spot_state_pull_over_mesh(e->store, &t->move, e->agent.mesh,
                                                       t->is_due ? 0 : e->rate_byte_per_s)
                           : spot_state_pull_new(e->store, &t->move, say, e);
    return spot_state_pull_begin(t->pull, why) ? SPOT_STATE_FAILED : SPOT_STATE_MOVED;
}

/* Advance a transfer; messages of the coordinator are handled by spot_exec_moves_hear. */
static enum spot_state_step step(struct spot_exec_agent *e, struct spot_exec_transfer *t,
                                 struct spot_err *why)
{
    if (t->is_served)
        return spot_state_serve_step(e->store, e->agent.mesh, t->move.to, t->move.serial, why);
    if (!t->pull)
        return begin_pull(e, t, why);
    return t->move.from ? spot_state_pull_step(t->pull, why) : SPOT_STATE_WAITS;
}

/* A transfer has ended: report and remove it. */
static int end(struct spot_exec_agent *e, size_t i, enum spot_state_step how,
               const struct spot_err *why, struct spot_err *err)
{
    const int rc = tell_end(e, &e->transfer[i], how, why, err);

    drop(e, i);
    return rc;
}

/* Advance all outgoing transfers and the first incoming one. Returns like spot_exec_moves_step. */
static int step_all(struct spot_exec_agent *e, struct spot_err *err)
{
    bool has_taken = false, has_moved = false;

    for (size_t i = 0; i < e->n_transfer;) {
        struct spot_exec_transfer *const t = &e->transfer[i];
        struct spot_err why = { 0 };
        enum spot_state_step how;

        if (!t->is_served && has_taken) {
            i++;
            continue;
        }
        has_taken = has_taken || !t->is_served;
        how = step(e, t, &why);
        has_moved = has_moved || how != SPOT_STATE_WAITS;
        if (how == SPOT_STATE_COMPLETE || how == SPOT_STATE_FAILED) {
            if (end(e, i, how, &why, err))
                return -1;
        } else {
            i++;
        }
    }
    return has_moved;
}

int spot_exec_moves_step(struct spot_exec_agent *e, struct spot_err *err)
{
    const double until_s = spot_clock_s() + slice_s;
    int rc = 0, any = 0;

    while (e->n_transfer && (rc = step_all(e, err)) > 0) {
        any = 1;
        if (spot_clock_s() > until_s)
            break;
    }
    return rc < 0 ? -1 : any;
}

int spot_exec_moves_hear(struct spot_exec_agent *e, const struct spot_frame *frame,
                         struct spot_err *err)
{
    struct spot_err why = { 0 };

    if (frame->type == SPOT_MSG_EXEC_FETCH || frame->type == SPOT_MSG_EXEC_WANT)
        return spot_state_serve(e->store, frame, say, e, err);
    for (size_t i = 0; i < e->n_transfer; i++) {
        struct spot_exec_transfer *const t = &e->transfer[i];
        enum spot_state_step how;

        if (!t->pull || t->move.serial != frame->tag)
            continue;
        how = spot_state_pull_take(t->pull, frame, &why);
        return how == SPOT_STATE_MOVED ? 0 : end(e, i, how, &why, err);
    }
    return 0;
}

/* --- the state that ranks start from --- */

static const struct spot_state_record *find(const struct spot_exec_agent *e,
                                            const struct spot_state_id *id, uint32_t place,
                                            struct spot_err *err)
{
    const struct spot_state_record *const record = spot_state_store_find(e->store, id, place);

    if (!record)
        spot_err_set(err, SPOT_EDATA, "the state of place %lu is not here", (unsigned long)place);
    return record;
}

static int lay_out_place(struct spot_exec_agent *e, int places_fd, uint32_t place,
                         struct spot_err *err)
{
    const struct spot_state_record *const record = find(e, &e->form.state, place, err);
    char name[16];
    int fd, rc;

    if (!record)
        return -1;
    snprintf(name, sizeof(name), "%lu", (unsigned long)place);
    fd = spot_safe_make_dir(places_fd, name);
    if (fd < 0)
        return spot_err_sys(err, "cannot make '" SPOT_STATE_PLACES "/%s'", name);
    rc = spot_state_lay_out(e->store, fd, record, err);
    close(fd);
    return rc;
}

static int lay_out_all(struct spot_exec_agent *e, struct spot_err *err)
{
    const int fd = spot_safe_make_dir(e->options->state->live_fd, SPOT_STATE_PLACES);
    int rc = 0;

    if (fd < 0)
        return spot_err_sys(err, "cannot make '" SPOT_STATE_PLACES "'");
    for (uint32_t p = 0; !rc && p < e->form.env.state_world; p++)
        rc = lay_out_place(e, fd, p, err);
    close(fd);
    return rc;
}

/* If the number of nodes differs from that of the commit: a replica gets the files of any other
 * one, a program with parts of the state gets all parts. */
static int restore_files(struct spot_exec_agent *e, const struct spot_state_id *id, uint32_t n,
                         bool is_last, struct spot_err *err)
{
    const struct spot_state_record **const record =
        spot_xcalloc(n + 1, sizeof(struct spot_state_record *));
    int rc = 0;

    for (uint32_t p = 0; !rc && p < n; p++)
        if (!(record[p] = find(e, id, p, err)))
            rc = -1;
    if (!rc)
        rc = (is_last ? spot_rank_files_put_last : spot_rank_files_put)(e->options->files, e->store,
                                                                        record, n, err);
    free(record);
    return rc;
}

int spot_exec_restore(struct spot_exec_agent *e, struct spot_err *err)
{
    const struct spot_state_record *record = NULL;

    if (spot_exec_check_found(e, err))
        return -1;
    if (e->options->files)
        return restore_files(e, &e->form.state, e->form.env.has_state ? e->form.env.state_world : 0,
                             false, err);
    if (e->form.env.has_state) {
        record = find(e, &e->form.state, e->form.env.group_rank % e->form.env.state_world, err);
        if (!record)
            return -1;
    }
    if (spot_state_dir_check(e->options->state, err) ||
        spot_state_lay_out(e->store, e->options->state->live_fd, record, err))
        return -1;
    return record && e->form.has_all ? lay_out_all(e, err) : 0;
}

struct spot_state_saved spot_exec_restored(const struct spot_exec_agent *e)
{
    struct spot_state_saved newest = { 0 };

    for (uint32_t p = 0; e->form.env.has_state && p < e->form.env.state_world; p++) {
        const struct spot_state_record *const record =
            spot_state_store_find(e->store, &e->form.state, p);
        const struct spot_state_saved saved =
            record ? spot_state_record_saved(record) : (struct spot_state_saved){ 0 };

        if (saved.at_ns > newest.at_ns)
            newest = saved;
    }
    return newest;
}

/* --- the last commit of a finished job --- */

int spot_exec_on_lay(struct spot_exec_agent *e, const struct spot_frame *frame,
                     struct spot_err *err)
{
    struct spot_wire_in in = spot_wire_in(frame->data, frame->n_byte);

    spot_state_id_get(&in, &e->lay);
    e->lay_world = spot_get_u32(&in);
    e->is_lay_due = spot_wire_in_done(&in) && e->lay_world;
    return e->is_lay_due ? 0 : spot_err_set(err, SPOT_ESYS, "the coordinator sent a malformed LAY");
}

/* Lay out the last commit, but never over newer files. */
int spot_exec_lay_last(struct spot_exec_agent *e, struct spot_err *err)
{
    struct spot_buf out = { 0 };
    struct spot_err why = { 0 };

    e->is_lay_due = false;
    if (!e->options->files)
        spot_err_set(&why, SPOT_EUSAGE, "there is no --checkpoint here");
    else if (spot_rank_files_look(e->options->files) != SPOT_FILES_SAME)
        spot_err_set(&why, SPOT_EDATA,
                     "what its ranks saved last could not be committed; it stays");
    else
        (void)restore_files(e, &e->lay, e->lay_world, true, &why);
    spot_put_text(&out, why.msg);
    return spot_agent_send(&e->agent, SPOT_MSG_EXEC_LAID, 0, &out, err);
}
