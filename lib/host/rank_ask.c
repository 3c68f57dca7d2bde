/* SPDX-License-Identifier: MIT */
#include "host/rank_ask.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "comm/endpoint.h"

/* Until the descriptor can go on. */
static int wait_for(int fd, short events, struct spot_err *err)
{
    struct pollfd set = { .fd = fd, .events = events };

    if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)
        return spot_err_sys(err, "the agent is gone");
    while (poll(&set, 1, -1) < 0)
        if (errno != EINTR)
            return spot_err_sys(err, "cannot wait for the agent");
    return 0;
}

static int send_line(int fd, const char *text, size_t n, struct spot_err *err)
{
    for (size_t sent = 0; sent <= n;) { /* the newline is behind the text */
        const ssize_t rc = sent < n ? write(fd, text + sent, n - sent) : write(fd, "\n", 1);

        if (rc < 0 && wait_for(fd, POLLOUT, err))
            return -1;
        sent += rc > 0 ? (size_t)rc : 0;
    }
    return 0;
}

static int receive_line(int fd, struct spot_buf *answer, struct spot_err *err)
{
    for (;;) {
        unsigned char *const room = spot_buf_more(answer, 4096);
        const ssize_t n = read(fd, room, 4096);
        const unsigned char *const end = n > 0 ? memchr(room, '\n', (size_t)n) : NULL;

        if (end) {
            answer->n += (size_t)(end - room);
            return 0;
        }
        if (!n)
            return spot_err_set(err, SPOT_ESYS, "the agent is gone");
        if (n < 0 && wait_for(fd, POLLIN, err))
            return -1;
        answer->n += n > 0 ? (size_t)n : 0;
        if (answer->n > SPOT_RANK_ANSWER_MAX)
            return spot_err_set(err, SPOT_EDATA, "the agent's answer is longer than %d bytes",
                                SPOT_RANK_ANSWER_MAX);
    }
}

int spot_rank_ask(const char *path, const char *request, size_t n_byte, struct spot_buf *answer,
                  struct spot_err *err)
{
    struct spot_endpoint at = { .kind = SPOT_ENDPOINT_UNIX };
    int fd, rc;

    if (strlen(path) >= sizeof(at.path))
        return spot_err_set(err, SPOT_ESYS, "'%.200s' is too long for the name of a socket", path);
    strcpy(at.path, path);
    fd = spot_endpoint_connect(&at, err);
    if (fd < 0)
        return -1;
    answer->n = 0;
    rc = send_line(fd, request, n_byte, err) || receive_line(fd, answer, err) ? -1 : 0;
    close(fd);
    return rc;
}
