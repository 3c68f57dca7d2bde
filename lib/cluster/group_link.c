/* SPDX-License-Identifier: MIT */
/* Connections: accept, serve, close. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cluster/group_state.h"
#include "common/clock.h"
#include "common/xalloc.h"

enum { PENDING_MAX = 64 };

static const double full_s = 0.5; /* pause of the listener when out of descriptors */

static const double hello_s = 5;    /* time limit for HELLO */
static const double answer_s = 120; /* time limit for reading an answer */

void spot_group_free_peer(struct spot_group *g, size_t i)
{
    struct spot_peer *peer = g->peer[i];

    spot_watch_disown(&g->watch, peer->at_fd, peer);
    spot_link_release(&peer->link);
    if (peer->data && g->workload->forget)
        g->workload->forget(g->job, peer);
    free(peer);
    if (i < g->n_named) {
        g->n_named--;
        memmove(g->peer + i, g->peer + i + 1, (g->n_named - i) * sizeof(struct spot_peer *));
        i = g->n_named;
    }
    g->peer[i] = g->peer[--g->n_peer];
}

/* Removes the socket of a dead worker. The address came from the worker, so only a path of the form
 * OURS.PID, where workers of this job have theirs, is removed. Both paths are absolute. */
static void drop_socket(const struct spot_group *g, const struct spot_peer *peer)
{
    const size_t n = strlen(g->endpoint.path);
    const char *const path = peer->at.path;

    if (g->endpoint.kind == SPOT_ENDPOINT_UNIX && peer->at.kind == SPOT_ENDPOINT_UNIX &&
        !strncmp(path, g->endpoint.path, n) && path[n] == '.' && path[n + 1] &&
        !path[n + 1 + strspn(path + n + 1, "0123456789")])
        spot_endpoint_drop_stale(&peer->at, 0);
}

/* Remove a closed connection, and continue without the member, if it was one. */
int spot_group_lose_peer(struct spot_group *g, size_t i, const char *why, struct spot_err *err)
{
    const uint32_t id = g->peer[i]->id;
    struct spot_view *const view = g->peer[i]->view;
    const struct spot_member *m = view ? spot_machine_find(&view->machine, id) : NULL;
    int rc = 0;

    if (m) {
        const char *const how = m->is_leaving && g->peer[i]->is_closing ? "left" : "lost";

        g->counts.n_killed += !m->is_leaving;
        if (g->options->note && !spot_group_is_over(g) && !spot_group_is_stopping(g))
            g->options->note("worker %s %s: workers: %zu", g->peer[i]->name, how,
                             spot_group_members(g) - 1);
        rc = spot_group_log_member(g, how, g->peer[i], why, err);
        drop_socket(g, g->peer[i]);
    }
    spot_group_free_peer(g, i);
    if (rc || !m)
        return rc;
    rc = spot_view_act(view, spot_machine_lost(&view->machine, id), err);
    if (!rc && view->machine.phase == SPOT_PHASE_WAIT)
        spot_view_idle(view); /* its outstanding answer will not come */
    return rc;
}

size_t spot_group_waiters(const struct spot_group *g)
{
    size_t n = 0;

    for (size_t i = g->n_named; i < g->n_peer; i++)
        n += g->peer[i]->awaits_end;
    return n;
}

void spot_group_accept(struct spot_group *g)
{
    /* all expected workers may connect at once */
    const size_t most = PENDING_MAX + g->options->n_local + g->options->n_first;
    size_t n_stranger = g->n_peer - g->n_named - spot_group_waiters(g);
    int fd;

    while ((fd = spot_endpoint_accept(g->listener)) >= 0) {
        struct spot_peer *peer;

        if (n_stranger++ >= most) {
            close(fd);
            continue;
        }
        peer = spot_xcalloc(1, sizeof(*peer));
        peer->group = g;
        spot_link_init(&peer->link, fd, SPOT_HELLO_MAX);
        if (spot_link_secure(&peer->link, g->tls, true, NULL)) {
            free(peer);
            continue;
        }
        peer->at_fd = fd;
        spot_watch_own(&g->watch, fd, peer);
        peer->since_s = peer->received_s = peer->progress_s = spot_clock_s();
        g->peer = spot_xgrow(g->peer, &g->cap_peer, g->n_peer + 1, sizeof(struct spot_peer *));
        g->peer[g->n_peer++] = peer;
    }
    if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
        g->full_until_s = spot_clock_s() + full_s;
}

/* Read and handle frames of a peer. Returns 1 when its connection is closed. A peer that
 * disconnected before it joined needs no answer. */
int spot_group_serve_peer(struct spot_group *g, struct spot_peer *peer, uint32_t events,
                          struct spot_err *err)
{
    struct spot_frame_list in = { NULL, NULL };
    struct spot_frame *frame;
    int gone = 0, rc = 0;

    if ((events & EPOLLOUT) && spot_link_flush(&peer->link, NULL))
        gone = 1;
    if (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) {
        gone |= spot_link_read(&peer->link, &in, NULL) != 0;
        peer->received_s = spot_clock_s();
    }
    while (!rc && (frame = spot_frame_pop(&in))) {
        if (!peer->is_closing && (peer->id || !gone))
            rc = spot_group_message(g, peer, frame, err);
        free(frame);
    }
    spot_frame_list_release(&in);
    return rc ? rc : gone;
}

/* True if the state machine waits for this member. */
static bool owes_answer(const struct spot_view *view, const struct spot_member *m)
{
    switch (view->machine.phase) {
    case SPOT_PHASE_QUIESCE:
        return !m->has_replied;
    case SPOT_PHASE_MIGRATE:
        return m->role != SPOT_ROLE_SPARE && !m->is_ready;
    case SPOT_PHASE_RUN:
        return m->role == SPOT_ROLE_ACTIVE && !m->has_voted && !view->is_resting;
    default:
        return false;
    }
}

static bool owes_work(const struct spot_group *g, const struct spot_peer *peer)
{
    const struct spot_member *const m =
        peer->view ? spot_machine_find(&peer->view->machine, peer->id) : NULL;

    if (!m)
        return false;
    return g->workload->owes ? g->workload->owes(g->job, peer, owes_answer(peer->view, m))
                             : owes_answer(peer->view, m);
}

static bool has_stalled(const struct spot_group *g, const struct spot_peer *peer)
{
    return owes_work(g, peer) && g->polled_s - peer->progress_s > peer->view->stall_s;
}

/* A member that waits for a stalled one makes no progress either: end the epoch and see which
 * members answer. A machine may just be slow, so it gets more time until the next commit. */
static bool ends_epoch(struct spot_view *view)
{
    const struct spot_group *const g = view->group;

    if ((view->machine.phase != SPOT_PHASE_RUN && view->machine.phase != SPOT_PHASE_MIGRATE) ||
        view->is_resting)
        return false;
    for (size_t i = 0; i < g->n_peer; i++)
        if (g->peer[i]->view == view && has_stalled(g, g->peer[i])) {
            g->options->warn("worker %s has made no progress for %g s: the epoch ends",
                             g->peer[i]->name, view->stall_s);
            view->stall_s *= 2;
            return true;
        }
    return false;
}

/* Why a connection must be closed; NULL: it need not. */
static const char *is_dead(const struct spot_group *g, const struct spot_peer *peer)
{
    const double now_s = g->polled_s;

    if (peer->is_closing && !spot_link_wants_write(&peer->link) && peer->id &&
        spot_suspects_is_aside(&g->suspects, peer->name))
        return "set aside: it and other members cannot reach each other";
    if (peer->is_closing && !spot_link_wants_write(&peer->link))
        return "closed";
    if (peer->awaits_end)
        return now_s - peer->since_s > SPOT_STOP_PATIENCE_S ? "the job does not end" : NULL;
    if (!peer->id)
        return now_s - peer->since_s > (peer->is_closing ? answer_s : hello_s) ? "said nothing"
                                                                               : NULL;
    if (now_s - peer->received_s > g->options->lease_s)
        return "silent for longer than its lease";
    if (has_stalled(g, peer) || (!peer->is_proved && peer->asked_s > 0 &&
                                 now_s - peer->asked_s > g->options->lease_s + g->options->stall_s))
        return "alive but makes no progress";
    return NULL;
}

int spot_group_drop_dead(struct spot_group *g, struct spot_err *err)
{
    for (size_t i = 0; i < g->n_view; i++)
        if (ends_epoch(g->view[i]) && spot_view_break(g->view[i], g->view[i]->machine.epoch, err))
            return -1;
    for (size_t i = g->n_peer; i-- > 0;) {
        const char *why = i < g->n_peer ? is_dead(g, g->peer[i]) : NULL;

        if (why && spot_group_lose_peer(g, i, why, err))
            return -1;
    }
    return 0;
}
