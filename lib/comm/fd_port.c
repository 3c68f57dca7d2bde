/* SPDX-License-Identifier: MIT */
#include "comm/fd_port.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/xalloc.h"

struct fd_port {
    struct spot_port port;
    int in, out;
};

/* Returns 1 on `events` or at the end of the stream, 0 after limit_s. */
static int await(int fd, short events, double limit_s)
{
    const double end_s = spot_clock_s() + limit_s;

    for (;;) {
        struct pollfd p = { .fd = fd, .events = events };
        const double left_s = end_s - spot_clock_s();
        const int n = poll(&p, 1, left_s > 0 ? (int)(left_s * 1000) + 1 : 0);

        if (n > 0)
            return 1;
        if (n == 0 || errno != EINTR)
            return 0;
    }
}

static int read_fd(struct spot_port *port, void *data, size_t n_byte, size_t *got,
                   struct spot_err *err)
{
    struct fd_port *p = (struct fd_port *)port;

    for (;;) {
        const ssize_t n = read(p->in, data, n_byte);

        if (n >= 0) {
            *got = (size_t)n;
            return 0;
        }
        if (errno == EINTR)
            continue;
        if (errno != EAGAIN && errno != EWOULDBLOCK)
            return spot_err_sys(err, "cannot read from the peer");
        if (!await(p->in, POLLIN, port->limit_s))
            return spot_err_set(err, SPOT_ESYS, "the peer was silent for %g s", port->limit_s);
    }
}

/* Avoids SIGPIPE for sockets; writers of pipes must ignore the signal. */
static ssize_t write_some(int fd, const void *data, size_t n_byte)
{
    const ssize_t n = send(fd, data, n_byte, MSG_NOSIGNAL);

    return n < 0 && errno == ENOTSOCK ? write(fd, data, n_byte) : n;
}

static int write_fd(struct spot_port *port, const void *data, size_t n_byte, struct spot_err *err)
{
    struct fd_port *p = (struct fd_port *)port;
    const char *at = data;

    while (n_byte) {
        const ssize_t n = write_some(p->out, at, n_byte);

        if (n >= 0) {
            at += n;
            n_byte -= (size_t)n;
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            if (!await(p->out, POLLOUT, port->limit_s))
                return spot_err_set(err, SPOT_ESYS, "the peer accepted no data for %g s",
                                    port->limit_s);
        } else if (errno != EINTR) {
            return spot_err_sys(err, "cannot write to the peer");
        }
    }
    return 0;
}

static int wait_fd(struct spot_port *port, double limit_s)
{
    return await(((struct fd_port *)port)->in, POLLIN, limit_s);
}

static void close_fd(struct spot_port *port)
{
    struct fd_port *p = (struct fd_port *)port;

    close(p->in);
    if (p->out != p->in)
        close(p->out);
    free(p);
}

static void unblock(int fd)
{
    const int flags = fcntl(fd, F_GETFL);

    if (flags >= 0)
        fcntl(fd, F_SETFL, flags | O_NONBLOCK);
}

struct spot_port *spot_port_fd(int in, int out, double limit_s)
{
    struct fd_port *p = spot_xcalloc(1, sizeof(*p));

    p->port = (struct spot_port){ read_fd, write_fd, wait_fd, close_fd, limit_s };
    p->in = in;
    p->out = out;
    unblock(in);
    unblock(out);
    return &p->port;
}
