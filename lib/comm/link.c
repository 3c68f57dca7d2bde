/* SPDX-License-Identifier: MIT */
#include "comm/link.h"

#include <errno.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "common/le.h"
#include "common/xalloc.h"

static const uint32_t magic = 0x31544F50; /* "POT1" */

static void write_header(uint8_t *at, uint32_t type, uint32_t epoch, uint64_t tag, size_t n_byte)
{
    spot_le_put(at, magic, 4);
    spot_le_put(at + 4, type, 4);
    spot_le_put(at + 8, epoch, 4);
    spot_le_put(at + 12, 0, 4);
    spot_le_put(at + 16, tag, 8);
    spot_le_put(at + 24, n_byte, 8);
}

/* Creates a frame with room for the payload, or without if it is lent. */
static struct spot_frame *make_frame(uint32_t type, uint32_t epoch, uint64_t tag, size_t n_byte,
                                     const void *lent)
{
    struct spot_frame *frame = malloc(sizeof(*frame) + (lent ? 0 : n_byte));

    if (!frame)
        return NULL;
    spot_prefer_huge_pages(frame, lent ? 0 : n_byte);
    frame->next = NULL;
    frame->type = type;
    frame->epoch = epoch;
    frame->tag = tag;
    frame->n_byte = n_byte;
    frame->lent = lent;
    frame->given = NULL;
    write_header(frame->header, type, epoch, tag, n_byte);
    return frame;
}

struct spot_frame *spot_frame_new(uint32_t type, uint32_t epoch, uint64_t tag, size_t n_byte)
{
    return make_frame(type, epoch, tag, n_byte, NULL);
}

void spot_frame_push(struct spot_frame_list *list, struct spot_frame *frame_take)
{
    frame_take->next = NULL;
    if (list->tail)
        list->tail->next = frame_take;
    else
        list->head = frame_take;
    list->tail = frame_take;
}

struct spot_frame *spot_frame_pop(struct spot_frame_list *list)
{
    struct spot_frame *frame = list->head;

    if (!frame)
        return NULL;
    list->head = frame->next;
    if (!list->head)
        list->tail = NULL;
    frame->next = NULL;
    return frame;
}

static void free_frame(struct spot_frame *frame)
{
    free(frame->given);
    free(frame);
}

void spot_frame_list_release(struct spot_frame_list *list)
{
    struct spot_frame *frame;

    while ((frame = spot_frame_pop(list)))
        free_frame(frame);
}

void spot_link_init(struct spot_link *link, int fd_take, size_t payload_max)
{
    memset(link, 0, sizeof(*link));
    link->fd = fd_take;
    link->payload_max = payload_max;
}

int spot_link_secure(struct spot_link *link, const struct spot_tls_context *key, bool is_server,
                     struct spot_err *err)
{
    const int fd = link->fd;

    if (!key)
        return 0;
    link->fd = -1;
    link->tls = spot_tls_start(fd, is_server, key, err);
    if (!link->tls)
        return -1;
    link->fd = fd;
    return 0;
}

void spot_link_close(struct spot_link *link)
{
    if (link->tls)
        spot_tls_free(link->tls);
    else if (link->fd >= 0)
        close(link->fd);
    link->tls = NULL;
    link->fd = -1;
}

void spot_link_shutdown(struct spot_link *link)
{
    if (link->fd >= 0)
        shutdown(link->fd, SHUT_RDWR);
}

void spot_link_release(struct spot_link *link)
{
    spot_link_close(link);
    free(link->arriving);
    spot_frame_list_release(&link->sending);
    memset(link, 0, sizeof(*link));
    link->fd = -1;
}

/* Reports the end of the connection, clean or not (errno). If a TLS alert arrived in place of a
 * frame, the other side requires a key. */
static int report_end(const struct spot_link *link, bool is_clean, struct spot_err *err)
{
    if (!link->tls && !link->arriving && link->n_header >= 2 && link->header[0] == 0x15 &&
        link->header[1] == 3)
        return spot_err_set(err, SPOT_EINFEASIBLE, "the peer requires a key: --key-file");
    if (!is_clean)
        return spot_err_sys(err, "cannot receive");
    return spot_err_set(err, SPOT_ESYS, "the peer has closed the connection");
}

/* Reads bytes. Returns their number, 0 if none are available now, -1 with *err at the end or on
 * failure. */
static ssize_t read_some(struct spot_link *link, void *at, size_t n, struct spot_err *err)
{
    if (link->tls)
        return spot_tls_recv(link->tls, at, n, err);
    for (;;) {
        const ssize_t got = recv(link->fd, at, n, 0);

        if (got > 0)
            return got;
        if (!got)
            return report_end(link, true, err);
        if (errno == EAGAIN || errno == EWOULDBLOCK)
            return 0;
        if (errno != EINTR)
            return report_end(link, false, err);
    }
}

/* Call when the header is complete: checks it, and allocates the payload. */
static int start_payload(struct spot_link *link, struct spot_err *err)
{
    const uint8_t *h = link->header;
    const uint64_t n_byte = spot_le_get(h + 24, 8);

    if ((uint32_t)spot_le_get(h, 4) != magic || (uint32_t)spot_le_get(h + 12, 4) != 0)
        return spot_err_set(err, SPOT_EDATA, "not a frame of this protocol");
    if (n_byte > link->payload_max)
        return spot_err_set(err, SPOT_EDATA, "a frame of %llu bytes, the limit is %zu",
                            (unsigned long long)n_byte, link->payload_max);
    link->arriving =
        spot_frame_new((uint32_t)spot_le_get(h + 4, 4), (uint32_t)spot_le_get(h + 8, 4),
                       spot_le_get(h + 16, 8), (size_t)n_byte);
    if (!link->arriving)
        return spot_err_set(err, SPOT_ESYS, "no memory for a frame of %llu bytes",
                            (unsigned long long)n_byte);
    link->n_payload = 0;
    return 0;
}

/* True when a call should return, so that one fast peer does not block the others; not while TLS
 * has buffered bytes, which poll() does not report. */
static bool has_had_its_turn(const struct spot_link *link, size_t n_byte)
{
    return n_byte >= SPOT_LINK_TURN && !(link->tls && spot_tls_pending(link->tls));
}

int spot_link_read(struct spot_link *link, struct spot_frame_list *in, struct spot_err *err)
{
    size_t n_read = 0;

    while (!has_had_its_turn(link, n_read)) {
        struct spot_frame *f = link->arriving;
        ssize_t got;

        if (!f) {
            got = read_some(link, link->header + link->n_header, SPOT_FRAME_HEADER - link->n_header,
                            err);
            if (got <= 0)
                return (int)got;
            link->n_header += (size_t)got;
            n_read += (size_t)got;
            if (link->n_header == SPOT_FRAME_HEADER && start_payload(link, err))
                return -1;
            continue;
        }
        if (link->n_payload < f->n_byte) {
            got = read_some(link, f->data + link->n_payload, f->n_byte - link->n_payload, err);
            if (got <= 0)
                return (int)got;
            link->n_payload += (size_t)got;
            n_read += (size_t)got;
        }
        if (link->n_payload == f->n_byte) {
            spot_frame_push(in, f);
            link->arriving = NULL;
            link->n_header = 0;
            if (link->is_stranger)
                return 0; /* read no more until the peer is identified */
        }
    }
    return 0;
}

/* Makes one sendmsg call from byte `done` on. Returns the bytes sent, 0 if none can be sent now, -1
 * with *err. */
static ssize_t write_some(struct spot_link *link, const uint8_t *header, const uint8_t *data,
                          size_t n_byte, size_t done, struct spot_err *err)
{
    const size_t from = done < SPOT_FRAME_HEADER ? 0 : done - SPOT_FRAME_HEADER;
    struct iovec part[2];
    struct msghdr msg = { .msg_iov = part };
    ssize_t got;

    /* the cast is safe: sendmsg does not write through its iovec */
    if (done < SPOT_FRAME_HEADER)
        part[msg.msg_iovlen++] = (struct iovec){ .iov_base = (void *)(uintptr_t)(header + done),
                                                 .iov_len = SPOT_FRAME_HEADER - done };
    if (n_byte)
        part[msg.msg_iovlen++] = (struct iovec){ .iov_base = (void *)(uintptr_t)(data + from),
                                                 .iov_len = n_byte - from };
    do
        got = sendmsg(link->fd, &msg, MSG_NOSIGNAL);
    while (got < 0 && errno == EINTR);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        return 0;
    return got < 0 ? spot_err_sys(err, "cannot send") : got;
}

/* The same as one TLS record. A record that was not taken is offered again with the same bytes. */
static ssize_t write_record(struct spot_link *link, const uint8_t *header, const uint8_t *data,
                            size_t n_byte, size_t done, struct spot_err *err)
{
    enum { RECORD_BYTE = 16384 };
    const size_t n_head = done < SPOT_FRAME_HEADER ? SPOT_FRAME_HEADER - done : 0;
    const size_t from = n_head ? 0 : done - SPOT_FRAME_HEADER, room = RECORD_BYTE - n_head;
    const size_t n_data = n_byte - from < room ? n_byte - from : room;
    uint8_t record[RECORD_BYTE];

    if (!n_head)
        return spot_tls_send(link->tls, data + from, n_data, err);
    memcpy(record, header + done, n_head);
    if (n_data)
        memcpy(record + n_head, data, n_data);
    return spot_tls_send(link->tls, record, n_head + n_data, err);
}

/* Write header and payload from byte `done` on, for one turn; returns the new `done`, -1 with
 * *err. */
static ssize_t write_from(struct spot_link *link, const uint8_t *header, const uint8_t *data,
                          size_t n_byte, size_t done, struct spot_err *err)
{
    const size_t end = done + SPOT_LINK_TURN;

    while (done < SPOT_FRAME_HEADER + n_byte && done < end) {
        const ssize_t got =
            (link->tls ? write_record : write_some)(link, header, data, n_byte, done, err);

        if (got < 0)
            return -1;
        if (!got)
            break;
        done += (size_t)got;
    }
    return (ssize_t)done;
}

int spot_link_flush(struct spot_link *link, struct spot_err *err)
{
    struct spot_frame *f;
    size_t n_written = 0;

    if (link->tls && spot_tls_shake(link->tls, err))
        return -1;
    while ((f = link->sending.head) && n_written < SPOT_LINK_TURN) {
        const ssize_t done =
            write_from(link, f->header, f->lent ? f->lent : f->data, f->n_byte, link->n_sent, err);

        if (done < 0)
            return -1;
        n_written += (size_t)done - link->n_sent;
        link->n_sent = (size_t)done;
        if (link->n_sent < SPOT_FRAME_HEADER + f->n_byte)
            return 0;
        free_frame(spot_frame_pop(&link->sending));
        link->n_sent = 0;
    }
    return 0;
}

static int no_memory(size_t n_byte, struct spot_err *err)
{
    return spot_err_set(err, SPOT_ESYS, "no memory for a frame of %zu bytes", n_byte);
}

/* *queued: the frame of what is still to be sent; NULL if nothing is. */
static int send_payload(struct spot_link *link, uint32_t type, uint32_t epoch, uint64_t tag,
                        const void *data, size_t n_byte, bool is_lent, struct spot_frame **queued,
                        struct spot_err *err)
{
    uint8_t header[SPOT_FRAME_HEADER];
    struct spot_frame *rest;
    ssize_t done = 0;

    *queued = NULL;
    write_header(header, type, epoch, tag, n_byte);
    if (!link->sending.head) {
        done = write_from(link, header, data, n_byte, 0, err);
        if (done < 0)
            return -1;
        if ((size_t)done == SPOT_FRAME_HEADER + n_byte)
            return 0;
        link->n_sent = (size_t)done;
    }
    rest = make_frame(type, epoch, tag, n_byte, is_lent ? data : NULL);
    if (!rest)
        return no_memory(n_byte, err);
    if (n_byte && !is_lent)
        memcpy(rest->data, data, n_byte);
    spot_frame_push(&link->sending, rest);
    *queued = rest;
    return 0;
}

int spot_link_send(struct spot_link *link, uint32_t type, uint32_t epoch, uint64_t tag,
                   const void *data, size_t n_byte, struct spot_err *err)
{
    struct spot_frame *queued;

    return send_payload(link, type, epoch, tag, data, n_byte, false, &queued, err);
}

int spot_link_lend(struct spot_link *link, uint32_t type, uint32_t epoch, uint64_t tag,
                   const void *data, size_t n_byte, struct spot_err *err)
{
    struct spot_frame *queued;

    return send_payload(link, type, epoch, tag, data, n_byte, true, &queued, err);
}

int spot_link_submit(struct spot_link *link, uint32_t type, uint32_t epoch, uint64_t tag,
                     struct spot_buf *data_take, struct spot_err *err)
{
    const struct spot_buf data = *data_take;

    struct spot_frame *queued;
    int rc;

    memset(data_take, 0, sizeof(*data_take));
    rc = send_payload(link, type, epoch, tag, data.data, data.n, true, &queued, err);
    if (queued)
        queued->given = data.data;
    else
        free(data.data);
    return rc;
}

/* Replaces a frame that borrows its payload by one with a copy; NULL with *err. */
static struct spot_frame *own(struct spot_frame *frame_take, struct spot_err *err)
{
    struct spot_frame *copy =
        spot_frame_new(frame_take->type, frame_take->epoch, frame_take->tag, frame_take->n_byte);

    if (copy)
        memcpy(copy->data, frame_take->lent, frame_take->n_byte);
    else
        no_memory(frame_take->n_byte, err);
    free(frame_take);
    return copy;
}

int spot_link_keep(struct spot_link *link, uint32_t over_below, struct spot_err *err)
{
    struct spot_frame_list kept = { NULL, NULL };
    bool may_have_begun = true; /* the first frame: TLS may still be sending a part of it */
    struct spot_frame *frame;
    int rc = 0;

    for (; (frame = spot_frame_pop(&link->sending)); may_have_begun = false) {
        if (frame->lent && !may_have_begun && frame->epoch < over_below) {
            free_frame(frame);
            continue;
        }
        if (frame->lent && !frame->given)
            frame = own(frame, err);
        if (frame)
            spot_frame_push(&kept, frame);
        else
            rc = -1;
    }
    link->sending = kept;
    return rc;
}

size_t spot_link_queued(const struct spot_link *link)
{
    size_t n = 0;

    for (const struct spot_frame *f = link->sending.head; f; f = f->next)
        n += f->n_byte;
    return n;
}

size_t spot_link_left(const struct spot_link *link)
{
    const size_t n_sent = link->n_sent > SPOT_FRAME_HEADER ? link->n_sent - SPOT_FRAME_HEADER : 0;

    return spot_link_queued(link) - n_sent;
}

bool spot_link_wants_write(const struct spot_link *link)
{
    const bool has_more = link->sending.head != NULL;

    return link->tls ? spot_tls_wants_write(link->tls, has_more) : has_more;
}

double spot_link_round_trip_s(const struct spot_link *link)
{
    struct tcp_info info = { 0 };
    socklen_t n = sizeof(info);

    if (link->fd < 0 || getsockopt(link->fd, IPPROTO_TCP, TCP_INFO, &info, &n) ||
        info.tcpi_min_rtt == UINT32_MAX)
        return 0;
    return info.tcpi_min_rtt * 1e-6;
}
