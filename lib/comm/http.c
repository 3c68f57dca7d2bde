/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* accept4, EPOLLRDHUP */
#include "comm/http.h"

#include <errno.h>
#include <math.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "comm/http_state.h"
#include "common/clock.h"
#include "common/xalloc.h"

enum { EVENTS = 64, STEPS = 32, BLOCK = 16 << 10, LINGER_BYTE = 32 << 20 };

static const double look_every_s = 0.25; /* interval of the check for time limits */
static const double run_max_s =
    0.01; /* per call of spot_http_run, since the caller has other work, too */
/* Time for a client to read an early answer: many clients read only after they have sent
 * everything. */
static const double linger_s = 1, linger_most_s = 10; /* maximum silence, and maximum time in all */

/* --- connections ---------------------------------------------------------------- */

void spot_http_ready(struct spot_http_line *l)
{
    struct spot_http *const h = l->http;

    if (l->is_ready || l == h->current)
        return;
    h->ready = spot_xgrow(h->ready, &h->cap_ready, h->n_ready + 1, sizeof(struct spot_http_line *));
    h->ready[h->n_ready++] = l;
    l->is_ready = true;
    if (h->n_ready == 1) /* otherwise `more` is already signalled, or spot_http_run is running */
        (void)eventfd_write(h->more, 1);
}

static void drop(struct spot_http_line *l)
{
    struct spot_http *const h = l->http;

    if (l->call)
        spot_http_end_call(l);
    for (size_t i = 0; l->is_ready && i < h->n_ready; i++)
        if (h->ready[i] == l)
            h->ready[i] = NULL;
    if (l->next)
        l->next->before = l->before;
    *(l->before ? &l->before->next : &h->first) = l->next;
    h->n_line--;
    /* close() does not end the watch while a child process between fork and exec holds a copy. */
    (void)epoll_ctl(h->fd, EPOLL_CTL_DEL, l->fd, NULL);
    if (l->tls)
        spot_tls_free(l->tls);
    else
        close(l->fd);
    spot_buf_release(&l->in);
    spot_buf_release(&l->out);
    free(l);
}

static bool wants_input(const struct spot_http_line *l)
{
    return l->lingers || (l->call ? l->call->is_reading : !l->closes);
}

/* True if all output was sent, but not yet the end of the stream. */
static bool is_at_end(const struct spot_http_line *l)
{
    return l->closes && !l->call && !l->lingers && l->n_sent == l->out.n;
}

/* Registers the wanted events. Returns 0, or -1 if the kernel is out of memory. */
static int watch(struct spot_http_line *l, int how)
{
    const bool has_more = l->n_sent < l->out.n || is_at_end(l);
    const bool wants_output = l->tls ? spot_tls_wants_write(l->tls, has_more) : has_more;
    struct epoll_event event = { .events = (wants_input(l) ? EPOLLIN : 0U) |
                                           (wants_output ? EPOLLOUT : 0U) |
                                           (l->has_ended || l->lingers ? 0U : EPOLLRDHUP),
                                 .data.ptr = l };

    if (how == EPOLL_CTL_MOD && event.events == l->events)
        return 0;
    l->events = event.events;
    return epoll_ctl(l->http->fd, how, l->fd, &event);
}

static void add_line(struct spot_http *h, int fd)
{
    struct spot_tls *const tls = h->tls ? spot_tls_start(fd, true, h->tls, NULL) : NULL;
    struct spot_http_line *l;

    if (h->tls && !tls)
        return;
    l = spot_xcalloc(1, sizeof(*l));
    *l = (struct spot_http_line){ .http = h,
                                  .next = h->first,
                                  .fd = fd,
                                  .tls = tls,
                                  .due_s = spot_clock_s() + h->options.idle_s };
    if (h->first)
        h->first->before = l;
    h->first = l;
    h->n_line++;
    if (watch(l, EPOLL_CTL_ADD))
        drop(l);
}

/* Keeps the kernel's default buffers, which are small, since a client may not read. */
static int accept_one(const struct spot_http *h)
{
    const int fd = accept4(h->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK), on = 1;

    if (fd >= 0 && h->endpoint.kind != SPOT_ENDPOINT_UNIX)
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    return fd;
}

static void take_new(struct spot_http *h)
{
    for (int i = 0; i < EVENTS; i++) {
        const int fd = accept_one(h);

        if (fd >= 0 && h->n_line < h->options.n_connection_max) {
            add_line(h, fd);
        } else if (fd >= 0) {
            close(fd);
        } else {
            h->is_paused =
                errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
            break;
        }
    }
    if (h->is_paused)
        (void)epoll_ctl(h->fd, EPOLL_CTL_DEL, h->listener, NULL);
}

/* --- input and output: 1, progress; 0, nothing can be done now; -1, the connection is over --- */

static int flush(struct spot_http_line *l)
{
    const void *const at = l->out.data + l->n_sent;
    const size_t n = l->out.n - l->n_sent;
    const ssize_t put =
        l->tls ? spot_tls_send(l->tls, at, n, NULL) : send(l->fd, at, n, MSG_NOSIGNAL);

    if (put > 0) {
        l->due_s = spot_clock_s() + l->http->options.idle_s;
        l->n_sent += (size_t)put;
        if (l->n_sent == l->out.n)
            l->n_sent = l->out.n = 0;
        return 1;
    }
    if (l->tls)
        return (int)put;
    return errno == EAGAIN || errno == EINTR ? 0 : -1;
}

static int fill(struct spot_http_line *l)
{
    char block[BLOCK];
    const ssize_t got = l->tls ? spot_tls_recv(l->tls, block, sizeof(block), NULL)
                               : recv(l->fd, block, sizeof(block), 0);

    if (got > 0 && !l->lingers)
        spot_buf_add(&l->in, block, (size_t)got);
    if (got > 0 && l->lingers) {
        l->n_dropped += (size_t)got;
        l->due_s = fmin(spot_clock_s() + linger_s, l->linger_end_s);
    }
    if (got > 0)
        return l->n_dropped > LINGER_BYTE ? -1 : 1;
    if (l->tls)
        return (int)got;
    return got < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : -1;
}

/* Reads and discards input before the close: with unread bytes the kernel would reset the
 * connection, and the answer could be lost. */
static int linger(struct spot_http_line *l)
{
    if (l->has_ended)
        return -1;
    if (l->tls && !spot_tls_end(l->tls))
        return 0;
    spot_buf_release(&l->in);
    l->lingers = true;
    l->due_s = spot_clock_s() + linger_s;
    l->linger_end_s = spot_clock_s() + linger_most_s;
    return shutdown(l->fd, SHUT_WR) ? -1 : 1;
}

static int advance(struct spot_http_line *l)
{
    if (l->n_sent < l->out.n)
        return flush(l);
    if (spot_http_produce(l))
        return 1;
    if (is_at_end(l))
        return linger(l);
    if (spot_http_consume(l))
        return 1;
    return wants_input(l) ? fill(l) : 0;
}

/* Serves a connection once. False: it is closed. */
static bool step(struct spot_http_line *l)
{
    struct spot_http *const h = l->http;
    int rc = 1;

    h->current = l;
    for (int i = 0; rc > 0 && i < STEPS; i++)
        rc = advance(l);
    h->current = NULL;
    if (rc > 0)
        spot_http_ready(l); /* after the other connections */
    if (rc >= 0 && !watch(l, EPOLL_CTL_MOD))
        return true;
    drop(l);
    return false;
}

static void on_event(struct spot_http_line *l, uint32_t events)
{
    if (events & (EPOLLHUP | EPOLLERR)) {
        drop(l);
        return;
    }
    if (!step(l) || !(events & EPOLLRDHUP) || wants_input(l))
        return;
    if (l->call && !spot_http_is_sent(l->call)) { /* the client has disconnected */
        drop(l);
        return;
    }
    l->has_ended = true;
    (void)watch(l, EPOLL_CTL_MOD);
}

/* --- the server ---------------------------------------------------------------- */

static int watch_listener(struct spot_http *h)
{
    struct epoll_event event = { .events = EPOLLIN, .data.ptr = h };

    h->is_paused = false;
    return epoll_ctl(h->fd, EPOLL_CTL_ADD, h->listener, &event);
}

static int open_poll(struct spot_http *h, struct spot_err *err)
{
    struct epoll_event event = { .events = EPOLLIN };

    h->fd = epoll_create1(EPOLL_CLOEXEC);
    h->more = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (h->fd < 0 || h->more < 0 || epoll_ctl(h->fd, EPOLL_CTL_ADD, h->more, &event) ||
        watch_listener(h))
        return spot_err_sys(err, "cannot wait for HTTP at %s", h->options.address);
    return 0;
}

static int open_listener(struct spot_http *h, struct spot_err *err)
{
    const struct spot_http_options *const o = &h->options;
    char text[SPOT_ADDRESS_MAX + 8];

    if (spot_endpoint_parse_reach(o->address, o->tls_cert ? SPOT_REACH_NUMERIC : SPOT_REACH_HERE,
                                  &h->endpoint, err) ||
        (o->tls_cert && !(h->tls = spot_tls_context_of_certificate(o->tls_cert, o->tls_key, err))))
        return -1;
    h->listener = spot_endpoint_listen(&h->endpoint, err);
    if (h->listener < 0)
        return -1;
    spot_endpoint_print(&h->endpoint, text);
    if (h->endpoint.kind == SPOT_ENDPOINT_UNIX)
        snprintf(h->url, sizeof(h->url), "%s", text);
    else
        snprintf(h->url, sizeof(h->url), "%s://%s", o->tls_cert ? "https" : "http", text);
    return 0;
}

struct spot_http *spot_http_new(const struct spot_http_options *options, struct spot_err *err)
{
    struct spot_http *const h = spot_xcalloc(1, sizeof(*h));

    h->options = *options;
    h->listener = h->fd = h->more = -1;
    if (open_listener(h, err) || open_poll(h, err)) {
        spot_http_free(h);
        return NULL;
    }
    return h;
}

void spot_http_free(struct spot_http *h)
{
    if (!h)
        return;
    while (h->first)
        drop(h->first);
    if (h->listener >= 0)
        spot_endpoint_unlisten(&h->endpoint, h->listener);
    if (h->fd >= 0)
        close(h->fd);
    if (h->more >= 0)
        close(h->more);
    spot_tls_context_free(h->tls);
    free(h->ready);
    free(h);
}

int spot_http_port(const struct spot_http *h)
{
    return h->endpoint.kind == SPOT_ENDPOINT_UNIX ? 0 : h->endpoint.port;
}

const char *spot_http_url(const struct spot_http *h)
{
    return h->url;
}

int spot_http_fd(const struct spot_http *h)
{
    return h->fd;
}

static void look_for_late(struct spot_http *h)
{
    const double now_s = spot_clock_s();

    if (now_s < h->looked_s + look_every_s)
        return;
    h->looked_s = now_s;
    for (struct spot_http_line *l = h->first, *next; l; l = next) {
        next = l->next;
        if (now_s > l->due_s)
            drop(l);
    }
    if (h->is_paused)
        (void)watch_listener(h);
}

/* Serves the ready connections; those that become ready meanwhile are served in the next call. */
static void step_ready(struct spot_http *h)
{
    const size_t n = h->n_ready;

    for (size_t i = 0; i < n; i++) {
        struct spot_http_line *const l = h->ready[i];

        if (!l)
            continue;
        l->is_ready = false;
        h->ready[i] = NULL;
        (void)step(l);
    }
    h->n_ready -= n;
    for (size_t i = 0; i < h->n_ready; i++)
        h->ready[i] = h->ready[n + i];
}

/* Returns true if there were events of connections. */
static bool receive_events(struct spot_http *h)
{
    struct epoll_event event[EVENTS];
    const int n = epoll_wait(h->fd, event, EVENTS, 0);
    bool is_any = false;
    eventfd_t count;

    for (int i = 0; i < n; i++) {
        if (!event[i].data.ptr) {
            (void)eventfd_read(h->more, &count);
            continue;
        }
        is_any = true;
        if (event[i].data.ptr == h)
            take_new(h);
        else
            on_event(event[i].data.ptr, event[i].events);
    }
    return is_any;
}

void spot_http_run(struct spot_http *h)
{
    const double until_s = spot_clock_s() + run_max_s;
    bool is_any;

    look_for_late(h);
    do {
        is_any = receive_events(h);
        step_ready(h);
    } while ((is_any || h->n_ready) && spot_clock_s() < until_s);
    if (h->n_ready)
        (void)eventfd_write(h->more, 1);
}
