/* SPDX-License-Identifier: MIT */
/* Views: carry out the effects of their state machine. */
#include <stdlib.h>

#include "cluster/group_state.h"
#include "common/backoff.h"
#include "common/clock.h"
#include "common/xalloc.h"

static const double pause_min_s = 0.1, pause_max_s = 5;

/* --- create and find ----------------------------------------------------------- */

struct spot_view *spot_group_add_view(struct spot_group *g, int64_t round)
{
    struct spot_view *const view = spot_xcalloc(1, sizeof(*view));

    view->group = g;
    view->index = (uint32_t)g->n_view;
    view->stall_s = g->options->stall_s;
    view->reported_epoch = g->last_epoch;
    spot_machine_init(&view->machine, g->workload->rounds, &g->last_epoch, round);
    g->view = spot_xgrow(g->view, &g->cap_view, g->n_view + 1, sizeof(struct spot_view *));
    g->view[g->n_view++] = view;
    return view;
}

struct spot_view *spot_group_view(struct spot_group *g, uint32_t index)
{
    while (g->n_view <= index)
        spot_group_add_view(g, 0);
    return g->view[index];
}

void spot_view_free(struct spot_view *view)
{
    spot_machine_release(&view->machine);
    free(view->placed);
    free(view);
}

uint32_t spot_view_index(const struct spot_view *view)
{
    return view->index;
}

const struct spot_machine *spot_view_machine(const struct spot_view *view)
{
    return &view->machine;
}

int64_t spot_view_reached(const struct spot_view *view)
{
    return spot_machine_reached(&view->machine);
}

void spot_view_send_active(struct spot_view *view, uint32_t type, uint64_t tag, const void *data,
                           size_t n_byte)
{
    for (size_t i = 0; i < view->machine.n_member; i++)
        if (view->machine.member[i].role == SPOT_ROLE_ACTIVE)
            spot_peer_send(spot_group_find(view->group, view->machine.member[i].id), type, tag,
                           data, n_byte);
}

/* --- a layout ------------------------------------------------------------------ */

bool spot_view_may_place(const struct spot_view *view, const struct spot_member *member)
{
    const struct spot_peer *const peer = spot_group_find(view->group, member->id);

    return !member->is_leaving && peer->is_proved && !spot_peer_is_aside(peer);
}

size_t spot_view_placeable(const struct spot_view *view)
{
    size_t n = 0;

    for (size_t i = 0; i < view->machine.n_member; i++)
        n += spot_view_may_place(view, &view->machine.member[i]);
    return n;
}

void spot_view_set_role(struct spot_view *view, uint32_t id, enum spot_role role)
{
    struct spot_member *const member = spot_machine_find(&view->machine, id);

    if (member)
        member->role = role;
}

void spot_view_form(struct spot_view *view, int64_t round)
{
    const struct spot_machine *const m = &view->machine;

    view->placed = spot_xrealloc(view->placed, m->n_member, sizeof(*view->placed));
    view->n_placed = 0;
    for (size_t i = 0; i < m->n_member; i++)
        if (m->member[i].role != SPOT_ROLE_SPARE)
            view->placed[view->n_placed++] = m->member[i].id;
    view->is_formed = true;
    spot_machine_form(&view->machine, round);
}

void spot_view_idle(struct spot_view *view)
{
    if (view->group->workload->idle)
        view->group->workload->idle(view->group->job, view);
}

/* Holds the view. A leaving member may be the only holder of the newest state, which must become
 * durable before it leaves. */
void spot_view_hold(struct spot_view *view)
{
    spot_machine_hold(&view->machine);
    view->is_formed = false;
    view->settle_until_s = spot_clock_s() + view->group->options->settle_s;
    spot_view_idle(view);
}

void spot_view_rest(struct spot_view *view)
{
    view->is_resting = true;
}

void spot_view_want_change(struct spot_view *view)
{
    (void)spot_machine_want_change(&view->machine);
}

bool spot_view_wants_change(const struct spot_view *view)
{
    return view->machine.change_wanted;
}

int spot_view_break(struct spot_view *view, uint32_t epoch, struct spot_err *err)
{
    return spot_view_act(view, spot_machine_broken(&view->machine, epoch), err);
}

/* True if a member of the epoch was set aside meanwhile. */
static bool has_outcast(const struct spot_view *view)
{
    for (size_t i = 0; i < view->machine.n_member; i++) {
        const struct spot_member *const m = &view->machine.member[i];

        if (m->role == SPOT_ROLE_ACTIVE && spot_peer_is_aside(spot_group_find(view->group, m->id)))
            return true;
    }
    return false;
}

static bool would_change(struct spot_view *view)
{
    const struct spot_workload *const w = view->group->workload;

    return has_outcast(view) || !w->would_change || w->would_change(view->group->job, view);
}

int spot_view_consider(struct spot_view *view, struct spot_err *err)
{
    return view->machine.phase != SPOT_PHASE_WAIT && would_change(view)
               ? spot_view_act(view, spot_machine_want_change(&view->machine), err)
               : 0;
}

int spot_group_consider(struct spot_group *g, struct spot_err *err)
{
    for (size_t i = 0; i < g->n_view; i++)
        if (spot_view_consider(g->view[i], err))
            return -1;
    return 0;
}

bool spot_view_may_start(struct spot_view *view)
{
    const struct spot_group *const g = view->group;
    const struct spot_workload *const w = g->workload;
    size_t n_all = 0;

    for (size_t i = 0; i < g->n_view; i++)
        n_all += spot_view_placeable(g->view[i]);
    return spot_view_placeable(view) &&
           (view->last_commit_s > 0 || (w->does_wait && g->ran_s > 0) ||
            (n_all >= g->options->n_local && n_all >= g->options->n_first)) &&
           !g->is_suspended && !g->stop_wanted && spot_clock_s() >= view->settle_until_s &&
           !spot_view_is_asking(view) && (!w->may_begin || w->may_begin(g->job, view));
}

/* While nothing runs, leaving members may go once their state is not needed for the next epoch. */
void spot_view_release_leavers(struct spot_view *view)
{
    const struct spot_group *const g = view->group;
    const struct spot_workload *const w = g->workload;
    const bool runs = view->machine.phase == SPOT_PHASE_RUN;
    const bool waits = view->machine.phase == SPOT_PHASE_WAIT &&
                       spot_clock_s() >= view->settle_until_s &&
                       (!w->may_leave || w->may_leave(g->job, view));

    for (size_t i = 0; (runs || waits) && i < view->machine.n_member; i++) {
        const struct spot_member *m = &view->machine.member[i];
        struct spot_peer *peer = spot_group_find(g, m->id);

        if (m->is_leaving && m->role != SPOT_ROLE_ACTIVE && !peer->is_closing) {
            spot_peer_send(peer, SPOT_MSG_LEAVE, 0, NULL, 0);
            peer->is_closing = true;
        }
    }
}

/* --- effects --------------------------------------------------------------------- */

void spot_view_put(const struct spot_view *view, struct spot_jw *jw)
{
    if (jw && view->index)
        spot_jw_int(jw, "view", view->index);
}

static int send_quiesce(struct spot_view *view, struct spot_err *err)
{
    struct spot_group *const g = view->group;

    view->reported_epoch = view->machine.epoch;
    spot_view_put(
        view, spot_journal_begin(&g->journal, "quiesce", view->machine.epoch, view->machine.round));
    if (spot_journal_end(&g->journal, err))
        return -1;
    view->is_resting = false;
    if (g->workload->quiesced)
        g->workload->quiesced(g->job, view);
    for (size_t i = 0; i < view->machine.n_member; i++) {
        struct spot_peer *peer = spot_group_find(g, view->machine.member[i].id);

        spot_peer_ask(peer);
        spot_peer_send(peer, SPOT_MSG_QUIESCE, 0, NULL, 0);
    }
    return 0;
}

/* Successive epochs failed without a member to blame: wait longer before each attempt. */
static bool must_pause(struct spot_view *view)
{
    const bool has_failed = view->has_failed;

    view->has_failed = false;
    if (spot_group_judge(view->group) || !has_failed || view->n_broken < 2)
        return false;
    spot_view_hold(view);
    view->settle_until_s =
        spot_clock_s() + spot_backoff_s(view->n_broken - 1, pause_min_s, pause_max_s);
    return true;
}

static int form(struct spot_view *view, struct spot_err *err)
{
    if (view->reported_epoch != view->machine.epoch && send_quiesce(view, err))
        return -1; /* there are no members to wait for */
    return must_pause(view) ? 0 : view->group->workload->layout(view->group->job, view, err);
}

static int begin(struct spot_view *view, struct spot_err *err)
{
    const struct spot_machine *const m = &view->machine;

    spot_view_release_leavers(view);
    for (size_t i = 0; i < m->n_member; i++) /* its stall time starts now */
        spot_peer_ask(spot_group_find(view->group, m->member[i].id));
    return view->group->workload->begin(view->group->job, view, err);
}

static int commit(struct spot_view *view, enum spot_effect *next, struct spot_err *err)
{
    struct spot_group *const g = view->group;
    enum spot_verdict verdict = SPOT_VERDICT_COMMIT;

    if (g->workload->commit && g->workload->commit(g->job, view, &verdict, err))
        return -1;
    if (verdict == SPOT_VERDICT_REDO) {
        *next = spot_machine_redo(&view->machine);
        return 0;
    }
    view->last_commit_s = spot_clock_s();
    view->n_broken = 0;
    view->stall_s = g->options->stall_s;
    spot_suspects_committed(&g->suspects);
    *next = spot_machine_committed(&view->machine);
    return 0;
}

int spot_view_act(struct spot_view *view, enum spot_effect effect, struct spot_err *err)
{
    int rc = 0;

    while (!rc && effect != SPOT_EFFECT_NONE) {
        const enum spot_effect now = effect;

        effect = SPOT_EFFECT_NONE;
        switch (now) {
        case SPOT_EFFECT_QUIESCE:
            rc = send_quiesce(view, err);
            break;
        case SPOT_EFFECT_FORM:
            rc = form(view, err);
            break;
        case SPOT_EFFECT_ROUND:
            rc = begin(view, err);
            break;
        case SPOT_EFFECT_COMMIT:
            rc = commit(view, &effect, err);
            break;
        case SPOT_EFFECT_NONE:
            break;
        }
    }
    return rc;
}
