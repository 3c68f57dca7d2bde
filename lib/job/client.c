/* SPDX-License-Identifier: MIT */
#include "job/client.h"

#include <poll.h>
#include <stdlib.h>

#include "comm/endpoint.h"
#include "comm/link.h"
#include "common/clock.h"

/* For the whole answer; a job that is to stop says so when it has. */
static double patience_s(enum spot_message type)
{
    return type == SPOT_MSG_STOP ? 86400 : 10;
}

static int wait_answer(struct spot_link *link, double wait_s, struct spot_buf *answer,
                       struct spot_err *err)
{
    const double until_s = spot_clock_s() + wait_s;
    struct spot_frame_list in = { NULL, NULL };
    struct spot_frame *frame;
    int rc;

    for (;;) {
        const double left_s = until_s - spot_clock_s();
        struct pollfd set = { .fd = link->fd,
                              .events =
                                  (short)(POLLIN | (spot_link_wants_write(link) ? POLLOUT : 0)) };

        if (left_s <= 0 || poll(&set, 1, (int)(1e3 * left_s) + 1) == 0)
            return spot_err_set(err, SPOT_ESYS, "the job does not answer");
        if ((set.revents & POLLOUT) && spot_link_flush(link, err))
            return -1;
        rc = set.revents & (POLLIN | POLLHUP | POLLERR) ? spot_link_read(link, &in, err) : 0;
        frame = spot_frame_pop(&in);
        spot_frame_list_release(&in);
        if (frame)
            break;
        if (rc)
            return -1;
    }
    rc = frame->type == SPOT_MSG_ANSWER
             ? (int)(frame->tag & 0x7F)
             : spot_err_set(err, SPOT_ESYS, "this is no job of this version");
    spot_buf_add(answer, frame->data, frame->n_byte);
    free(frame);
    return rc;
}

/* A job that has just been started may not listen yet. */
static int dial(const char *join, enum spot_reach reach, double wait_s, struct spot_err *err)
{
    const double until_s = spot_clock_s() + wait_s;
    int fd;

    while ((fd = spot_endpoint_dial(join, reach, NULL, err)) < 0 && err->code == SPOT_ESYS &&
           spot_clock_s() < until_s)
        spot_clock_sleep(0.05);
    return fd;
}

int spot_client_ask(const char *join, const char *key_file, double wait_s, enum spot_message type,
                    const void *data, size_t n_byte, struct spot_buf *answer, struct spot_err *err)
{
    struct spot_tls_context *tls = NULL;
    struct spot_link link;
    int fd, rc;

    if (key_file && !(tls = spot_tls_context_load(key_file, err)))
        return -1;
    fd = dial(join, tls ? SPOT_REACH_NAMES : SPOT_REACH_HERE, wait_s, err);
    if (fd < 0) {
        spot_tls_context_free(tls);
        return -1;
    }
    spot_link_init(&link, fd, SPOT_PAYLOAD_MAX);
    rc = spot_link_secure(&link, tls, false, err);
    if (!rc)
        rc = spot_link_send(&link, type, 0, 0, data, n_byte, err);
    if (!rc)
        rc = wait_answer(&link, patience_s(type), answer, err);
    spot_link_release(&link);
    spot_tls_context_free(tls);
    return rc;
}
