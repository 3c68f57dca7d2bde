/* SPDX-License-Identifier: MIT */
#include "comm/mesh.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "comm/mesh_state.h"
#include "common/clock.h"
#include "common/le.h"
#include "common/threads.h"
#include "common/xalloc.h"

/* --- open and close ------------------------------------------------------ */

/* Listens at SOCKET.PID, announced as an absolute path. */
static int listen_unix(struct spot_mesh *mesh, struct spot_err *err)
{
    char text[2 * SPOT_ADDRESS_MAX];

    snprintf(text, sizeof(text), "unix:%s.%ld", mesh->coordinator.path, (long)getpid());
    if (spot_endpoint_parse(text, &mesh->own, err))
        return -1;
    spot_endpoint_make_absolute(&mesh->own);
    mesh->listener = spot_endpoint_listen(&mesh->own, err);
    return mesh->listener < 0 ? -1 : 0;
}

/* Listens at a free port of the address from which the coordinator is reached. A worker on the
 * coordinator's own machine may have peers on other machines: with a key it listens on all
 * addresses, and the coordinator announces its external address. */
static int listen_tcp(struct spot_mesh *mesh, struct spot_err *err)
{
    struct spot_endpoint at;

    if (spot_endpoint_local(mesh->control.fd, &mesh->own, err))
        return -1;
    at = mesh->own;
    if (mesh->config.tls && spot_endpoint_is_private(&at))
        memset(at.ip, 0, sizeof(at.ip));
    mesh->listener = spot_endpoint_listen(&at, err);
    mesh->own.port = at.port;
    return mesh->listener < 0 ? -1 : 0;
}

static int listen_for_peers(struct spot_mesh *mesh, struct spot_err *err)
{
    if (mesh->coordinator.kind == SPOT_ENDPOINT_UNIX ? listen_unix(mesh, err)
                                                     : listen_tcp(mesh, err))
        return -1;
    spot_endpoint_print(&mesh->own, mesh->address);
    return 0;
}

static int open_watch(struct spot_mesh *mesh, struct spot_err *err)
{
    if (spot_watch_open(&mesh->watch, err))
        return -1;
    spot_watch_set(&mesh->watch, mesh->wake[0], EPOLLIN, &(uint32_t){ 0 });
    return 0;
}

static int start_thread(struct spot_mesh *mesh, struct spot_err *err)
{
    if (spot_thread_start(&mesh->thread, spot_mesh_run_thread, mesh, err))
        return -1;
    mesh->has_thread = true;
    return 0;
}

struct spot_mesh *spot_mesh_open(const struct spot_mesh_config *config, struct spot_err *err)
{
    struct spot_mesh *mesh = spot_xcalloc(1, sizeof(*mesh));
    int fd;

    mesh->config = *config;
    mesh->flags = spot_mesh_flags_new();
    mesh->beat_s = mesh->control_received_s = spot_clock_s(); /* HELLO is sent first */
    mesh->listener = mesh->wake[0] = mesh->wake[1] = mesh->order_wake = mesh->watch.epoll =
        mesh->control.fd = -1;
    pthread_mutex_init(&mesh->lock, NULL);
    spot_cond_init(&mesh->changed);
    fd = spot_endpoint_dial(config->join, config->tls ? SPOT_REACH_NAMES : SPOT_REACH_HERE,
                            &mesh->coordinator, err);
    if (fd < 0)
        goto fail;
    spot_link_init(&mesh->control, fd, config->payload_max);
    if (spot_link_secure(&mesh->control, config->tls, false, err))
        goto fail;
    if (listen_for_peers(mesh, err))
        goto fail;
    if (spot_endpoint_pipe(mesh->wake)) {
        spot_err_sys(err, "cannot make a pipe");
        goto fail;
    }
    if (open_watch(mesh, err) || start_thread(mesh, err))
        goto fail;
    return mesh;
fail:
    spot_mesh_close(mesh);
    return NULL;
}

void spot_mesh_close(struct spot_mesh *mesh)
{
    if (!mesh)
        return;
    if (mesh->has_thread) {
        spot_mesh_stop(mesh);
        pthread_join(mesh->thread, NULL);
    }
    if (mesh->listener >= 0)
        spot_endpoint_unlisten(&mesh->own, mesh->listener);
    for (int i = 0; i < 2; i++)
        if (mesh->wake[i] >= 0)
            close(mesh->wake[i]);
    if (mesh->order_wake >= 0)
        close(mesh->order_wake);
    spot_link_release(&mesh->control);
    spot_frame_list_release(&mesh->orders);
    while (mesh->n_peer)
        spot_mesh_free_peer(mesh, mesh->n_peer - 1);
    spot_watch_close(&mesh->watch);
    pthread_cond_destroy(&mesh->changed);
    pthread_mutex_destroy(&mesh->lock);
    free(mesh->member);
    free(mesh->suspect);
    free(mesh->flags);
    free(mesh);
}

const char *spot_mesh_address(const struct spot_mesh *mesh)
{
    return mesh->address;
}

void spot_mesh_lease(struct spot_mesh *mesh, double lease_s)
{
    pthread_mutex_lock(&mesh->lock);
    mesh->lease_s = lease_s;
    pthread_mutex_unlock(&mesh->lock);
}

void spot_mesh_own(struct spot_mesh *mesh, uint64_t key, uint32_t id)
{
    pthread_mutex_lock(&mesh->lock);
    mesh->key = key;
    mesh->id = id;
    spot_mesh_wake(mesh);
    pthread_mutex_unlock(&mesh->lock);
}

/* --- the coordinator ----------------------------------------------------- */

static int report_failed(const struct spot_mesh *mesh, struct spot_err *err)
{
    if (mesh->lost.code == SPOT_EINFEASIBLE)
        return spot_err_set(err, SPOT_EINFEASIBLE, "%s: %.400s", mesh->config.join, mesh->lost.msg);
    return spot_err_set(err, SPOT_ESYS, "the coordinator was lost: %.400s", mesh->lost.msg);
}

/* Call after sending a report, with the lock held: after a failure the coordinator is lost; if more
 * is to be sent, the thread is woken. */
static int end_report(struct spot_mesh *mesh, int rc, const struct spot_err *why)
{
    if (rc)
        spot_mesh_lose_control(mesh, why);
    else if (spot_link_wants_write(&mesh->control))
        spot_mesh_wake(mesh);
    return rc;
}

int spot_mesh_report(struct spot_mesh *mesh, uint32_t type, uint32_t epoch, uint64_t tag,
                     const void *data, size_t n_byte, struct spot_err *err)
{
    struct spot_err why = { 0 };
    int rc = -1;

    pthread_mutex_lock(&mesh->lock);
    if (!mesh->is_orphan)
        rc = end_report(mesh, spot_link_send(&mesh->control, type, epoch, tag, data, n_byte, &why),
                        &why);
    pthread_mutex_unlock(&mesh->lock);
    return rc ? report_failed(mesh, err) : 0;
}

int spot_mesh_submit(struct spot_mesh *mesh, uint32_t type, uint32_t epoch, uint64_t tag,
                     struct spot_buf *data_take, struct spot_err *err)
{
    struct spot_err why = { 0 };
    int rc = -1;

    pthread_mutex_lock(&mesh->lock);
    if (!mesh->is_orphan)
        rc = end_report(mesh, spot_link_submit(&mesh->control, type, epoch, tag, data_take, &why),
                        &why);
    pthread_mutex_unlock(&mesh->lock);
    spot_buf_release(data_take);
    return rc ? report_failed(mesh, err) : 0;
}

static int wait_changed(struct spot_mesh *mesh, double until_s)
{
    return until_s < 0 ? pthread_cond_wait(&mesh->changed, &mesh->lock)
                       : spot_cond_wait_until(&mesh->changed, &mesh->lock, until_s);
}

struct spot_frame *spot_mesh_order(struct spot_mesh *mesh, double timeout_s, struct spot_err *err)
{
    const double until_s = timeout_s < 0 ? -1 : spot_clock_s() + timeout_s;
    struct spot_frame *frame;

    pthread_mutex_lock(&mesh->lock);
    while (!(frame = spot_frame_pop(&mesh->orders)) && !mesh->is_orphan)
        if (wait_changed(mesh, until_s) == ETIMEDOUT)
            break;
    if (!frame) {
        if (mesh->is_orphan)
            report_failed(mesh, err);
        else
            spot_err_set(err, SPOT_ESYS, "no heartbeat of the coordinator for %g s", timeout_s);
    }
    pthread_mutex_unlock(&mesh->lock);
    return frame;
}

int spot_mesh_order_fd(struct spot_mesh *mesh, struct spot_err *err)
{
    int fd;

    pthread_mutex_lock(&mesh->lock);
    if (mesh->order_wake < 0)
        /* 1: frames may already be waiting */
        mesh->order_wake = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
    fd = mesh->order_wake;
    pthread_mutex_unlock(&mesh->lock);
    return fd < 0 ? spot_err_sys(err, "cannot make an eventfd") : fd;
}

bool spot_mesh_has_order(struct spot_mesh *mesh)
{
    bool has;

    pthread_mutex_lock(&mesh->lock);
    has = mesh->orders.head || mesh->is_orphan;
    if (mesh->order_wake >= 0)
        (void)eventfd_read(mesh->order_wake, &(eventfd_t){ 0 });
    pthread_mutex_unlock(&mesh->lock);
    return has;
}

bool spot_mesh_is_orphan(struct spot_mesh *mesh)
{
    bool is_orphan;

    pthread_mutex_lock(&mesh->lock);
    is_orphan = mesh->is_orphan;
    pthread_mutex_unlock(&mesh->lock);
    return is_orphan;
}

/* --- peers --------------------------------------------------------------- */

static bool is_listed(const struct spot_mesh_peer *peer, size_t n_peer, uint32_t id)
{
    for (size_t i = 0; i < n_peer; i++)
        if (peer[i].id == id)
            return true;
    return false;
}

/* Drop connections of peers that left, and broken ones, so that new ones can be made. */
static void drop_strangers(struct spot_mesh *mesh, const struct spot_mesh_peer *peer, size_t n_peer)
{
    for (size_t i = mesh->n_peer; i-- > 0;) {
        const struct spot_mesh_conn *p = mesh->peer[i];

        if (p->id && (p->is_gone || p->link.fd < 0 || !is_listed(peer, n_peer, p->id)))
            spot_mesh_free_peer(mesh, i);
    }
}

/* Connects to the elder peers even after a failure, so that one epoch is enough to find a member
 * that no other reaches; stops when the epoch is over. */
static int connect_elders(struct spot_mesh *mesh, const struct spot_mesh_peer *peer, size_t n_peer,
                          struct spot_err *err)
{
    int rc = 0;

    for (size_t i = 0; i < n_peer && !spot_mesh_check_wait(mesh, NULL, 0, NULL); i++) {
        struct spot_err why = { 0 };

        if (peer[i].id >= mesh->id || peer[i].on_demand || spot_mesh_find_peer(mesh, peer[i].id) ||
            !spot_mesh_connect(mesh, &peer[i], &why))
            continue;
        spot_mesh_suspect_missed(mesh, peer[i].id, &why);
        if (!rc && err)
            *err = why;
        rc = -1;
    }
    return rc;
}

int spot_mesh_enter(struct spot_mesh *mesh, uint32_t epoch, uint64_t key, uint32_t id,
                    const struct spot_mesh_peer *peer, size_t n_peer, struct spot_err *err)
{
    int rc;

    pthread_mutex_lock(&mesh->lock);
    mesh->epoch = epoch;
    mesh->key = key;
    mesh->id = id;
    mesh->n_suspect = 0;
    mesh->member = spot_xgrow(mesh->member, &mesh->cap_member, n_peer, sizeof(*mesh->member));
    for (mesh->n_member = 0; mesh->n_member < n_peer; mesh->n_member++)
        mesh->member[mesh->n_member] = peer[mesh->n_member];
    drop_strangers(mesh, peer, n_peer);
    spot_mesh_drop_late(mesh);
    for (size_t i = mesh->n_peer; i-- > 0;) /* peers that connected before the key was known */
        if (i < mesh->n_peer && mesh->peer[i]->link.is_stranger && mesh->peer[i]->inbox.head)
            spot_mesh_serve_peer(mesh, i, EPOLLIN);
    rc = connect_elders(mesh, peer, n_peer, err);
    spot_mesh_wake(mesh);
    pthread_mutex_unlock(&mesh->lock);
    return rc;
}

int spot_mesh_check_wait(const struct spot_mesh *mesh, const struct spot_mesh_conn *p, uint32_t id,
                         struct spot_err *err)
{
    if (mesh->is_orphan)
        return report_failed(mesh, err);
    if (mesh->epoch < mesh->revoked_below)
        return spot_err_set(err, SPOT_EPREEMPTED, "epoch %u is over", (unsigned)mesh->epoch);
    if (p && p->is_gone)
        return spot_err_set(err, SPOT_ESYS, "member %u was lost", (unsigned)id);
    return 0;
}

/* True if a peer that has been waited for since start_s is silent for too long; pings it before. */
static bool is_silent(struct spot_mesh *mesh, struct spot_mesh_conn *p, uint32_t id, double start_s,
                      struct spot_err *err)
{
    const double now_s = spot_clock_s(), limit_s = mesh->lease_s;
    const double received_s = p && p->received_s > start_s ? p->received_s : start_s;
    char why[SPOT_MESH_WHY_MAX];

    if (!p && mesh->is_short) {
        snprintf(why, sizeof(why), "no descriptor is left for a connection: %s", strerror(EMFILE));
        spot_mesh_suspect(mesh, mesh->id, false, why);
        spot_err_set(err, SPOT_ESYS, "%s", why);
        return true;
    }
    if (limit_s <= 0)
        return false;
    if (!p && now_s - start_s > limit_s / 4 && spot_mesh_demand(mesh, id, err))
        return true;
    if (now_s - received_s > limit_s) {
        snprintf(why, sizeof(why), "%s%sno answer for %g s", p ? p->address : "",
                 p && *p->address ? ": " : "", limit_s);
        spot_mesh_suspect(mesh, id, false, why);
        if (p) {
            p->is_gone = true;
            spot_link_close(&p->link);
        }
        spot_err_set(err, SPOT_ESYS, "member %u does not answer", (unsigned)id);
        return true;
    }
    if (p && !p->is_offered && now_s - received_s > limit_s / 4 &&
        now_s - p->ping_s > limit_s / 4) {
        p->ping_s = now_s;
        if (spot_link_send(&p->link, mesh->config.type_ping, 0, 0, NULL, 0, err)) {
            p->is_gone = true;
            spot_mesh_suspect_broken(mesh, p, err);
            return true;
        }
        if (spot_link_wants_write(&p->link))
            spot_mesh_wake(mesh);
    }
    return false;
}

/* Waits until something changes, or it is time for another ping. */
static void wait_peer(struct spot_mesh *mesh)
{
    wait_changed(mesh, mesh->lease_s > 0 ? spot_clock_s() + mesh->lease_s / 8 : -1);
}

static int send_peer(struct spot_mesh *mesh, uint32_t peer, uint32_t type, uint64_t tag,
                     const void *data, size_t n_byte, bool is_lent, struct spot_err *err)
{
    const double start_s = spot_clock_s();
    bool has_demanded = false;
    struct spot_mesh_conn *p;
    int rc;

    pthread_mutex_lock(&mesh->lock);
    for (;;) {
        p = spot_mesh_find_peer(mesh, peer);
        rc = spot_mesh_check_wait(mesh, p, peer, err);
        if (rc || (p && !p->is_offered))
            break;
        if (!p && !has_demanded) {
            has_demanded = true;
            rc = spot_mesh_demand(mesh, peer, err); /* releases the lock: look again */
        } else if (is_silent(mesh, p, peer, start_s, err)) {
            rc = -1;
        } else {
            wait_peer(mesh);
        }
        if (rc)
            break;
    }
    if (!rc) {
        struct spot_err why = { 0 };

        rc = (is_lent ? spot_link_lend : spot_link_send)(&p->link, type, mesh->epoch, tag, data,
                                                         n_byte, &why);
        if (rc) {
            p->is_gone = true;
            spot_mesh_suspect_broken(mesh, p, &why);
            if (err)
                *err = why;
        } else if (spot_link_wants_write(&p->link))
            spot_mesh_wake(mesh);
    }
    pthread_mutex_unlock(&mesh->lock);
    return rc;
}

int spot_mesh_send(struct spot_mesh *mesh, uint32_t peer, uint32_t type, uint64_t tag,
                   const void *data, size_t n_byte, struct spot_err *err)
{
    return send_peer(mesh, peer, type, tag, data, n_byte, false, err);
}

int spot_mesh_lend(struct spot_mesh *mesh, uint32_t peer, uint32_t type, uint64_t tag,
                   const void *data, size_t n_byte, struct spot_err *err)
{
    return send_peer(mesh, peer, type, tag, data, n_byte, true, err);
}

void spot_mesh_keep(struct spot_mesh *mesh)
{
    pthread_mutex_lock(&mesh->lock);
    for (size_t i = 0; i < mesh->n_peer; i++) {
        struct spot_mesh_conn *p = mesh->peer[i];

        if (spot_link_keep(&p->link, mesh->revoked_below, NULL)) {
            p->is_gone = true;
            spot_link_close(&p->link);
        }
    }
    pthread_mutex_unlock(&mesh->lock);
}

/* Take the wanted frame out of an inbox. */
static struct spot_frame *take_frame(struct spot_frame_list *inbox, uint32_t epoch, uint32_t type,
                                     uint64_t tag)
{
    struct spot_frame_list keep = { NULL, NULL };
    struct spot_frame *frame, *found = NULL;

    while ((frame = spot_frame_pop(inbox))) {
        if (!found && frame->epoch == epoch && frame->type == type && frame->tag == tag)
            found = frame;
        else
            spot_frame_push(&keep, frame);
    }
    *inbox = keep;
    return found;
}

/* Takes the frame from whichever connection received it. */
static struct spot_frame *take_from(struct spot_mesh *mesh, uint32_t peer, uint32_t type,
                                    uint64_t tag)
{
    struct spot_frame *frame = NULL;

    for (size_t i = 0; !frame && i < mesh->n_peer; i++)
        if (mesh->peer[i]->id == peer)
            frame = take_frame(&mesh->peer[i]->inbox, mesh->epoch, type, tag);
    return frame;
}

struct spot_frame *spot_mesh_recv(struct spot_mesh *mesh, uint32_t peer, uint32_t type,
                                  uint64_t tag, struct spot_err *err)
{
    const double start_s = spot_clock_s();
    struct spot_frame *frame = NULL;

    pthread_mutex_lock(&mesh->lock);
    for (;;) {
        struct spot_mesh_conn *p = spot_mesh_find_peer(mesh, peer);

        frame = take_from(mesh, peer, type, tag);
        if (frame || spot_mesh_check_wait(mesh, p, peer, err) ||
            is_silent(mesh, p, peer, start_s, err))
            break;
        wait_peer(mesh);
    }
    pthread_mutex_unlock(&mesh->lock);
    return frame;
}

static bool has_frame(const struct spot_frame_list *inbox, uint32_t epoch, uint32_t type,
                      uint64_t tag)
{
    const struct spot_frame *f = inbox->head;

    while (f && !(f->epoch == epoch && f->type == type && f->tag == tag))
        f = f->next;
    return f != NULL;
}

bool spot_mesh_has_from(const struct spot_mesh *mesh, uint32_t peer, uint32_t type, uint64_t tag)
{
    for (size_t i = 0; i < mesh->n_peer; i++)
        if (mesh->peer[i]->id == peer && has_frame(&mesh->peer[i]->inbox, mesh->epoch, type, tag))
            return true;
    return false;
}

bool spot_mesh_wait(struct spot_mesh *mesh, uint32_t peer, uint32_t type, uint64_t tag,
                    double limit_s)
{
    const double until_s = spot_clock_s() + limit_s;
    bool is_ready;

    pthread_mutex_lock(&mesh->lock);
    do {
        const struct spot_mesh_conn *p = spot_mesh_find_peer(mesh, peer);

        is_ready =
            spot_mesh_has_from(mesh, peer, type, tag) || spot_mesh_check_wait(mesh, p, peer, NULL);
    } while (!is_ready && limit_s > 0 && wait_changed(mesh, until_s) != ETIMEDOUT);
    pthread_mutex_unlock(&mesh->lock);
    return is_ready;
}

/* A queue that shrinks is a sign of life, since a ping waits behind it. */
int spot_mesh_room(struct spot_mesh *mesh, uint32_t peer, size_t n_byte, struct spot_err *err)
{
    double start_s = spot_clock_s();
    size_t n_before = SIZE_MAX;
    int rc;

    pthread_mutex_lock(&mesh->lock);
    for (;;) {
        struct spot_mesh_conn *p = spot_mesh_find_peer(mesh, peer);
        const size_t n = p ? spot_link_left(&p->link) : 0;

        rc = spot_mesh_check_wait(mesh, p, peer, err);
        if (rc || n <= n_byte)
            break;
        if (n < n_before)
            start_s = spot_clock_s();
        n_before = n;
        if (is_silent(mesh, p, peer, start_s, err)) {
            rc = -1;
            break;
        }
        wait_peer(mesh);
    }
    pthread_mutex_unlock(&mesh->lock);
    return rc;
}

int spot_mesh_check(struct spot_mesh *mesh, const uint32_t *peer, size_t n_peer,
                    struct spot_err *err)
{
    int rc;

    pthread_mutex_lock(&mesh->lock);
    rc = spot_mesh_check_wait(mesh, NULL, 0, err);
    for (size_t i = 0; !rc && i < n_peer; i++)
        rc = spot_mesh_check_wait(mesh, spot_mesh_find_peer(mesh, peer[i]), peer[i], err);
    pthread_mutex_unlock(&mesh->lock);
    return rc;
}
