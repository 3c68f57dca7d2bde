/* SPDX-License-Identifier: MIT */
#include "cluster/client.h"

#include <math.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>

#include "cluster/find_leader.h"
#include "comm/endpoint.h"
#include "comm/link.h"
#include "common/clock.h"

/* Time limit for the whole answer. STOP is answered when the job has stopped, and a workload's
 * answer may be long. */
static double patience_s(enum spot_message type)
{
    return type == SPOT_MSG_STOP ? SPOT_STOP_PATIENCE_S : type >= SPOT_MSG_CLIENT_FIRST ? 120 : 10;
}

struct question {
    const char *join;
    struct spot_tls_context *tls; /* NULL: no TLS */
    enum spot_message type;
    const void *data;
    size_t n_byte;
    double until_s; /* time limit for everything; for STOP, only for connecting */
    /* > 0: longest time without a connection, then without any part of the answer */
    double silence_s;
};

/* The time after which to give up waiting for an answer. */
static double answer_until_s(const struct question *q)
{
    const double patient_s = spot_clock_s() + patience_s(q->type);

    return q->type == SPOT_MSG_STOP ? patient_s : fmin(q->until_s, patient_s);
}

static int wait_answer(struct spot_link *link, const struct question *q, struct spot_frame **answer,
                       struct spot_err *err)
{
    const double until_s = answer_until_s(q);
    struct spot_frame_list in = { NULL, NULL };
    struct spot_frame *frame;
    int rc;

    for (;;) {
        const double all_s = until_s - spot_clock_s(),
                     left_s = q->silence_s > 0 ? fmin(all_s, q->silence_s) : all_s;
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
    *answer = frame;
    if (frame->type == SPOT_MSG_ANSWER)
        return (int)(frame->tag & 0x7F);
    free(frame);
    *answer = NULL;
    return spot_err_set(err, SPOT_ESYS, "not a job of this version");
}

/* One connection: the job's status, or -1 with *err; *is_sent: the peer may have read the
 * message. */
static int attempt(const struct question *q, struct spot_frame **answer, bool *is_sent,
                   struct spot_err *err)
{
    const double all_s = q->until_s - spot_clock_s(),
                 left_s = q->silence_s > 0 ? fmin(all_s, q->silence_s) : all_s;
    char text[SPOT_ADDRESS_MAX + 8];
    const char *const at = spot_leader_find(q->join, text, err);
    const int fd = at ? spot_endpoint_dial_within(at, q->tls ? SPOT_REACH_NAMES : SPOT_REACH_HERE,
                                                  left_s, NULL, err)
                      : -1;
    struct spot_link link;
    int rc;

    if (fd < 0)
        return -1;
    spot_link_init(&link, fd, SPOT_PAYLOAD_MAX);
    rc = spot_link_secure(&link, q->tls, false, err);
    if (!rc) {
        *is_sent = true;
        rc = spot_link_send(&link, q->type, 0, 0, q->data, q->n_byte, err);
    }
    if (!rc)
        rc = wait_answer(&link, q, answer, err);
    spot_link_release(&link);
    return rc;
}

/* True if another attempt makes sense: a job that has just started may not listen yet, and an
 * overloaded one may close the connection. A peer with an invalid answer is not a job; a plan that
 * a job may have accepted is not sent twice. */
static bool is_worth_another(const struct question *q, bool is_sent, const struct spot_err *err)
{
    return err->code == SPOT_EDATA ||
           (err->code == SPOT_ESYS && (!is_sent || q->type == SPOT_MSG_STATUS));
}

int spot_client_take(const char *join, const char *key_file, double wait_s, double silence_s,
                     enum spot_message type, const void *data, size_t n_byte,
                     struct spot_frame **answer, struct spot_err *err)
{
    const double start_s = spot_clock_s();
    struct question q = {
        .join = join, .type = type, .data = data, .n_byte = n_byte, .silence_s = silence_s
    };
    int rc;

    *answer = NULL;
    if (key_file && !(q.tls = spot_tls_context_load(key_file, err)))
        return -1;
    q.until_s = wait_s > 0 ? start_s + wait_s : INFINITY;
    for (;;) {
        bool is_sent = false;
        double left_s;

        rc = attempt(&q, answer, &is_sent, err);
        left_s = q.until_s - spot_clock_s();
        if (rc >= 0 || !(wait_s > 0 && left_s > 0) || !is_worth_another(&q, is_sent, err))
            break;
        spot_clock_sleep(fmin(left_s, 0.05));
        if (spot_clock_s() >= q.until_s)
            break;
    }
    spot_tls_context_free(q.tls);
    return rc;
}

int spot_client_ask(const char *join, const char *key_file, double wait_s, enum spot_message type,
                    const void *data, size_t n_byte, struct spot_buf *answer, struct spot_err *err)
{
    struct spot_frame *frame;
    const int rc = spot_client_take(join, key_file, wait_s, 0, type, data, n_byte, &frame, err);

    if (frame)
        spot_buf_add(answer, frame->data, frame->n_byte);
    free(frame);
    return rc;
}
