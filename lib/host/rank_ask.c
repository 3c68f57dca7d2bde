/* SPDX-License-Identifier: MIT */
#include "host/rank_ask.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "comm/endpoint.h"
#include "common/clock.h"

struct peer {
    int fd;
    double limit_s, until_s;
};

/* Wait until the socket is ready. */
static int wait_for(const struct peer *p, short events, struct spot_err *err)
{
    struct pollfd set = { .fd = p->fd, .events = events };
    double left_s;

    if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)
        return spot_err_sys(err, "the agent of this node has ended");
    while ((left_s = p->until_s - spot_clock_s()) > 0) {
        const int rc = poll(&set, 1, (int)fmin(ceil(1e3 * left_s), 1e6));

        if (rc > 0)
            return 0;
        if (rc < 0 && errno != EINTR)
            return spot_err_sys(err, "cannot wait for the agent of this node");
    }
    return spot_err_set(err, SPOT_ESYS, "no answer within %g s", p->limit_s);
}

static int send_line(const struct peer *p, const char *text, size_t n, struct spot_err *err)
{
    for (size_t sent = 0; sent <= n;) { /* the newline follows the text */
        const ssize_t rc = sent < n ? write(p->fd, text + sent, n - sent) : write(p->fd, "\n", 1);

        if (rc < 0 && wait_for(p, POLLOUT, err))
            return -1;
        sent += rc > 0 ? (size_t)rc : 0;
    }
    return 0;
}

static int receive_line(const struct peer *p, struct spot_buf *answer, struct spot_err *err)
{
    for (;;) {
        unsigned char *const room = spot_buf_more(answer, 4096);
        const ssize_t n = read(p->fd, room, 4096);
        const unsigned char *const end = n > 0 ? memchr(room, '\n', (size_t)n) : NULL;

        if (end) {
            answer->n += (size_t)(end - room);
            return 0;
        }
        if (!n)
            return spot_err_set(err, SPOT_ESYS, "the agent of this node has ended");
        if (n < 0 && wait_for(p, POLLIN, err))
            return -1;
        answer->n += n > 0 ? (size_t)n : 0;
        if (answer->n > SPOT_RANK_ANSWER_MAX)
            return spot_err_set(err, SPOT_EDATA, "the agent's answer is longer than %d bytes",
                                SPOT_RANK_ANSWER_MAX);
    }
}

int spot_rank_ask(const char *path, const char *request, size_t n_byte, double limit_s,
                  struct spot_buf *answer, struct spot_err *err)
{
    struct peer p = { .limit_s = limit_s, .until_s = spot_clock_s() + limit_s };
    struct spot_endpoint at = { .kind = SPOT_ENDPOINT_UNIX };
    int rc;

    if (strlen(path) >= sizeof(at.path))
        return spot_err_set(err, SPOT_ESYS, "'%.200s' is too long for the name of a socket", path);
    strcpy(at.path, path);
    p.fd = spot_endpoint_connect(&at, err);
    if (p.fd < 0)
        return -1;
    answer->n = 0;
    rc = send_line(&p, request, n_byte, err) || receive_line(&p, answer, err) ? -1 : 0;
    close(p.fd);
    return rc;
}
