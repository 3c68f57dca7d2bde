/* SPDX-License-Identifier: MIT */
/* A group: start, loop, end. */
#include "cluster/group.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cluster/group_state.h"
#include "common/clock.h"
#include "common/random.h"
#include "common/xalloc.h"

enum { TICK_MS = 100 };

static const double insist_s = 0.5;
static _Atomic int stop_calls;
static _Atomic double first_stop_s;
static _Atomic bool reload_wanted, has_begun, has_run;
static _Atomic int wake_fd = -1;

static void wake_loop(void)
{
    const int fd = wake_fd, saved = errno;

    if (fd >= 0)
        (void)!write(fd, "", 1);
    errno = saved;
}

/* A wrapper such as timeout(1) forwards a signal that its process group receives as well, so a
 * second signal within half a second counts as the same one. */
void spot_group_stop(void)
{
    const double now_s = spot_clock_s();

    if (!stop_calls)
        first_stop_s = now_s;
    if (!stop_calls || now_s - first_stop_s > insist_s)
        stop_calls++;
    wake_loop();
}

int spot_group_stops(void)
{
    return stop_calls;
}

bool spot_group_gives_up(void)
{
    return stop_calls > (has_run ? 1 : 0);
}

void spot_group_begin(void)
{
    has_begun = true;
}

bool spot_group_has_begun(void)
{
    return has_begun;
}

void spot_group_reload(void)
{
    reload_wanted = true;
    wake_loop();
}

/* --- the loop ------------------------------------------------------------ */

static int workload_fd(const struct spot_group *g)
{
    return g->workload->fd ? g->workload->fd(g->job) : -1;
}

static void watch_work(struct spot_group *g)
{
    const int fd = workload_fd(g);

    if (fd != g->work_fd)
        g->work_watched = 0;
    g->work_fd = fd;
    if (fd >= 0)
        spot_watch_set(&g->watch, fd, EPOLLIN, &g->work_watched);
}

static void watch_all(struct spot_group *g)
{
    const bool is_full = g->polled_s < g->full_until_s;

    watch_work(g);
    spot_watch_set(&g->watch, g->listener, is_full ? SPOT_WATCH_NONE : EPOLLIN,
                   &g->listener_watched);
    for (size_t i = 0; i < g->n_peer; i++) {
        struct spot_peer *const p = g->peer[i];

        if (p->link.fd >= 0)
            spot_watch_set(&g->watch, p->link.fd,
                           EPOLLIN | (spot_link_wants_write(&p->link) ? EPOLLOUT : 0), &p->watched);
    }
}

static size_t index_of(const struct spot_group *g, const struct spot_peer *peer)
{
    size_t i = 0;

    while (g->peer[i] != peer)
        i++;
    return i;
}

/* Serve a peer, if it still exists. */
static int serve_peer(struct spot_group *g, const struct epoll_event *e, struct spot_err *err)
{
    struct spot_peer *const peer = spot_watch_owner(&g->watch, e->data.fd);
    int rc;

    if (!peer || peer->link.fd != e->data.fd)
        return 0;
    rc = spot_group_serve_peer(g, peer, e->events, err);
    if (rc < 0)
        return -1;
    /* at the end of the job members are dismissed anyway; and the message may have removed this
     * peer */
    return rc > 0 && !g->is_over && spot_watch_owner(&g->watch, e->data.fd) == peer
               ? spot_group_lose_peer(g, index_of(g, peer), "the connection closed", err)
               : 0;
}

static int serve(struct spot_group *g, int n, struct spot_err *err)
{
    bool has_stranger = false;
    char drain[64];

    for (int i = 0; i < n && !g->is_over; i++) {
        const struct epoll_event *const e = &g->watch.event[i];

        if (e->data.fd == g->wake[0])
            (void)!read(g->wake[0], drain, sizeof(drain));
        else if (e->data.fd == g->listener)
            has_stranger = true;
        else if (e->data.fd == g->work_fd ? g->workload->readable(g->job, err)
                                          : serve_peer(g, e, err))
            return -1;
    }
    if (has_stranger && !g->is_over)
        spot_group_accept(g);
    return 0;
}

/* Removes sockets of workers that were killed before they announced their address, or while there
 * was no coordinator. */
static void sweep(struct spot_group *g)
{
    static const double every_s = 5;
    static const time_t age_s = 10;

    if (g->swept_s > 0 && g->polled_s - g->swept_s < every_s)
        return;
    g->swept_s = g->polled_s;
    spot_endpoint_sweep(&g->endpoint, age_s);
}

static int tick_view(struct spot_view *view, struct spot_err *err)
{
    if (view->machine.phase == SPOT_PHASE_WAIT && spot_view_may_start(view) &&
        spot_view_act(view, spot_machine_start(&view->machine), err))
        return -1;
    if (view->machine.phase == SPOT_PHASE_WAIT)
        spot_view_release_leavers(
            view); /* a member that has just started may also have state to send */
    return 0;
}

/* Periodic work. */
static int tick(struct spot_group *g, struct spot_err *err)
{
    const bool force = atomic_exchange(&reload_wanted, false);
    bool changed;

    if (spot_group_drop_dead(g, err) || spot_group_local_keep(g, err) ||
        (g->workload->tick && g->workload->tick(g->job, err)))
        return -1;
    spot_group_plan_check(g, force, &changed);
    spot_group_retry_aside(g);
    if (changed && spot_group_consider(g, err))
        return -1;
    for (size_t i = 0; i < g->n_view; i++)
        if (tick_view(g->view[i], err))
            return -1;
    sweep(g);
    return 0;
}

/* While stopping: true once nothing more can be saved. */
static bool has_stopped(struct spot_group *g)
{
    if (!stop_calls && !g->is_drained)
        return false;
    g->stop_wanted = true;
    return !g->workload->is_saved || spot_group_gives_up() || g->workload->is_saved(g->job);
}

static int loop(struct spot_group *g, struct spot_err *err)
{
    int rc = 0;

    while (!rc && !g->is_over && !has_stopped(g)) {
        int n;

        watch_all(g);
        n = spot_watch_wait(&g->watch, TICK_MS);
        g->polled_s = spot_clock_s();
        rc = spot_group_hold(g, err) || serve(g, n, err) ? -1 : 0;
        if (!rc && !g->is_over)
            rc = tick(g, err);
    }
    return rc;
}

int spot_group_run(struct spot_group *g, struct spot_err *err)
{
    has_run = true;
    return spot_group_local_start(g, err) ? -1 : loop(g, err);
}

void spot_group_end(struct spot_group *g)
{
    g->is_over = true;
}

bool spot_group_is_over(const struct spot_group *g)
{
    return g->is_over;
}

bool spot_group_is_stopping(const struct spot_group *g)
{
    return g->stop_wanted;
}

bool spot_group_is_suspended(const struct spot_group *g)
{
    return g->is_suspended;
}

struct spot_journal *spot_group_journal(struct spot_group *g)
{
    return &g->journal;
}

uint32_t spot_group_epoch(const struct spot_group *g)
{
    return g->last_epoch;
}

void spot_group_address(const struct spot_group *g, char *text)
{
    spot_endpoint_print(&g->endpoint, text);
}

/* Keeps members from timing out a coordinator that reads a large state. */
void spot_group_send_keepalive(void *group)
{
    struct spot_group *g = group;
    const double now_s = spot_clock_s();

    if (now_s - g->keepalive_s < 0.25)
        return;
    g->keepalive_s = now_s;
    for (size_t i = 0; i < g->n_peer; i++)
        if (g->peer[i]->id)
            spot_peer_send(g->peer[i], SPOT_MSG_HEARTBEAT, 0, NULL, 0);
}

/* --- start and end ------------------------------------------------------- */

/* Draws the key by which peers prove that they belong to this job; 0 is reserved for no key. */
static int draw_key(uint64_t *key, struct spot_err *err)
{
    do
        if (spot_random_bytes(key, sizeof(*key), err))
            return -1;
    while (!*key);
    return 0;
}

struct spot_group *spot_group_new(const struct spot_group_options *options,
                                  const struct spot_workload *workload, void *job,
                                  struct spot_err *err)
{
    struct spot_group *const g = spot_xcalloc(1, sizeof(*g));

    g->options = options;
    g->workload = workload;
    g->job = job;
    g->listener = g->private_fd = g->wake[0] = g->wake[1] = g->work_fd = g->watch.epoll = -1;
    if ((options->key_file && !(g->tls = spot_tls_context_load(options->key_file, err))) ||
        draw_key(&g->key, err)) {
        spot_group_free(g);
        return NULL;
    }
    return g;
}

int spot_group_open(struct spot_group *g, int64_t *round, struct spot_err *err)
{
    if (spot_group_listen(g, err))
        return -1;
    if (spot_endpoint_pipe(g->wake))
        return spot_err_sys(err, "cannot make a pipe");
    if (spot_watch_open(&g->watch, err))
        return -1;
    spot_watch_set(&g->watch, g->wake[0], EPOLLIN, &(uint32_t){ 0 });
    wake_fd = g->wake[1];
    if (spot_journal_open(&g->journal, g->options->events, spot_group_resumes(g), round,
                          &g->last_epoch, err))
        return -1;
    g->journal.frequent = g->workload->frequent_events;
    g->journal.warn = g->options->warn;
    if (spot_group_keep(g, round, err))
        return -1;
    return 0;
}

/* Sends queued frames, waiting a moment at most. */
static void flush_peers(struct spot_group *g)
{
    const double until_s = spot_clock_s() + 1;

    for (size_t i = 0; i < g->n_peer; i++)
        while (spot_link_wants_write(&g->peer[i]->link) && spot_clock_s() < until_s) {
            if (spot_link_flush(&g->peer[i]->link, NULL))
                break;
            spot_clock_sleep(1e-3);
        }
}

void spot_group_dismiss(struct spot_group *g)
{
    for (size_t i = 0; g->is_over && i < g->n_peer; i++)
        if (g->peer[i]->id)
            spot_peer_send(g->peer[i], SPOT_MSG_FINISH, 0, NULL, 0);
    flush_peers(g);
}

int spot_group_close_journal(struct spot_group *g, struct spot_err *err)
{
    struct spot_err why = { 0 };

    flush_peers(g);
    if (!err)
        g->journal.patience_s = 2; /* the job has ended badly, or is to stop */
    if (!spot_journal_close(&g->journal, &why))
        return 0;
    if (err)
        *err = why;
    else
        g->options->warn("%s", why.msg);
    return -1;
}

void spot_group_free(struct spot_group *g)
{
    if (!g)
        return;
    wake_fd = -1;
    spot_group_unlisten(g);
    while (g->n_peer)
        spot_group_free_peer(g, g->n_peer - 1);
    spot_watch_close(&g->watch);
    spot_group_local_stop(g);
    spot_group_drop_private(g);
    for (int i = 0; i < 2; i++)
        if (g->wake[i] >= 0)
            close(g->wake[i]);
    for (size_t i = 0; i < g->n_view; i++)
        spot_view_free(g->view[i]);
    free(g->view);
    free(g->peer);
    spot_suspects_release(&g->suspects);
    spot_tls_context_free(g->tls);
    spot_group_resign(g);
    free(g);
}
