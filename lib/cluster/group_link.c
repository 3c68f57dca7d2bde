/* SPDX-License-Identifier: MIT */
/* Connections: taken in, served, given up. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/xalloc.h"
#include "train/trainer_state.h"

enum { PENDING_MAX = 64 };

static const double full_s = 0.5; /* without a descriptor to spare, the listener is left alone */

static const double hello_s = 5; /* a connection that says nothing for so long is closed */

void spot_coord_free_peer(struct spot_coord *c, size_t i)
{
    struct spot_coord_peer *peer = c->peer[i];

    spot_link_release(&peer->link);
    free(peer->held);
    free(peer);
    c->peer[i] = c->peer[--c->n_peer];
}

/* A dead worker cannot remove its socket; one that lost us, and joins anew, listens there again.
 * Its address is hearsay: only what lies where workers of this job put theirs, OURS.PID, is ours to
 * remove. Both are told from the root. */
static void drop_socket(const struct spot_coord *c, const struct spot_coord_peer *peer)
{
    const size_t n = strlen(c->endpoint.path);
    const char *const path = peer->at.path;

    if (c->endpoint.kind == SPOT_ENDPOINT_UNIX && peer->at.kind == SPOT_ENDPOINT_UNIX &&
        !strncmp(path, c->endpoint.path, n) && path[n] == '.' && path[n + 1] &&
        !path[n + 1 + strspn(path + n + 1, "0123456789")])
        spot_endpoint_drop_stale(&peer->at, 0);
}

/* The connection is gone: forget it, and if it was a member, go on without. */
int spot_coord_lose_peer(struct spot_coord *c, size_t i, const char *why, struct spot_err *err)
{
    const uint32_t id = c->peer[i]->id;
    const struct spot_member *m = spot_machine_find(&c->machine, id);
    int rc = 0;

    if (m) {
        rc = spot_coord_log_member(c, m->is_leaving && c->peer[i]->is_closing ? "left" : "lost",
                                   c->peer[i], why, err);
        drop_socket(c, c->peer[i]);
    }
    spot_coord_free_peer(c, i);
    if (rc || !m)
        return rc;
    rc = spot_coord_act(c, spot_machine_lost(&c->machine, id), err);
    if (!rc && c->machine.phase == SPOT_PHASE_WAIT)
        spot_coord_keep(c); /* what it was asked for does not come any more */
    return rc;
}

void spot_coord_accept(struct spot_coord *c)
{
    size_t n_stranger = 0;
    int fd;

    for (size_t i = 0; i < c->n_peer; i++)
        n_stranger += !c->peer[i]->id;
    while ((fd = spot_endpoint_accept(c->listener)) >= 0) {
        struct spot_coord_peer *peer;

        if (n_stranger++ >= PENDING_MAX) {
            close(fd);
            continue;
        }
        peer = spot_xcalloc(1, sizeof(*peer));
        spot_link_init(&peer->link, fd, SPOT_HELLO_MAX);
        if (spot_link_secure(&peer->link, c->tls, true, NULL)) {
            free(peer);
            continue;
        }
        peer->since_s = peer->heard_s = peer->progress_s = spot_clock_s();
        c->peer =
            spot_xgrow(c->peer, &c->cap_peer, c->n_peer + 1, sizeof(struct spot_coord_peer *));
        c->peer[c->n_peer++] = peer;
    }
    if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
        c->full_until_s = spot_clock_s() + full_s;
}

/* Read and handle what a peer sent. Returns 1 when its connection is gone. A stranger that has gone
 * already waits no more for what it asked: it will come again, or has told that nobody answers. */
int spot_coord_serve_peer(struct spot_coord *c, struct spot_coord_peer *peer, short events,
                          struct spot_err *err)
{
    struct spot_frame_list in = { NULL, NULL };
    struct spot_frame *frame;
    int gone = 0, rc = 0;

    if ((events & POLLOUT) && spot_link_flush(&peer->link, NULL))
        gone = 1;
    if (events & (POLLIN | POLLHUP | POLLERR)) {
        gone |= spot_link_read(&peer->link, &in, NULL) != 0;
        peer->heard_s = spot_clock_s();
    }
    while (!rc && (frame = spot_frame_pop(&in))) {
        if (!peer->is_closing && (peer->id || !gone))
            rc = spot_coord_message(c, peer, frame, err);
        free(frame);
    }
    spot_frame_list_release(&in);
    return rc ? rc : gone;
}

static bool owes_work(const struct spot_coord *c, uint32_t id)
{
    const struct spot_member *m = spot_machine_find(&c->machine, id);

    if (!m)
        return false;
    if (spot_coord_find(c, id)->n_owed && (c->is_final || c->machine.phase == SPOT_PHASE_WAIT))
        return true;
    switch (c->machine.phase) {
    case SPOT_PHASE_QUIESCE:
        return !m->has_replied;
    case SPOT_PHASE_MIGRATE:
        return m->role != SPOT_ROLE_SPARE && !m->is_ready && !spot_coord_is_restoring(c);
    case SPOT_PHASE_RUN:
        return m->role == SPOT_ROLE_ACTIVE && !m->has_voted && !c->is_final;
    default:
        return false;
    }
}

static bool has_stalled(const struct spot_coord *c, const struct spot_coord_peer *peer)
{
    return owes_work(c, peer->id) && c->polled_s - peer->progress_s > c->stall_s;
}

/* Who waits for a member that stalled makes no progress either: end the epoch and see who answers.
 * A machine may just be slow, so it gets more time until the next commit. */
static bool ends_epoch(struct spot_coord *c)
{
    if (c->machine.phase != SPOT_PHASE_RUN && c->machine.phase != SPOT_PHASE_MIGRATE)
        return false;
    for (size_t i = 0; !c->is_final && i < c->n_peer; i++)
        if (has_stalled(c, c->peer[i])) {
            c->options->warn("worker %s makes no progress for %g s: the epoch ends",
                             c->peer[i]->name, c->stall_s);
            c->stall_s *= 2;
            return true;
        }
    return false;
}

/* Why a connection must be given up, NULL if it need not. */
static const char *is_dead(const struct spot_coord *c, const struct spot_coord_peer *peer)
{
    const double now_s = c->polled_s;

    if (peer->is_closing && !spot_link_wants_write(&peer->link) && peer->id &&
        spot_suspects_is_aside(&c->suspects, peer->name))
        return "set aside: other members do not reach it, or it them";
    if (peer->is_closing && !spot_link_wants_write(&peer->link))
        return "closed";
    if (peer->awaits_end)
        return NULL;
    if (!peer->id)
        return now_s - peer->since_s > hello_s ? "said nothing" : NULL;
    if (now_s - peer->heard_s > c->options->lease_s)
        return "silent for longer than its lease";
    if (has_stalled(c, peer) || (!peer->is_proved && peer->asked_s > 0 &&
                                 now_s - peer->asked_s > c->options->lease_s + c->options->stall_s))
        return "alive but makes no progress";
    return NULL;
}

int spot_coord_drop_dead(struct spot_coord *c, struct spot_err *err)
{
    if (ends_epoch(c) && spot_coord_act(c, spot_machine_broken(&c->machine, c->machine.epoch), err))
        return -1;
    for (size_t i = c->n_peer; i-- > 0;) {
        const char *why = i < c->n_peer ? is_dead(c, c->peer[i]) : NULL;

        if (why && spot_coord_lose_peer(c, i, why, err))
            return -1;
    }
    return 0;
}
