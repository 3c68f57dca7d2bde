/* SPDX-License-Identifier: MIT */
/* Rendezvous over Unix sockets: a receiver announces what it is ready for, then it is sent. */
#define _GNU_SOURCE
#include "nccl/pipe.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { TICK_MS = 2 };

long twin_setting(const char *name, long otherwise)
{
    const char *const text = getenv(name);

    return text && *text ? strtol(text, NULL, 10) : otherwise;
}

/* --- connections ----------------------------------------------------------- */

static socklen_t address_of(const struct twin_pipe *p, int rank, struct sockaddr_un *address)
{
    memset(address, 0, sizeof(*address));
    address->sun_family = AF_UNIX; /* a name without a file: it begins with NUL */
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
                       (size_t)snprintf(address->sun_path + 1, sizeof(address->sun_path) - 1,
                                        "spot-twin-nccl-%016llx-%d", (unsigned long long)p->key,
                                        rank));
}

static void nap(long ms)
{
    nanosleep(&(struct timespec){ ms / 1000, ms % 1000 * 1000000 }, NULL);
}

static bool dial(struct twin_pipe *p, int rank)
{
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_un address;
    const socklen_t n = address_of(p, rank, &address);

    while (fd >= 0 && !p->stop) {
        if (!connect(fd, (struct sockaddr *)&address, n) &&
            write(fd, &p->rank, sizeof(p->rank)) == sizeof(p->rank)) {
            p->peer[rank].fd = fd;
            return true;
        }
        nap(TICK_MS);
    }
    close(fd);
    return false;
}

static bool pick_up(struct twin_pipe *p)
{
    struct pollfd ready = { .fd = p->listener, .events = POLLIN };
    int rank = 0, fd;

    while (!p->stop && poll(&ready, 1, TICK_MS) < 1)
        ;
    fd = p->stop ? -1 : accept4(p->listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0)
        return false;
    if (recv(fd, &rank, sizeof(rank), MSG_WAITALL) != sizeof(rank) || rank <= p->rank ||
        rank >= p->n || p->peer[rank].fd >= 0) {
        close(fd);
        return false;
    }
    p->peer[rank].fd = fd;
    return true;
}

ncclResult_t twin_pipe_connect(struct twin_pipe *p)
{
    struct sockaddr_un address;
    const socklen_t n = address_of(p, p->rank, &address);

    p->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (p->listener < 0 || bind(p->listener, (struct sockaddr *)&address, n) ||
        listen(p->listener, TWIN_RANKS_MAX))
        return ncclSystemError;
    for (int r = 0; r < p->rank; r++)
        if (!dial(p, r))
            return p->stop ? ncclInProgress : ncclSystemError;
    for (int r = p->rank + 1; r < p->n; r++)
        if (!pick_up(p))
            return p->stop ? ncclInProgress : ncclSystemError;
    for (long ms = twin_setting("SPOT_TWIN_NCCL_INIT_MS", 0); ms > 0 && !p->stop; ms -= TICK_MS)
        nap(TICK_MS);
    return p->stop ? ncclInProgress : ncclSuccess;
}

void twin_pipe_close(struct twin_pipe *p)
{
    for (int r = 0; r < p->n; r++)
        if (p->peer[r].fd >= 0)
            close(p->peer[r].fd);
    if (p->listener >= 0)
        close(p->listener);
}

/* --- a batch --------------------------------------------------------------- */

/* The k-th send to, or receive from, a peer. */
static const struct twin_op *nth(const struct twin_op *op, size_t n, int peer, bool is_send,
                                 size_t k)
{
    for (size_t i = 0; i < n; i++)
        if (op[i].peer == peer && op[i].is_send == is_send && !k--)
            return &op[i];
    return NULL;
}

/* What to write next to a peer: announcements first, then sends that it is ready for. */
static ncclResult_t choose_out(struct twin_peer *peer, int rank, const struct twin_op *op, size_t n)
{
    const struct twin_op *next = nth(op, n, rank, false, peer->posted);

    if (peer->out_at < peer->out_end)
        return ncclSuccess;
    peer->out_at = peer->out_end = 0;
    if (next) {
        peer->posted++;
        peer->out = (struct twin_record){ 0, next->n_byte };
        peer->out_end = sizeof(peer->out);
        return ncclSuccess;
    }
    next = nth(op, n, rank, true, peer->sent);
    if (!next || !peer->n_credit)
        return ncclSuccess;
    if (peer->credit[0] != next->n_byte)
        return ncclInvalidUsage;
    memmove(peer->credit, peer->credit + 1, --peer->n_credit * sizeof(peer->credit[0]));
    peer->sent++;
    peer->out = (struct twin_record){ 1, next->n_byte };
    peer->out_data = next->data;
    peer->out_end = sizeof(peer->out) + next->n_byte;
    return ncclSuccess;
}

/* Bytes moved, 0 if none can be now, -1 if the connection is lost. */
static ssize_t moved(ssize_t n, size_t wanted)
{
    if (n > 0 || !wanted)
        return n;
    return n < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : -1;
}

static bool push(struct twin_peer *peer)
{
    const size_t head = sizeof(peer->out), at = peer->out_at;
    const unsigned char *const from =
        at < head ? (const unsigned char *)&peer->out + at : peer->out_data + (at - head);
    const size_t wanted = (at < head ? head : peer->out_end) - at;
    const ssize_t n = moved(send(peer->fd, from, wanted, MSG_DONTWAIT | MSG_NOSIGNAL), wanted);

    peer->out_at += n > 0 ? (size_t)n : 0;
    return n >= 0;
}

static ncclResult_t pull(struct twin_peer *peer, int rank, const struct twin_op *op, size_t n,
                         bool *is_lost)
{
    const size_t head = sizeof(peer->in);
    const struct twin_op *to = nth(op, n, rank, false, peer->received);
    size_t wanted = peer->in_at < head ? head - peer->in_at : peer->in.n_byte + head - peer->in_at;
    unsigned char *const at = peer->in_at < head ? (unsigned char *)&peer->in + peer->in_at
                                                 : to->data + (peer->in_at - head);
    const ssize_t got = moved(recv(peer->fd, at, wanted, MSG_DONTWAIT), wanted);

    *is_lost = got < 0;
    if (got < 0)
        return ncclSuccess;
    peer->in_at += (size_t)got;
    if (peer->in_at < head)
        return ncclSuccess;
    if (!peer->in.is_data) {
        if (peer->n_credit == TWIN_CREDITS_MAX)
            return ncclInternalError;
        peer->credit[peer->n_credit++] = peer->in.n_byte;
        peer->in_at = 0;
    } else if (!to || to->n_byte != peer->in.n_byte) {
        return ncclInvalidUsage;
    } else if (peer->in_at == head + peer->in.n_byte) {
        peer->received++;
        peer->in_at = 0;
    }
    return ncclSuccess;
}

static bool is_done(const struct twin_pipe *p, const struct twin_op *op, size_t n)
{
    for (int r = 0; r < p->n; r++) {
        const struct twin_peer *const peer = &p->peer[r];

        if (peer->out_at < peer->out_end || nth(op, n, r, true, peer->sent) ||
            nth(op, n, r, false, peer->received))
            return false;
    }
    return true;
}

static ncclResult_t lose(struct twin_peer *peer)
{
    close(peer->fd);
    peer->fd = -1; /* from now on it just does not answer */
    return twin_setting("SPOT_TWIN_NCCL_SEES", 0) ? ncclRemoteError : ncclSuccess;
}

static ncclResult_t serve(struct twin_pipe *p, int rank, short events, const struct twin_op *op,
                          size_t n)
{
    struct twin_peer *const peer = &p->peer[rank];
    bool is_lost = false;
    ncclResult_t result = ncclSuccess;

    if (events & (POLLIN | POLLHUP | POLLERR))
        result = pull(peer, rank, op, n, &is_lost);
    if (result == ncclSuccess && !is_lost && (events & POLLOUT) && peer->out_at < peer->out_end)
        is_lost = !push(peer);
    return is_lost ? lose(peer) : result;
}

ncclResult_t twin_pipe_run(struct twin_pipe *p, const struct twin_op *op, size_t n)
{
    struct pollfd poll_[TWIN_RANKS_MAX];

    for (int r = 0; r < p->n; r++)
        p->peer[r].posted = p->peer[r].sent = p->peer[r].received = 0;
    while (!is_done(p, op, n)) {
        ncclResult_t result = ncclSuccess;

        for (int r = 0; result == ncclSuccess && r < p->n; r++) {
            result = choose_out(&p->peer[r], r, op, n);
            poll_[r] = (struct pollfd){ .fd = p->peer[r].fd, .events = POLLIN };
            if (p->peer[r].out_at < p->peer[r].out_end)
                poll_[r].events |= POLLOUT;
        }
        if (result == ncclSuccess && poll(poll_, (nfds_t)p->n, TICK_MS) < 0 && errno != EINTR)
            return ncclSystemError;
        for (int r = 0; result == ncclSuccess && r < p->n; r++)
            if (poll_[r].fd >= 0)
                result = serve(p, r, poll_[r].revents, op, n);
        if (p->stop)
            return ncclInProgress;
        if (result != ncclSuccess)
            return result;
    }
    return ncclSuccess;
}
