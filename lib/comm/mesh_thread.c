/* SPDX-License-Identifier: MIT */
/* The thread of a mesh: moves bytes, renews the lease, receives the end of epochs. */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "comm/mesh_state.h"
#include "common/clock.h"
#include "common/le.h"
#include "common/xalloc.h"

enum { STRANGER_BYTE_MAX = 64, STRANGER_TURN = 64 };

static const double stranger_s = 30; /* a connection without a HELLO is closed after this time */
static const double abroad_s = 30;

/* Written without the lock by other threads and a signal handler. */
struct spot_mesh_flags {
    _Atomic bool stop, notice;
    _Atomic uint32_t left_ms; /* sent with the notice */
    _Atomic uint64_t progress;
};

struct spot_mesh_flags *spot_mesh_flags_new(void)
{
    return spot_xcalloc(1, sizeof(struct spot_mesh_flags));
}

void spot_mesh_notice(struct spot_mesh *mesh, uint32_t left_ms)
{
    const int before = errno; /* keep errno of the interrupted code */

    mesh->flags->left_ms = left_ms;
    mesh->flags->notice = true;
    spot_mesh_wake(mesh);
    errno = before;
}

void spot_mesh_progress(struct spot_mesh *mesh)
{
    mesh->flags->progress++;
}

void spot_mesh_stop(struct spot_mesh *mesh)
{
    mesh->flags->stop = true;
    spot_mesh_wake(mesh);
}

void spot_mesh_wake(struct spot_mesh *mesh)
{
    const char byte = 0;

    (void)!write(mesh->wake[1], &byte, 1); /* if the pipe is full it wakes the thread anyway */
}

/* Wake all waits, also those on order_wake. */
static void report_orders(struct spot_mesh *mesh)
{
    pthread_cond_broadcast(&mesh->changed);
    if (mesh->order_wake >= 0)
        (void)eventfd_write(mesh->order_wake, 1); /* readable anyway if it is full */
}

/* Returns the number of frames received, or -1 with *err when the connection is closed; frames
 * received before that are kept.
 */
static int take_orders(struct spot_mesh *mesh, struct spot_err *err)
{
    struct spot_frame_list in = { NULL, NULL };
    const int rc = spot_link_read(&mesh->control, &in, err);
    struct spot_frame *frame;
    int n = 0;

    while ((frame = spot_frame_pop(&in))) {
        n++;
        if (frame->type == mesh->config.type_heartbeat) {
            free(frame);
            continue;
        }
        if (frame->type == mesh->config.type_revoke && frame->epoch > mesh->revoked_below)
            mesh->revoked_below = frame->epoch;
        spot_frame_push(&mesh->orders, frame);
    }
    return rc ? -1 : n;
}

/* Read the last frames of a coordinator that died: if a member missed a commit, the job would have
 * to roll back. */
void spot_mesh_lose_control(struct spot_mesh *mesh, const struct spot_err *why)
{
    while (!mesh->is_orphan && take_orders(mesh, NULL) > 0)
        ;
    if (!mesh->is_orphan)
        mesh->lost = *why;
    mesh->is_orphan = true;
    spot_link_release(&mesh->control);
    report_orders(mesh);
}

void spot_mesh_free_peer(struct spot_mesh *mesh, size_t i)
{
    struct spot_mesh_conn *p = mesh->peer[i];

    spot_watch_disown(&mesh->watch, p->at_fd, p);
    spot_link_release(&p->link);
    spot_frame_list_release(&p->inbox);
    free(p);
    if (i < --mesh->n_peer) {
        mesh->peer[i] = mesh->peer[mesh->n_peer];
        mesh->peer[i]->index = i;
    }
}

struct spot_mesh_conn *spot_mesh_find_peer(const struct spot_mesh *mesh, uint32_t id)
{
    struct spot_mesh_conn *offered = NULL, *gone = NULL;

    for (size_t i = 0; i < mesh->n_peer; i++) {
        struct spot_mesh_conn *const p = mesh->peer[i];

        if (p->id != id)
            continue;
        if (p->is_gone)
            gone = p;
        else if (p->is_offered)
            offered = p;
        else
            return p;
    }
    return offered ? offered : gone;
}

/* Close the unidentified peer that has been silent for longest. False: all peers are identified. */
static bool drop_oldest_stranger(struct spot_mesh *mesh)
{
    size_t oldest = mesh->n_peer;

    for (size_t i = 0; i < mesh->n_peer; i++)
        if (mesh->peer[i]->link.is_stranger &&
            (oldest == mesh->n_peer || mesh->peer[i]->since_s < mesh->peer[oldest]->since_s))
            oldest = i;
    if (oldest == mesh->n_peer)
        return false;
    spot_mesh_free_peer(mesh, oldest);
    return true;
}

struct spot_mesh_conn *spot_mesh_add_peer(struct spot_mesh *mesh, int fd_take, bool is_server,
                                          struct spot_err *err)
{
    struct spot_mesh_conn *p;

    if (mesh->n_peer == SPOT_MESH_PEERS_MAX && !drop_oldest_stranger(mesh)) {
        close(fd_take);
        spot_err_set(err, SPOT_ESYS, "more than %d connections", SPOT_MESH_PEERS_MAX);
        return NULL;
    }
    p = spot_xcalloc(1, sizeof(*p));
    p->since_s = spot_clock_s();
    spot_link_init(&p->link, fd_take, is_server ? STRANGER_BYTE_MAX : mesh->config.payload_max);
    p->link.is_stranger = is_server;
    if (spot_link_secure(&p->link, mesh->config.tls, is_server, err)) {
        free(p);
        return NULL;
    }
    p->at_fd = fd_take;
    spot_watch_own(&mesh->watch, fd_take, p);
    p->index = mesh->n_peer;
    mesh->peer[mesh->n_peer++] = p;
    return p;
}

/* True if the HELLO has the key of this job and is for this worker: an address may have been reused
 * by another one. */
static bool is_for_us(const struct spot_mesh *mesh, const struct spot_frame *hello)
{
    return hello->tag == mesh->key && mesh->key && hello->n_byte == SPOT_MESH_ID_BYTE &&
           spot_le_get(hello->data, SPOT_MESH_ID_BYTE) == mesh->id;
}

/* The new connection replaces an older one from the same peer, and one that was offered to it.
 * Workers of different epochs may have connected to each other at the same time. */
static void take_in(struct spot_mesh *mesh, struct spot_mesh_conn *p, uint32_t id)
{
    for (size_t i = mesh->n_peer; i-- > 0;)
        if (mesh->peer[i]->id == id && (!*mesh->peer[i]->address || mesh->peer[i]->is_offered))
            spot_mesh_free_peer(mesh, i);
    p->id = id;
    p->link.is_stranger = false;
    p->link.payload_max = mesh->config.payload_max;
}

/* The answer tells the peer that this worker is alive. One that declines is of tag 1. */
static int greet(struct spot_mesh *mesh, struct spot_mesh_conn *p)
{
    const struct spot_mesh_config *const c = &mesh->config;
    struct spot_frame *hello = spot_frame_pop(&p->inbox);
    const uint32_t type = is_for_us(mesh, hello) ? hello->type : 0, id = hello->epoch;
    const bool declines = type == c->type_offer && spot_mesh_declines(mesh, id);
    int rc = -1;

    free(hello);
    if (type && (type == c->type_probe || declines)) {
        rc = 0;
    } else if (type && (type == c->type_hello || type == c->type_offer) && id) {
        take_in(mesh, p, id);
        rc = 0;
    }
    return rc ? rc : spot_link_send(&p->link, c->type_pong, mesh->id, declines, NULL, 0, NULL);
}

/* True for frames of past epochs, which no call will receive. */
static bool is_late(const struct spot_mesh *mesh, const struct spot_frame *frame)
{
    return frame->epoch < mesh->epoch || frame->epoch < mesh->revoked_below;
}

void spot_mesh_drop_late(struct spot_mesh *mesh)
{
    for (size_t i = 0; i < mesh->n_peer; i++) {
        struct spot_frame_list *inbox = &mesh->peer[i]->inbox, kept = { NULL, NULL };
        struct spot_frame *frame;

        if (mesh->peer[i]->link.is_stranger)
            continue; /* only HELLO was received */
        while ((frame = spot_frame_pop(inbox)))
            if (is_late(mesh, frame))
                free(frame);
            else
                spot_frame_push(&kept, frame);
        *inbox = kept;
    }
}

/* Read the frames of an identified peer. Pings are answered here, independently of the caller's
 * thread. */
static int read_known(struct spot_mesh *mesh, struct spot_mesh_conn *p, struct spot_err *err)
{
    struct spot_frame_list in = { NULL, NULL };
    struct spot_frame *frame;
    int rc = spot_link_read(&p->link, &in, err);

    if (!rc)
        p->received_s = spot_clock_s();
    while ((frame = spot_frame_pop(&in))) {
        const bool is_ping =
            frame->type == mesh->config.type_ping || frame->type == mesh->config.type_pong;

        if (!is_ping && !is_late(mesh, frame)) {
            spot_frame_push(&p->inbox, frame);
            continue;
        }
        if (!rc && frame->type == mesh->config.type_ping)
            rc = spot_link_send(&p->link, mesh->config.type_pong, 0, 0, NULL, 0, err);
        else if (p->is_offered && frame->type == mesh->config.type_pong)
            spot_mesh_offer_answered(p, frame->tag);
        free(frame);
    }
    return rc;
}

/* Of an unidentified peer only one frame is read; the rest is read if that was a valid HELLO and
 * the job's key is known. */
static int read_peer(struct spot_mesh *mesh, struct spot_mesh_conn *p, struct spot_err *err)
{
    if (p->link.is_stranger) {
        if (!p->inbox.head && spot_link_read(&p->link, &p->inbox, err))
            return -1;
        if (!p->inbox.head || !mesh->key)
            return 0;
        if (greet(mesh, p))
            return -1;
        if (p->link.is_stranger)
            return 0; /* a probe: answered, and closed by the other side */
    }
    return read_known(mesh, p, err);
}

static void read_control(struct spot_mesh *mesh)
{
    struct spot_err why = { 0 };
    const int rc = take_orders(mesh, &why);

    mesh->control_received_s = spot_clock_s();
    if (rc < 0)
        spot_mesh_lose_control(mesh, &why);
}

/* True if the peer's HELLO came before the job's key was known: it is checked when the key is
 * known, and nothing more is read until then. */
static bool awaits_key(const struct spot_mesh_conn *p)
{
    return p->link.is_stranger && p->inbox.head;
}

void spot_mesh_serve_peer(struct spot_mesh *mesh, size_t i, uint32_t events)
{
    struct spot_mesh_conn *p = mesh->peer[i];
    struct spot_err why = { 0 };
    int rc = 0;

    if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) || awaits_key(p))
        rc = read_peer(mesh, p, &why);
    if (!rc && (events & EPOLLOUT))
        rc = spot_link_flush(&p->link, &why);
    if (!rc)
        return;
    if (!p->id || (p->is_offered && spot_mesh_offer_failed(mesh, p))) {
        spot_mesh_free_peer(mesh, i);
        return;
    }
    spot_mesh_suspect_broken(mesh, p, &why);
    p->is_gone = true;
    spot_link_close(&p->link);
}

static void keep_lease(struct spot_mesh *mesh)
{
    const double now_s = spot_clock_s();
    struct spot_err why = { 0 };
    int rc = 0;

    if (mesh->is_orphan)
        return;
    if (atomic_exchange(&mesh->flags->notice, false)) {
        rc = spot_link_send(&mesh->control, mesh->config.type_notice, 0, mesh->flags->left_ms, NULL,
                            0, &why);
    }
    if (!rc && now_s - mesh->beat_s >= mesh->config.heartbeat_s) {
        mesh->beat_s = now_s;
        rc = spot_link_send(&mesh->control, mesh->config.type_heartbeat, 0, mesh->flags->progress,
                            NULL, 0, &why);
    }
    if (!rc && mesh->lease_s > 0 && now_s - mesh->control_received_s > 5 * mesh->lease_s)
        rc = spot_err_set(&why, SPOT_ESYS, "it has been silent for %g s", 5 * mesh->lease_s);
    if (rc)
        spot_mesh_lose_control(mesh, &why);
}

static uint32_t link_events(const struct spot_link *link)
{
    return EPOLLIN | (spot_link_wants_write(link) ? EPOLLOUT : 0);
}

static void watch_all(struct spot_mesh *mesh)
{
    const struct spot_watch *const w = &mesh->watch;

    spot_watch_set(w, mesh->listener, mesh->is_full ? SPOT_WATCH_NONE : EPOLLIN,
                   &mesh->listener_watched);
    if (!mesh->is_orphan)
        spot_watch_set(w, mesh->control.fd, link_events(&mesh->control), &mesh->control_watched);
    for (size_t i = 0; i < mesh->n_peer; i++) {
        struct spot_mesh_conn *const p = mesh->peer[i];

        if (p->link.fd >= 0)
            spot_watch_set(w, p->link.fd, awaits_key(p) ? SPOT_WATCH_NONE : link_events(&p->link),
                           &p->watched);
    }
}

static void serve_control(struct spot_mesh *mesh, uint32_t events)
{
    struct spot_err why = { 0 };

    if ((events & EPOLLOUT) && spot_link_flush(&mesh->control, &why))
        spot_mesh_lose_control(mesh, &why);
    else if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
        read_control(mesh);
}

/* Drop silent unidentified peers, and closed connections of workers of other epochs with their
 * unread frames. */
static void drop_silent(struct spot_mesh *mesh)
{
    const double now_s = spot_clock_s();

    if (now_s - mesh->swept_s < mesh->config.heartbeat_s)
        return;
    mesh->swept_s = now_s;
    for (size_t i = mesh->n_peer; i-- > 0;) {
        const struct spot_mesh_conn *const p = mesh->peer[i];

        if ((p->link.is_stranger && now_s - p->since_s > stranger_s) ||
            (p->is_gone && !spot_mesh_is_member(mesh, p->id) && now_s - p->received_s > abroad_s))
            spot_mesh_free_peer(mesh, i);
    }
}

/* When out of descriptors, the listener is not watched until the next heartbeat. */
static void take_strangers(struct spot_mesh *mesh)
{
    for (int n = 0; !mesh->is_full && n < STRANGER_TURN; n++) {
        const int fd = spot_endpoint_accept(mesh->listener);

        if (fd >= 0) {
            mesh->is_short = false;
            (void)spot_mesh_add_peer(mesh, fd, true, NULL);
        } else if (spot_mesh_is_short(errno)) {
            const bool is_mine = errno == EMFILE;

            mesh->is_full = !drop_oldest_stranger(mesh);
            mesh->is_short = mesh->is_full && is_mine;
        } else if (errno != ECONNABORTED && errno != EINTR)
            break;
    }
}

/* Returns true if a caller may wait for the result: not while the peer is unidentified, nor after a
 * probe. */
static bool serve_stranger(struct spot_mesh *mesh, const struct spot_mesh_conn *p, uint32_t events)
{
    const int fd = p->at_fd;

    spot_mesh_serve_peer(mesh, p->index, events);
    return spot_watch_owner(&mesh->watch, fd) == p && !p->link.is_stranger;
}

/* After a wake-up: process peers that waited with their HELLO for the key. */
static bool wake_up(struct spot_mesh *mesh)
{
    bool has_news = false;
    char drain[64];

    while (read(mesh->wake[0], drain, sizeof(drain)) == (ssize_t)sizeof(drain))
        ;
    for (size_t i = mesh->n_peer; mesh->key && i-- > 0;)
        if (i < mesh->n_peer && awaits_key(mesh->peer[i]))
            has_news |= serve_stranger(mesh, mesh->peer[i], 0);
    return has_news;
}

/* Serve a descriptor; one that was closed meanwhile is not found. */
static bool serve_fd(struct spot_mesh *mesh, int fd, uint32_t events)
{
    const struct spot_mesh_conn *const p = spot_watch_owner(&mesh->watch, fd);

    if (fd == mesh->wake[0])
        return wake_up(mesh);
    if (!p || p->link.fd != fd)
        return false;
    if (p->link.is_stranger)
        return serve_stranger(mesh, p, events);
    spot_mesh_serve_peer(mesh, p->index, events);
    return true;
}

/* Returns true if waiting callers must check again. */
static bool serve(struct spot_mesh *mesh, int n)
{
    const struct epoll_event *const event = mesh->watch.event;
    bool has_stranger = false, has_news = false;

    for (int i = 0; i < n; i++) /* the coordinator first, since it may end an epoch */
        if (!mesh->is_orphan && event[i].data.fd == mesh->control.fd) {
            serve_control(mesh, event[i].events);
            has_news = true;
        }
    for (int i = 0; i < n; i++)
        if (event[i].data.fd == mesh->listener)
            has_stranger = true;
        else
            has_news |= serve_fd(mesh, event[i].data.fd, event[i].events);
    if (has_stranger)
        take_strangers(mesh);
    return has_news || mesh->is_short;
}

void *spot_mesh_run_thread(void *user)
{
    struct spot_mesh *mesh = user;
    const int wait_ms = (int)(mesh->config.heartbeat_s * 1e3);

    while (!mesh->flags->stop) {
        int n;

        pthread_mutex_lock(&mesh->lock);
        keep_lease(mesh);
        drop_silent(mesh);
        watch_all(mesh);
        mesh->is_full = false;
        pthread_mutex_unlock(&mesh->lock);
        n = spot_watch_wait(&mesh->watch, wait_ms);
        if (!n)
            continue;
        pthread_mutex_lock(&mesh->lock);
        if (serve(mesh, n))
            report_orders(mesh);
        pthread_mutex_unlock(&mesh->lock);
    }
    return NULL;
}
