/* SPDX-License-Identifier: MIT */
/* What members and clients say. */
#include <string.h>

#include "common/clock.h"
#include "common/utf8.h"
#include "train/trainer_state.h"

int spot_coord_log_member(struct spot_coord *c, const char *event,
                          const struct spot_coord_peer *peer, const char *why, struct spot_err *err)
{
    struct spot_jw *jw = spot_journal_begin(&c->journal, event, c->machine.epoch, c->machine.round);

    spot_journal_about(&c->journal, peer->name);
    if (!strcmp(event, "left"))
        spot_journal_drop_holder(&c->journal, peer->name);
    if (jw) {
        spot_jw_int(jw, "member", peer->id);
        spot_jw_str(jw, "name", peer->name);
        if (why)
            spot_jw_str(jw, "why", why);
    }
    return spot_journal_end(&c->journal, err);
}

static int on_notice(struct spot_coord *c, struct spot_coord_peer *peer, struct spot_err *err)
{
    if (spot_machine_find(&c->machine, peer->id)->is_leaving)
        return 0; /* it has said so */
    if (spot_coord_log_member(c, "notice", peer, NULL, err) ||
        spot_coord_act(c, spot_machine_notice(&c->machine, peer->id), err))
        return -1;
    if (c->machine.phase == SPOT_PHASE_WAIT)
        spot_coord_keep(c); /* nobody else may hold it */
    spot_coord_release_leavers(c);
    return 0;
}

static int on_failed(struct spot_coord *c, struct spot_coord_peer *peer,
                     const struct spot_frame *frame, struct spot_err *err)
{
    struct spot_wire_in in = spot_wire_in(frame->data, frame->n_byte);
    char why[SPOT_WHY_MAX];

    spot_get_text(&in, why, sizeof(why));
    spot_utf8_make_plain(why);
    if (frame->tag == 1) {
        c->options->warn("worker %s mirrors no stage: %s", peer->name, why);
        peer->cannot_mirror = true;
        return spot_coord_act(c, spot_machine_broken(&c->machine, frame->epoch), err);
    }
    c->options->warn("worker %s cannot go on: %s", peer->name, why);
    peer->is_closing = true;
    return 0;
}

/* Its connection is closed and the job goes on without it. */
static int drop(struct spot_coord *c, struct spot_coord_peer *peer, const char *what)
{
    c->options->warn("worker %s sent %s that makes no sense; it is taken for lost", peer->name,
                     what);
    peer->is_closing = true;
    return 0;
}

static int on_broken(struct spot_coord *c, struct spot_coord_peer *peer,
                     const struct spot_frame *frame, struct spot_err *err)
{
    const enum spot_effect effect = spot_machine_broken(&c->machine, frame->epoch);
    struct spot_wire_in in = spot_wire_in(frame->data, frame->n_byte);
    char why[SPOT_WHY_MAX];

    if (effect == SPOT_EFFECT_NONE)
        return 0; /* the inventory says it too */
    c->n_broken++;
    c->has_failed = true;
    spot_get_text(&in, why, sizeof(why));
    spot_utf8_make_plain(why);
    if (spot_coord_accuse(c, peer, &in))
        drop(c, peer, "a complaint");
    else if (!spot_suspects_has_news(&c->suspects)) /* it may be its own fault */
        spot_suspects_accuse(&c->suspects, peer->name, peer->name, true, why, spot_clock_s());
    return spot_coord_act(c, effect, err);
}

/* A client's question and its answer. */
static int on_client(struct spot_coord *c, struct spot_coord_peer *peer,
                     const struct spot_frame *frame, struct spot_err *err)
{
    struct spot_err why = { 0 };
    struct spot_buf out = { 0 };
    bool changed = false;
    uint64_t status = 0;

    if (frame->type == SPOT_MSG_STOP) {
        peer->awaits_end = c->is_drained = true;
        return 0;
    }
    if (frame->type == SPOT_MSG_STATUS) {
        spot_coord_status(c, &out);
    } else if (spot_coord_plan_text(c, (const char *)frame->data, frame->n_byte, "plan",
                                    frame->type == SPOT_MSG_REPLAN_FORCE ? SPOT_PLAN_FORCED
                                                                         : SPOT_PLAN_PUSHED,
                                    &changed, &why)) {
        spot_buf_add(&out, why.msg, strlen(why.msg));
        status = (uint64_t)spot_err_exit_status(&why);
    }
    spot_coord_send(c, peer, SPOT_MSG_ANSWER, status, out.data, out.n);
    spot_buf_release(&out);
    peer->is_closing = true;
    return changed && spot_coord_would_change(c)
               ? spot_coord_act(c, spot_machine_want_change(&c->machine), err)
               : 0;
}

/* What could not be kept is a negative answer. */
static uint64_t drained_status(const struct spot_coord *c, int rc, const struct spot_err *err)
{
    if (!rc)
        return 0;
    if (err->code != SPOT_EPREEMPTED)
        return (uint64_t)spot_err_exit_status(err);
    return c->machine.round > 0 && spot_store_newest(c->store) < c->machine.round;
}

void spot_coord_drained(struct spot_coord *c, int rc, const struct spot_err *err)
{
    const char *text = rc ? err->msg : "the job is done";

    for (size_t i = 0; c->is_drained && i < c->n_peer; i++) {
        if (c->peer[i]->awaits_end)
            spot_coord_send(c, c->peer[i], SPOT_MSG_ANSWER, drained_status(c, rc, err), text,
                            strlen(text));
        else if (c->peer[i]->id && rc)
            spot_coord_send(c, c->peer[i], SPOT_MSG_LEAVE, 0, NULL, 0);
    }
}

static int on_stranger(struct spot_coord *c, struct spot_coord_peer *peer,
                       const struct spot_frame *frame, struct spot_err *err)
{
    if (frame->type == SPOT_MSG_REPLAN || frame->type == SPOT_MSG_REPLAN_FORCE ||
        frame->type == SPOT_MSG_STATUS || frame->type == SPOT_MSG_STOP)
        return on_client(c, peer, frame, err);
    if (frame->type != SPOT_MSG_HELLO) {
        peer->is_closing = true;
        return 0;
    }
    if (spot_coord_hello(c, peer, frame, err))
        return -1;
    if (peer->id && c->machine.phase != SPOT_PHASE_WAIT &&
        (spot_coord_would_change(c) || spot_coord_finds_newer(c)))
        return spot_coord_act(c, spot_machine_want_change(&c->machine), err);
    return 0;
}

static int on_vote(struct spot_coord *c, struct spot_coord_peer *peer,
                   const struct spot_frame *frame, struct spot_err *err)
{
    struct spot_wire_in in = spot_wire_in(frame->data, frame->n_byte);
    const int64_t step = (int64_t)frame->tag;
    int rc;

    if (c->machine.phase != SPOT_PHASE_RUN || frame->epoch != c->machine.epoch ||
        step != c->machine.round)
        return 0;
    rc = spot_coord_vote(c, peer->id, &in, err);
    if (rc)
        return rc < 0 ? -1 : drop(c, peer, "a vote");
    return spot_coord_act(c, spot_machine_voted(&c->machine, peer->id, frame->epoch, step), err);
}

static int on_inventory(struct spot_coord *c, struct spot_coord_peer *peer,
                        const struct spot_frame *frame, struct spot_err *err)
{
    struct spot_wire_in in = spot_wire_in(frame->data, frame->n_byte);

    if (frame->epoch != c->machine.epoch)
        return 0;
    if (spot_coord_inventory(c, peer, &in) || spot_coord_accuse(c, peer, &in))
        return drop(c, peer, "an inventory");
    return spot_coord_act(c, spot_machine_replied(&c->machine, peer->id, frame->epoch), err);
}

static int on_snapshot(struct spot_coord *c, struct spot_coord_peer *peer,
                       const struct spot_frame *frame, struct spot_err *err)
{
    const int rc = spot_coord_snapshot(c, frame, err);

    peer->n_owed -= peer->n_owed > 0;
    return rc > 0 ? drop(c, peer, "a snapshot") : rc;
}

static int on_reached(struct spot_coord *c, struct spot_coord_peer *peer,
                      const struct spot_frame *frame, struct spot_err *err)
{
    const int rc = spot_coord_reached(c, peer, frame, err);

    return rc > 0 ? drop(c, peer, "whom it reaches") : rc;
}

int spot_coord_message(struct spot_coord *c, struct spot_coord_peer *peer,
                       const struct spot_frame *frame, struct spot_err *err)
{
    if (!peer->id)
        return on_stranger(c, peer, frame, err);
    switch (frame->type) {
    case SPOT_MSG_HEARTBEAT:
        if (frame->tag != peer->progress)
            peer->progress_s = peer->heard_s;
        peer->progress = frame->tag;
        spot_coord_send(c, peer, SPOT_MSG_HEARTBEAT, 0, NULL, 0);
        return 0;
    case SPOT_MSG_NOTICE:
        return on_notice(c, peer, err);
    case SPOT_MSG_REPORT:
        return on_inventory(c, peer, frame, err);
    case SPOT_MSG_READY:
        return spot_coord_act(c, spot_machine_ready(&c->machine, peer->id, frame->epoch), err);
    case SPOT_MSG_VOTE:
        return on_vote(c, peer, frame, err);
    case SPOT_MSG_BROKEN:
        return on_broken(c, peer, frame, err);
    case SPOT_MSG_REACHED:
        return on_reached(c, peer, frame, err);
    case SPOT_MSG_SNAPSHOT:
        return on_snapshot(c, peer, frame, err);
    case SPOT_MSG_PROBED:
        return spot_coord_probed(c, peer, frame) ? drop(c, peer, "a probe's answer") : 0;
    case SPOT_MSG_FAILED:
        return on_failed(c, peer, frame, err);
    default:
        return 0;
    }
}
