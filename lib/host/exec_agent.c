/* SPDX-License-Identifier: MIT */
#include "host/exec_agent.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cluster/protocol.h"
#include "comm/endpoint.h"
#include "common/clock.h"
#include "common/xalloc.h"
#include "host/exec_agent_state.h"

static const double look_s = 0.02; /* between two checks for orders */
static const double hurry_s = 0.001;
static const double settled_s = 1; /* ranks that have been up this long count as a round */

/* --- ranks ------------------------------------------------------------------------- */

static void on_exit_of(struct spot_exec_agent *e, const struct spot_rank_event *event)
{
    if (e->is_stopping || event->round != e->held.restart_count)
        return;
    if (e->is_saving) {
        e->n_left++;
        e->left_s = spot_clock_s();
    }
    if (e->held.state != SPOT_EXEC_RUNNING)
        return;
    e->has_exited[event->local] = true;
    if (e->options->files && event->status && !(e->is_saving && WIFEXITED(event->status)))
        spot_rank_files_freeze(e->options->files);
    /* the rank may have left because it has saved: neither a failure nor the end of the round */
    if (e->is_saving) {
        e->held.state = SPOT_EXEC_ENDED;
    } else if (event->status) {
        e->held.state = SPOT_EXEC_ENDED;
        e->ended_rank = event->local;
        e->ended_status = event->status;
    } else if (++e->n_done == e->options->n_rank) {
        e->held.state = SPOT_EXEC_DONE;
    }
}

static void on_event(struct spot_exec_agent *e, const struct spot_rank_event *event)
{
    switch (event->kind) {
    case SPOT_RANK_EXITED:
        on_exit_of(e, event);
        break;
    case SPOT_RANK_SAVED:
        e->has_saved = true;
        break;
    case SPOT_RANK_STOPPED:
        e->has_ranks = e->is_stopping = false;
        break;
    case SPOT_RANK_HOLDS:
        e->warmth = SPOT_EXEC_HOLDS;
        break;
    case SPOT_RANK_WARM:
        e->warmth = event->status ? SPOT_EXEC_WARM : SPOT_EXEC_HOLDS;
        break;
    case SPOT_RANK_STUCK: /* an error of spot_ranks_next */
        break;
    }
}

/* Process the events of the ranks. */
static int look(struct spot_exec_agent *e, struct spot_err *err)
{
    struct spot_rank_event event;
    int rc;

    while ((rc = spot_ranks_next(e->options->ranks, 0, &event, err)) > 0)
        on_event(e, &event);
    return rc;
}

/* Wait until a rank ends or asks, or wait_s has passed. */
static int wait_and_look(struct spot_exec_agent *e, double wait_s, struct spot_err *err)
{
    struct pollfd set[2 + SPOT_RANK_CLIENTS_MAX];
    const size_t n = spot_rank_socket_wanted(e->socket, set + 1);

    set[0] = (struct pollfd){ .fd = spot_ranks_fd(e->options->ranks), .events = POLLIN };
    (void)poll(set, n + 1, (int)ceil(1e3 * wait_s));
    if (look(e, err) < 0)
        return -1;
    spot_rank_socket_turn(e->socket);
    return 0;
}

/* Ranks can ask for samples without a coordinator; what they commit waits for one. */
static int idle(void *job, double wait_s, struct spot_err *err)
{
    const double until_s = spot_clock_s() + wait_s;
    struct spot_exec_agent *const e = job;
    double left_s;

    spot_exec_tell_away(e);
    e->is_away = true;
    while ((left_s = until_s - spot_clock_s()) > 0) {
        if (wait_and_look(e, left_s, err))
            return -1;
        spot_exec_commit_tick_away(e);
    }
    return 0;
}

static int stop(struct spot_exec_agent *e, struct spot_err *err)
{
    e->held.state = SPOT_EXEC_IDLE;
    if (e->options->files)
        spot_rank_files_freeze(e->options->files);
    spot_rank_socket_set_round(e->socket, -1);
    if (!e->has_ranks || e->is_stopping)
        return 0;
    e->is_stopping = true;
    return spot_ranks_stop(e->options->ranks, err);
}

/* --- a port for the rendezvous ------------------------------------------------------ */

static void drop_port(struct spot_exec_agent *e)
{
    if (e->port_fd >= 0)
        close(e->port_fd);
    e->port_fd = -1;
}

/* Reserve a port. It is held until the ranks start, so that no other process of this machine gets
 * it, and is a new one for each epoch, so that no rank of an older epoch can connect to it. 0: none
 * available. */
static void choose_port(struct spot_exec_agent *e)
{
    struct spot_endpoint at;

    drop_port(e);
    e->held.port = 0;
    if (spot_endpoint_parse_reach(spot_mesh_address(e->agent.mesh), SPOT_REACH_NUMERIC, &at, NULL))
        return;
    if (at.kind == SPOT_ENDPOINT_UNIX && spot_endpoint_parse("127.0.0.1:0", &at, NULL))
        return;
    at.port = 0;
    e->port_fd = spot_endpoint_listen(&at, NULL);
    if (e->port_fd >= 0)
        e->held.port = at.port;
}

/* --- joining and epochs -------------------------------------------------------------- */

static void list_states(const struct spot_exec_agent *e, struct spot_exec_holdings *all)
{
    for (size_t i = 0; i < spot_state_store_count(e->store); i++) {
        const struct spot_state_record *const r = spot_state_store_at(e->store, i);
        struct spot_exec_holding h = { .id = r->id, .place = r->place, .world = r->world };

        snprintf(h.run_id, sizeof(h.run_id), "%s", r->run_id);
        h.saved = spot_state_record_saved(r);
        all->of = spot_xgrow(all->of, &all->cap, all->n + 1, sizeof(h));
        all->of[all->n++] = h;
    }
}

static void report(void *job, struct spot_buf *out)
{
    struct spot_exec_agent *const e = job;
    struct spot_exec_holdings all = { 0 };

    (void)look(e, NULL); /* the end of the guard is detected again later */
    choose_port(e);
    spot_exec_put_held(out, &e->held);
    list_states(e, &all);
    spot_exec_put_holdings(out, &all);
    spot_exec_holdings_release(&all);
}

/* Write the body of HELLO, and forget the last epoch: another coordinator may number epochs from
 * the start. */
static void hello(void *job, struct spot_buf *out)
{
    struct spot_exec_agent *const e = job;

    e->formed = 0;
    e->owes_ready = e->has_begun = false;
    e->told_warmth = SPOT_EXEC_COLD;
    spot_exec_ledger_tell_again(&e->ledger);
    spot_put_text(out, SPOT_EXEC_NAME);
    spot_put_u64(out, e->options->hash);
    spot_put_u32(out, e->options->n_rank);
    report(job, out);
}

static bool is_sound(const struct spot_exec_agent *e, const struct spot_exec_form *form)
{
    return !form->has_place ||
           (form->env.local_world == e->options->n_rank && form->env.group_world &&
            form->env.group_rank < form->env.group_world);
}

/* The previous epoch is over, and so are the transfers in it. */
static void quiesced(void *job)
{
    spot_exec_moves_end(job);
}

static int add_moves(struct spot_exec_agent *e, struct spot_err *err)
{
    for (size_t i = 0; i < e->form.n_move; i++)
        if (spot_exec_move_add(e, &e->form.move[i], true, err))
            return -1;
    return 0;
}

static int form(void *job, const struct spot_frame *frame, struct spot_err *err)
{
    struct spot_exec_agent *const e = job;
    struct spot_wire_in in = spot_wire_in(frame->data, frame->n_byte);
    struct spot_err why = { 0 };

    spot_exec_moves_end(e);
    spot_exec_form_release(&e->form);
    spot_exec_get_form(&in, &e->form);
    if (!spot_wire_in_done(&in) || !is_sound(e, &e->form))
        return spot_err_set(err, SPOT_ESYS, "the coordinator sent a malformed FORM");
    e->has_begun = e->has_voted = false;
    if (spot_agent_enter(&e->agent, e->form.peer, e->form.n_peer, &why))
        return spot_agent_report(&e->agent, &why, err) ? -1 : 1;
    e->formed = frame->epoch;
    if (e->form.is_kept && e->form.has_place)
        return 0;
    if (stop(e, err) || add_moves(e, err))
        return -1;
    /* reported once the ranks have ended and the state that they start from is here */
    e->owes_ready = true;
    return 1;
}

static int start(struct spot_exec_agent *e, struct spot_err *err)
{
    const struct spot_rank_env *const env = &e->form.env;

    drop_port(e);
    snprintf(e->held.run_id, sizeof(e->held.run_id), "%s", env->run_id);
    e->held.restart_count = env->restart_count;
    e->held.group_rank = env->group_rank;
    e->held.group_world = env->group_world;
    e->held.key = e->form.key;
    e->held.state = SPOT_EXEC_RUNNING;
    e->n_done = 0;
    memset(e->has_exited, 0, sizeof(e->has_exited));
    e->has_saved = false;
    e->has_ranks = true;
    e->started_s = spot_clock_s();
    spot_exec_drop_errors(e);
    e->has_committed = false;
    e->has_last = env->has_state;
    e->last_step = env->state_step;
    e->last_saved = spot_exec_restored(e);
    e->writer = UINT32_MAX;
    spot_exec_adopt_found(e);
    spot_exec_commit_begin(e);
    spot_exec_pace_begin(e);
    spot_exec_ledger_begin(&e->ledger, env->local_world, env->world,
                           env->has_state && env->state_step ? (int64_t)env->state_step : -1);
    if (env->has_state)
        spot_exec_ledger_load(&e->ledger, e->options->state->live_fd);
    spot_rank_socket_set_round(e->socket, env->restart_count);
    return spot_ranks_start(e->options->ranks, env, err);
}

static int on_round(struct spot_exec_agent *e, int64_t round, struct spot_err *err)
{
    if (!e->form.has_place)
        return 0;
    e->round = round;
    e->has_begun = true;
    e->has_told = e->has_told_saved = e->is_saving = false;
    e->held.n_failed = e->form.n_failed;
    return e->form.is_kept ? spot_exec_commit_again(e, err) : start(e, err);
}

static int on_save(struct spot_exec_agent *e, struct spot_err *err)
{
    e->has_told_saved = false;
    if (!e->has_ranks || e->is_stopping || e->held.state == SPOT_EXEC_DONE) {
        e->has_saved = true;
        return 0;
    }
    if (e->is_saving)
        return 0;
    e->is_saving = true;
    if (e->options->files)
        spot_rank_files_mark(e->options->files);
    e->has_saved = false;
    e->n_left = 0;
    return spot_ranks_save(e->options->ranks, err);
}

static int keep_twins(struct spot_exec_agent *e, struct spot_err *err)
{
    if (!e->options->is_cold)
        return spot_ranks_keep_twins(e->options->ranks, err);
    e->warmth = SPOT_EXEC_WARM; /* there is nothing to wait for */
    return 0;
}

static int over(const struct spot_frame *frame, struct spot_err *err)
{
    struct spot_wire_in in = spot_wire_in(frame->data, frame->n_byte);
    char why[SPOT_WHY_MAX];

    spot_get_plain(&in, why, sizeof(why));
    return spot_err_set(err, SPOT_EINFEASIBLE, "%.500s", why);
}

static int on_peers(struct spot_exec_agent *e, const struct spot_frame *frame, struct spot_err *err)
{
    struct spot_wire_in in = spot_wire_in(frame->data, frame->n_byte);
    size_t n;
    struct spot_mesh_peer *const peer = spot_exec_get_peers(&in, &n);
    struct spot_err why = { 0 };
    const bool is_whole = spot_wire_in_done(&in);

    if (is_whole)
        (void)spot_agent_enter(&e->agent, peer, n, &why); /* the ranks need none of them */
    free(peer);
    return is_whole ? 0 : spot_err_set(err, SPOT_ESYS, "the coordinator sent malformed PEERS");
}

/* Obey an order about an epoch that this node has entered. */
static int obey_formed(struct spot_exec_agent *e, const struct spot_frame *frame,
                       struct spot_err *err)
{
    switch (frame->type) {
    case SPOT_MSG_ROUND:
        return on_round(e, (int64_t)frame->tag, err);
    case SPOT_MSG_EXEC_SAVE:
        return e->has_begun ? on_save(e, err) : 0;
    case SPOT_MSG_EXEC_MOVE:
        return spot_exec_on_move(e, frame, err);
    case SPOT_MSG_EXEC_CANCEL:
        spot_exec_move_cancel(e, frame->tag);
        return 0;
    case SPOT_MSG_EXEC_PEERS:
        return on_peers(e, frame, err);
    case SPOT_MSG_EXEC_ANSWER:
        return spot_exec_commit_answer(e, frame, err);
    case SPOT_MSG_EXEC_TAKE:
        return spot_exec_offer_take(e, frame, err);
    case SPOT_MSG_EXEC_HOLD:
        return spot_exec_hold(e, frame, err);
    case SPOT_MSG_EXEC_LAY:
        return spot_exec_on_lay(e, frame, err);
    case SPOT_MSG_EXEC_FETCH:
    case SPOT_MSG_EXEC_RECORD:
    case SPOT_MSG_EXEC_WANT:
    case SPOT_MSG_EXEC_PIECES:
        return spot_exec_moves_hear(e, frame, err);
    default:
        return 0;
    }
}

static int on_plan(struct spot_exec_agent *e, const struct spot_frame *frame, struct spot_err *err)
{
    struct spot_wire_in in = spot_wire_in(frame->data, frame->n_byte);
    struct spot_ledger_plan plan;

    spot_exec_get_plan(&in, &plan);
    if (!spot_wire_in_done(&in))
        return spot_err_set(err, SPOT_ESYS, "the coordinator sent a malformed plan of samples");
    spot_exec_ledger_agreed(&e->ledger, e->socket, &plan);
    return 0;
}

static int obey(void *job, const struct spot_frame *frame, struct spot_err *err)
{
    struct spot_exec_agent *const e = job;

    if (frame->type == SPOT_MSG_EXEC_OVER)
        return over(frame, err);
    if (frame->type == SPOT_MSG_EXEC_KEEP)
        return keep_twins(e, err);
    if (frame->type == SPOT_MSG_EXEC_PLAN)
        return on_plan(e, frame, err);
    if (frame->epoch != e->agent.epoch)
        return 0;
    if (frame->type == SPOT_MSG_EXEC_HALT)
        return stop(e, err);
    return e->formed == frame->epoch ? obey_formed(e, frame, err) : 0;
}

/* --- messages of the coordinator --- */

static int tell(struct spot_exec_agent *e, uint32_t type, uint64_t tag, struct spot_err *err)
{
    struct spot_buf out = { 0 };
    char why[SPOT_WHY_MAX / 2];

    if (type == SPOT_MSG_EXEC_ENDED) {
        spot_put_u32(&out, e->form.env.first_rank + e->ended_rank);
        spot_put_u32(&out, (uint32_t)e->ended_status);
        spot_exec_read_error(e, e->ended_rank, why, sizeof(why));
        spot_put_text(&out, why);
    }
    return spot_agent_send(&e->agent, type, tag, &out, err);
}

static int tell_end(struct spot_exec_agent *e, struct spot_err *err)
{
    if (e->has_told || e->is_saving ||
        (e->held.state != SPOT_EXEC_DONE && e->held.state != SPOT_EXEC_ENDED) ||
        (e->held.state == SPOT_EXEC_DONE && spot_exec_offer_pends(e)))
        return 0;
    e->has_told = true;
    return tell(e, e->held.state == SPOT_EXEC_DONE ? SPOT_MSG_EXEC_DONE : SPOT_MSG_EXEC_ENDED, 0,
                err);
}

static int tell_saved(struct spot_exec_agent *e, struct spot_err *err)
{
    if (!e->has_saved || e->has_told_saved || spot_exec_offer_pends(e))
        return 0;
    e->has_told_saved = true;
    return tell(e, SPOT_MSG_EXEC_SAVED, 0, err);
}

static int tell_settled(struct spot_exec_agent *e, struct spot_err *err)
{
    if (e->has_voted || e->is_saving || e->held.state == SPOT_EXEC_ENDED ||
        (e->held.state == SPOT_EXEC_RUNNING && spot_clock_s() - e->started_s < settled_s))
        return 0;
    e->has_voted = true;
    return tell(e, SPOT_MSG_VOTE, (uint64_t)e->round, err);
}

/* If a state cannot be laid out it is requested from another member, unless the reason is a lack of
 * space. */
static int get_ready(struct spot_exec_agent *e, struct spot_err *err)
{
    struct spot_err why = { 0 };
    struct spot_buf out = { 0 };

    e->owes_ready = false;
    if (!e->form.has_place || !spot_exec_restore(e, &why))
        return tell(e, SPOT_MSG_READY, 0, err);
    if (why.code == SPOT_ESYS) {
        spot_agent_set_unfit(&e->agent, true);
        return spot_agent_report(&e->agent, &why, err);
    }
    spot_put_text(&out, why.msg);
    spot_put_u64(&out, 0);
    return spot_agent_send(&e->agent, SPOT_MSG_EXEC_MOVED, 0, &out, err);
}

static int tell_plan(struct spot_exec_agent *e, struct spot_err *err)
{
    const struct spot_ledger_plan *const plan = spot_exec_ledger_news(&e->ledger);
    struct spot_buf out = { 0 };

    if (!plan)
        return 0;
    spot_exec_put_plan(&out, plan);
    return spot_agent_send(&e->agent, SPOT_MSG_EXEC_LEDGER, 0, &out, err);
}

static int tell_news(struct spot_exec_agent *e, struct spot_err *err)
{
    if (e->warmth != e->told_warmth) {
        e->told_warmth = e->warmth;
        if (tell(e, SPOT_MSG_EXEC_WARM, e->warmth, err))
            return -1;
    }
    if (tell_plan(e, err))
        return -1;
    if (e->formed != e->agent.epoch)
        return 0;
    if (e->is_stopping)
        /* ranks are slow to end: keep the mesh going meanwhile */
        spot_mesh_progress(e->agent.mesh);
    if (e->owes_ready && !e->has_ranks && !spot_exec_moves_due(e))
        return get_ready(e, err);
    if (e->is_lay_due && !spot_exec_moves_take(e) && spot_exec_lay_last(e, err))
        return -1;
    if (!e->has_begun)
        return 0;
    return tell_settled(e, err) || tell_end(e, err) || tell_saved(e, err)
               ? -1
               : spot_exec_tell_pace(e, err);
}

/* How long to wait: a request may wait for data of the mesh, which does not wake the poll. */
static double patience_s(const struct spot_exec_agent *e, bool has_moved)
{
    return has_moved ? 0 : e->n_transfer || e->commit.n_taken || e->owes_ready ? hurry_s : look_s;
}

static int work(void *job, struct spot_err *err)
{
    struct spot_exec_agent *const e = job;

    e->is_away = false;
    while (!spot_mesh_has_order(e->agent.mesh)) {
        const int moved = spot_exec_moves_step(e, err);

        if (moved > 0)
            spot_mesh_progress(e->agent.mesh);
        if (moved < 0 || wait_and_look(e, patience_s(e, moved > 0), err) ||
            spot_exec_commit_tick(e, err) || tell_news(e, err))
            return -1;
    }
    return 0;
}

/* Report the work since the last commit, which has to be repeated. Ranks that ended after the order
 * to save did no further work. */
static void report_left(void *job, struct spot_err *err)
{
    const struct spot_exec_agent *const e = job;
    const double until_s =
        e->is_saving && e->n_left == e->options->n_rank ? e->left_s : spot_clock_s();
    const double since_s = until_s - (e->has_committed ? e->last_s : e->started_s);
    char last[SPOT_STATE_DESCRIBED];

    spot_state_describe(e->last_step, &e->last_saved, last);
    if (!*e->held.run_id)
        spot_err_set(err, SPOT_EPREEMPTED, "left after a notice, without having had ranks");
    else if (!e->has_last)
        spot_err_set(
            err, SPOT_EPREEMPTED,
            "left after a notice: nothing was committed, so the others start from the beginning");
    else if (since_s <= 0)
        spot_err_set(err, SPOT_EPREEMPTED,
                     "left after a notice: %s was saved for it and is committed; the others "
                     "continue from there",
                     last);
    else
        spot_err_set(
            err, SPOT_EPREEMPTED,
            "left after a notice: %s is committed; later work, at most %.1f s, is repeated", last,
            since_s);
}

static int run(struct spot_exec_agent *e, struct spot_err *err)
{
    static const struct spot_agent_workload workload = {
        .hello = hello,
        .report = report,
        .quiesced = quiesced,
        .form = form,
        .order = obey,
        .work = work,
        .idle = idle,
        .leaving = quiesced,
        .report_left = report_left,
    };
    /* requests of ranks, one row each */
    const struct spot_rank_op op[] = {
        { "commit", spot_exec_serve_commit, spot_exec_commit_gone, e },
        { "samples", spot_exec_serve_samples, spot_exec_samples_gone, e },
        { "beat", spot_exec_serve_beat, NULL, e },
        { 0 },
    };
    int rc;

    e->agent =
        (struct spot_agent){ .options = &e->options->agent, .workload = &workload, .job = e };
    e->socket = spot_rank_socket_new(e->options->socket, op, err);
    if (!e->socket)
        return -1;
    spot_exec_ledger_init(&e->ledger);
    rc = spot_agent_run(&e->agent, err);
    spot_rank_socket_free(e->socket);
    spot_exec_ledger_release(&e->ledger);
    return rc;
}

int spot_exec_agent_run(const struct spot_exec_agent_options *options, bool *has_joined,
                        struct spot_err *err)
{
    struct spot_exec_agent *const e = spot_xcalloc(1, sizeof(*e));
    int rc;

    e->options = options;
    e->store = options->store;
    e->port_fd = -1;
    spot_exec_find_saved(e);
    rc = run(e, err);
    if (!rc && e->options->files)
        spot_rank_files_end(e->options->files);
    drop_port(e);
    *has_joined = e->agent.has_joined;
    spot_exec_form_release(&e->form);
    free(e->transfer);
    spot_buf_release(&e->offer.dirs);
    free(e);
    return rc;
}
