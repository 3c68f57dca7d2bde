/* SPDX-License-Identifier: MIT */
/* Messages of members and clients. */
#include <string.h>

#include "cluster/group_state.h"
#include "common/clock.h"

enum { WAITERS_MAX = 64 };

int spot_group_log_member(struct spot_group *g, const char *event, const struct spot_peer *peer,
                          const char *why, struct spot_err *err)
{
    const struct spot_machine *const m = &peer->view->machine;
    struct spot_jw *jw = spot_journal_begin(&g->journal, event, m->epoch, m->round);

    spot_journal_about(&g->journal, peer->name);
    if (!strcmp(event, "left"))
        spot_journal_drop_holder(&g->journal, peer->name);
    if (jw) {
        spot_view_put(peer->view, jw);
        spot_jw_int(jw, "member", peer->id);
        spot_jw_str(jw, "name", peer->name);
        if (why)
            spot_jw_str(jw, "why", why);
    }
    return spot_journal_end(&g->journal, err);
}

void spot_peer_drop(struct spot_peer *peer, const char *what)
{
    peer->group->options->warn("malformed message from worker %s (%s): it is dropped", peer->name,
                               what);
    peer->is_closing = true;
}

static int on_ready(struct spot_group *g, struct spot_peer *peer, const struct spot_frame *frame,
                    struct spot_err *err)
{
    struct spot_machine *const machine = &peer->view->machine;

    if (g->workload->ready && frame->epoch == machine->epoch &&
        machine->phase == SPOT_PHASE_MIGRATE)
        g->workload->ready(g->job, peer);
    return spot_view_act(peer->view, spot_machine_ready(machine, peer->id, frame->epoch), err);
}

/* The grace period in the notice, or the default of the options. */
static double grace_s(const struct spot_group *g, const struct spot_frame *frame)
{
    return frame->tag && frame->tag <= UINT32_MAX ? 1e-3 * (double)frame->tag : g->options->grace_s;
}

static int on_notice(struct spot_group *g, struct spot_peer *peer, const struct spot_frame *frame,
                     struct spot_err *err)
{
    struct spot_view *const view = peer->view;
    const bool is_reported = spot_machine_find(&view->machine, peer->id)->is_leaving;

    /* a repeated notice counts only if it has a deadline */
    if (grace_s(g, frame) > 0 && (!is_reported || frame->tag))
        peer->leaves_s = spot_clock_s() + grace_s(g, frame);
    if (is_reported)
        return 0;
    g->counts.n_noticed++;
    if (spot_group_log_member(g, "notice", peer, NULL, err) ||
        spot_view_act(view, spot_machine_notice(&view->machine, peer->id), err))
        return -1;
    if (view->machine.phase == SPOT_PHASE_WAIT)
        spot_view_idle(view); /* this member may be the only holder of some state */
    spot_view_release_leavers(view);
    return 0;
}

static int other(struct spot_group *g, struct spot_peer *peer, const struct spot_frame *frame,
                 struct spot_err *err)
{
    return g->workload->message ? g->workload->message(g->job, peer, frame, err) : 0;
}

static int on_failed(struct spot_group *g, struct spot_peer *peer, const struct spot_frame *frame,
                     struct spot_err *err)
{
    struct spot_wire_in in = spot_wire_in(frame->data, frame->n_byte);
    char why[SPOT_WHY_MAX];

    if (frame->tag)
        return other(g, peer, frame, err);
    spot_get_plain(&in, why, sizeof(why));
    g->options->warn("worker %s cannot continue: %s", peer->name, why);
    peer->is_closing = true;
    return 0;
}

static int on_broken(struct spot_group *g, struct spot_peer *peer, const struct spot_frame *frame,
                     struct spot_err *err)
{
    struct spot_view *const view = peer->view;
    const enum spot_effect effect = spot_machine_broken(&view->machine, frame->epoch);
    struct spot_wire_in in = spot_wire_in(frame->data, frame->n_byte);
    char why[SPOT_WHY_MAX];

    if (effect == SPOT_EFFECT_NONE)
        return 0; /* the member's REPORT contains the accusations, too */
    view->n_broken++;
    view->has_failed = true;
    spot_get_plain(&in, why, sizeof(why));
    if (spot_group_accuse(g, peer, &in))
        spot_peer_drop(peer, "a complaint");
    else if (!spot_suspects_has_news(&g->suspects)) /* else it may be its own fault */
        spot_suspects_accuse(&g->suspects, peer->name, peer->name, true, why, spot_clock_s());
    return spot_view_act(view, effect, err);
}

/* Answers a client's request. */
static uint64_t answer(struct spot_group *g, const struct spot_frame *frame, struct spot_buf *out,
                       bool *changed)
{
    struct spot_err why = { 0 };
    uint64_t status = 0;
    int rc = 0;

    if (frame->type == SPOT_MSG_STATUS)
        spot_group_status(g, NULL, out);
    else if (frame->type < SPOT_MSG_CLIENT_FIRST)
        rc = spot_group_plan_text(g, (const char *)frame->data, frame->n_byte, "plan",
                                  frame->type == SPOT_MSG_REPLAN_FORCE ? SPOT_PLAN_FORCED
                                                                       : SPOT_PLAN_PUSHED,
                                  changed, &why);
    else
        rc = g->workload->client(g->job, frame, out, &status, &why);
    if (!rc)
        return status;
    spot_buf_add(out, why.msg, strlen(why.msg));
    return (uint64_t)spot_err_exit_status(&why);
}

/* STOP is answered when the job has stopped; until then such a client does not count as an
 * unidentified connection. */
static int on_client(struct spot_group *g, struct spot_peer *peer, const struct spot_frame *frame,
                     struct spot_err *err)
{
    static const char crowded[] = "the job is about to stop; too many clients wait for its end";
    struct spot_buf out = { 0 };
    bool changed = false;
    uint64_t status;

    if (frame->type == SPOT_MSG_STOP) {
        g->is_drained = true;
        peer->awaits_end = spot_group_waiters(g) < WAITERS_MAX;
        if (peer->awaits_end)
            return 0;
        spot_buf_add(&out, crowded, sizeof(crowded) - 1);
        status = (uint64_t)spot_err_exit_status(&(struct spot_err){ .code = SPOT_ESYS });
    } else {
        status = answer(g, frame, &out, &changed);
    }
    spot_peer_submit(peer, SPOT_MSG_ANSWER, status, &out);
    peer->is_closing = true;
    return changed ? spot_group_consider(g, err) : 0;
}

void spot_group_report_end(struct spot_group *g, bool is_done, int status, const char *text)
{
    const bool is_final = g->is_drained; /* no coordinator will return */

    for (size_t i = 0; is_final && i < g->n_peer; i++) {
        if (g->peer[i]->awaits_end)
            spot_peer_send(g->peer[i], SPOT_MSG_ANSWER, (uint64_t)status, text, strlen(text));
        else if (g->peer[i]->id && !is_done)
            spot_peer_send(g->peer[i], SPOT_MSG_LEAVE, status != 0, NULL, 0);
    }
    if (is_final && !is_done) /* neither will a standby */
        (void)spot_journal_keep_end(&g->journal, SPOT_JOB_STOPPED, NULL);
}

static bool is_question(const struct spot_group *g, uint32_t type)
{
    return type == SPOT_MSG_REPLAN || type == SPOT_MSG_REPLAN_FORCE || type == SPOT_MSG_STATUS ||
           type == SPOT_MSG_STOP || (type >= SPOT_MSG_CLIENT_FIRST && g->workload->client);
}

static int on_stranger(struct spot_group *g, struct spot_peer *peer, const struct spot_frame *frame,
                       struct spot_err *err)
{
    if (is_question(g, frame->type))
        return on_client(g, peer, frame, err);
    if (frame->type != SPOT_MSG_HELLO) {
        peer->is_closing = true;
        return 0;
    }
    if (spot_group_hello(g, peer, frame, err))
        return -1;
    return peer->view ? spot_view_consider(peer->view, err) : 0;
}

static int on_vote(struct spot_group *g, struct spot_peer *peer, const struct spot_frame *frame,
                   struct spot_err *err)
{
    struct spot_wire_in in = spot_wire_in(frame->data, frame->n_byte);
    struct spot_view *const view = peer->view;
    const struct spot_machine *const m = &view->machine;
    const int64_t round = (int64_t)frame->tag;
    int rc;

    if (m->phase != SPOT_PHASE_RUN || frame->epoch != m->epoch ||
        (m->rounds == SPOT_ROUNDS_LOCKSTEP ? round != m->round : round < m->round))
        return 0;
    rc = g->workload->vote ? g->workload->vote(g->job, view, peer, round, &in, err)
                           : !spot_wire_in_done(&in) || round != m->round;
    if (rc > 0)
        spot_peer_drop(peer, "a vote");
    if (rc)
        return rc < 0 ? -1 : 0;
    peer->progress_s = peer->received_s;
    return spot_view_act(view, spot_machine_voted(&view->machine, peer->id, frame->epoch, round),
                         err);
}

static int on_report(struct spot_group *g, struct spot_peer *peer, const struct spot_frame *frame,
                     struct spot_err *err)
{
    struct spot_wire_in in = spot_wire_in(frame->data, frame->n_byte);
    struct spot_view *const view = peer->view;

    if (frame->epoch != view->machine.epoch)
        return 0;
    if ((g->workload->report && g->workload->report(g->job, peer, &in)) ||
        spot_group_accuse(g, peer, &in)) {
        spot_peer_drop(peer, "a report");
        return 0;
    }
    return spot_view_act(view, spot_machine_replied(&view->machine, peer->id, frame->epoch), err);
}

static int on_reached(struct spot_group *g, struct spot_peer *peer, const struct spot_frame *frame,
                      struct spot_err *err)
{
    const int rc = spot_group_reached(g, peer, frame, err);

    if (rc > 0)
        spot_peer_drop(peer, "which members it reaches");
    return rc < 0 ? -1 : 0;
}

int spot_group_message(struct spot_group *g, struct spot_peer *peer, const struct spot_frame *frame,
                       struct spot_err *err)
{
    if (!peer->id)
        return on_stranger(g, peer, frame, err);
    switch (frame->type) {
    case SPOT_MSG_HEARTBEAT:
        if (frame->tag != peer->progress)
            peer->progress_s = peer->received_s;
        peer->progress = frame->tag;
        spot_peer_send(peer, SPOT_MSG_HEARTBEAT, 0, NULL, 0);
        return 0;
    case SPOT_MSG_NOTICE:
        return on_notice(g, peer, frame, err);
    case SPOT_MSG_REPORT:
        return on_report(g, peer, frame, err);
    case SPOT_MSG_READY:
        return on_ready(g, peer, frame, err);
    case SPOT_MSG_VOTE:
        return on_vote(g, peer, frame, err);
    case SPOT_MSG_BROKEN:
        return on_broken(g, peer, frame, err);
    case SPOT_MSG_REACHED:
        return on_reached(g, peer, frame, err);
    case SPOT_MSG_FAILED:
        return on_failed(g, peer, frame, err);
    default:
        return other(g, peer, frame, err);
    }
}
