/* SPDX-License-Identifier: MIT */
#include "host/rank_socket.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "comm/endpoint.h"
#include "common/buf.h"
#include "common/xalloc.h"

struct client {
    int fd;
    pid_t session;                 /* the rank's session, which each rank leads */
    uint64_t order;                /* counts accepted connections */
    uint64_t ticket;               /* ticket of the request that waits for its answer; 0: none */
    const struct spot_rank_op *op; /* operation of that request */
    struct spot_buf in, out;       /* bytes not parsed yet; [sent, n) not sent yet */
    size_t sent;
    bool has_ended;  /* the client will send no more requests */
    bool is_closing; /* close when everything is sent */
};

struct spot_rank_socket {
    struct spot_endpoint at;
    const struct spot_rank_op *op;
    int listener;
    int64_t round; /* number of the round; -1: none */
    uint64_t last_ticket, last_order;
    struct client client[SPOT_RANK_CLIENTS_MAX + 1];
    size_t n;

    /* writes the current answer */
    struct spot_jw jw;
    char *text;
    size_t n_text;
    struct client *to;
};

struct common {
    const char *op;
    int64_t rank, round, step;
};

static const struct spot_field common_field[] = {
    { "op", SPOT_F_STR, offsetof(struct common, op), NULL, 0, 0, true },
    { "rank", SPOT_F_INT, offsetof(struct common, rank), "1", 0, UINT32_MAX, false },
    { "round", SPOT_F_INT, offsetof(struct common, round), "1", 0, UINT32_MAX, false },
    { "step", SPOT_F_INT, offsetof(struct common, step), "1", 0, 9007199254740992.0, false },
    { 0 },
};

/* --- answers --------------------------------------------------------------------------- */

static void begin_text(struct spot_rank_socket *s)
{
    spot_jw_init(&s->jw, spot_xmemory_open(&s->text, &s->n_text), false);
    spot_jw_object(&s->jw, NULL);
}

/* End the document, including the newline. */
static void end_text(struct spot_rank_socket *s, struct client *to)
{
    spot_jw_end(&s->jw);
    (void)spot_jw_close(&s->jw, NULL);
    spot_xmemory_close(s->jw.out);
    if (to)
        spot_buf_add(&to->out, s->text, s->n_text);
    free(s->text);
    s->text = NULL;
}

static void refuse(struct spot_rank_socket *s, struct client *to, const char *why)
{
    begin_text(s);
    spot_jw_str(&s->jw, "error", why);
    end_text(s, to);
}

static struct client *find(struct spot_rank_socket *s, uint64_t ticket)
{
    for (size_t i = 0; i < s->n; i++)
        if (ticket && s->client[i].ticket == ticket)
            return &s->client[i];
    return NULL;
}

struct spot_jw *spot_rank_socket_begin(struct spot_rank_socket *s, uint64_t ticket)
{
    s->to = find(s, ticket);
    if (!s->to)
        return NULL;
    begin_text(s);
    spot_jw_bool(&s->jw, "ok", true);
    return &s->jw;
}

void spot_rank_socket_end(struct spot_rank_socket *s)
{
    assert(s->to);
    end_text(s, s->to);
    s->to->ticket = 0;
    s->to = NULL;
}

void spot_rank_socket_refuse(struct spot_rank_socket *s, uint64_t ticket, const char *why)
{
    struct client *const to = find(s, ticket);

    if (!to)
        return;
    refuse(s, to, why);
    to->ticket = 0;
}

/* --- requests -------------------------------------------------------------------------- */

static const struct spot_rank_op *find_op(const struct spot_rank_socket *s, const char *name)
{
    for (const struct spot_rank_op *op = s->op; op->name; op++)
        if (!strcmp(op->name, name))
            return op;
    return NULL;
}

static int check_round(const struct spot_rank_socket *s, int64_t round, struct spot_err *err)
{
    if (s->round < 0)
        return spot_err_set(err, SPOT_EPREEMPTED, "no round is running");
    if (round >= 0 && round != s->round)
        return spot_err_set(err, SPOT_EPREEMPTED,
                            "round %lld is over, or not of this job: round %lld is running",
                            (long long)round, (long long)s->round);
    return 0;
}

static int serve(struct spot_rank_socket *s, struct client *c, const struct spot_json_doc *doc,
                 struct spot_err *err)
{
    struct common said = { .rank = -1, .round = -1, .step = -1 };
    struct spot_rank_request request = { .doc = doc };
    int rc;

    if (spot_json_read_fields(doc, doc->root, "", common_field, &said, err) ||
        check_round(s, said.round, err))
        return -1;
    c->op = find_op(s, said.op);
    if (!c->op)
        return spot_json_fail(doc, "/op", err, "there is no '%.40s'", said.op);
    request.rank = said.rank;
    request.step = said.step;
    request.ticket = c->ticket = ++s->last_ticket;
    begin_text(s);
    spot_jw_bool(&s->jw, "ok", true);
    rc = c->op->serve(c->op->user, &request, &s->jw, err);
    end_text(s, rc ? NULL : c);
    if (rc <= 0)
        c->ticket = 0;
    return rc;
}

static void take_line(struct spot_rank_socket *s, struct client *c, const char *text, size_t n)
{
    struct spot_json_doc doc;
    struct spot_err err = { 0 };
    int rc = spot_json_parse(&doc, text, n, "request", &err);

    if (!rc) {
        rc = serve(s, c, &doc, &err);
        spot_json_release(&doc);
    }
    if (rc < 0)
        refuse(s, c, err.msg);
}

/* Handle one line, if a complete one is there and it is its turn. */
static bool take_next(struct spot_rank_socket *s, struct client *c)
{
    const unsigned char *const end = c->in.n && !c->ticket && c->sent == c->out.n && !c->is_closing
                                         ? memchr(c->in.data, '\n', c->in.n)
                                         : NULL;
    size_t n;

    if (!end)
        return false;
    n = (size_t)(end - c->in.data);
    take_line(s, c, (const char *)c->in.data, n);
    c->in.n -= n + 1;
    memmove(c->in.data, end + 1, c->in.n);
    return true;
}

/* --- bytes ------------------------------------------------------------------------------ */

static bool is_full(const struct client *c)
{
    return c->in.n > SPOT_RANK_LINE_MAX;
}

/* False when the client has disconnected. */
static bool receive(struct client *c)
{
    while (!c->has_ended && !is_full(c)) {
        unsigned char *const room = spot_buf_more(&c->in, SPOT_RANK_LINE_MAX + 1 - c->in.n);
        const ssize_t n = read(c->fd, room, SPOT_RANK_LINE_MAX + 1 - c->in.n);

        if (n < 0)
            return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
        c->has_ended = !n;
        c->in.n += (size_t)n;
    }
    return true;
}

static bool send_out(struct client *c)
{
    while (c->sent < c->out.n) {
        const ssize_t n = write(c->fd, c->out.data + c->sent, c->out.n - c->sent);

        if (n < 0)
            return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
        c->sent += (size_t)n;
    }
    c->sent = c->out.n = 0;
    return true;
}

/* True if the client has closed both directions; one that only ended its requests still waits for
 * answers. */
static bool has_hung_up(const struct client *c)
{
    struct pollfd set = { .fd = c->fd };

    return poll(&set, 1, 0) > 0 && (set.revents & (POLLHUP | POLLERR | POLLNVAL));
}

/* Serve a client. False when it is finished. */
static bool turn(struct spot_rank_socket *s, struct client *c)
{
    if (!c->ticket && !receive(c))
        return false;
    if (c->ticket && has_hung_up(c))
        return false;
    do
        if (!send_out(c))
            return false;
    while (take_next(s, c));
    if (is_full(c) && !c->ticket && !c->is_closing && c->sent == c->out.n &&
        !memchr(c->in.data, '\n', c->in.n)) {
        refuse(s, c, "a request is one line of at most 65536 bytes");
        c->is_closing = true;
        return send_out(c) && c->sent < c->out.n;
    }
    return c->ticket || c->sent < c->out.n || !(c->has_ended || c->is_closing);
}

static void drop(struct spot_rank_socket *s, size_t i)
{
    struct client c = s->client[i];

    s->client[i] = s->client[--s->n];
    close(c.fd);
    spot_buf_release(&c.in);
    spot_buf_release(&c.out);
    if (c.ticket && c.op->gone)
        c.op->gone(c.op->user, c.ticket);
}

/* --- fair shares of connections --- */

static size_t count_of(const struct spot_rank_socket *s, pid_t session)
{
    size_t n = 0;

    for (size_t i = 0; i < s->n; i++)
        n += s->client[i].session == session;
    return n;
}

/* Find the session with the most connections. Returns their number; 0 leaves *session unset. */
static size_t largest(const struct spot_rank_socket *s, pid_t *session)
{
    size_t most = 0;

    for (size_t i = 0; i < s->n; i++) {
        const size_t n = count_of(s, s->client[i].session);

        if (n > most) {
            most = n;
            *session = s->client[i].session;
        }
    }
    return most;
}

/* True if a connection is free, or can be freed. */
static bool may_take(const struct spot_rank_socket *s)
{
    pid_t session;

    return s->n < SPOT_RANK_CLIENTS_MAX || largest(s, &session) > SPOT_RANK_SHARE_MAX;
}

/* Choose the connection to close: preferably one that waits for no answer; of these the oldest. */
static size_t least_missed(const struct spot_rank_socket *s, pid_t session)
{
    size_t found = s->n;

    for (size_t i = 0; i < s->n; i++) {
        const struct client *const c = &s->client[i], *const best = &s->client[found];

        if (c->session == session && (found == s->n || (!c->ticket && best->ticket) ||
                                      (!c->ticket == !best->ticket && c->order < best->order)))
            found = i;
    }
    return found;
}

static void turn_away(struct spot_rank_socket *s, size_t i)
{
    refuse(s, &s->client[i], "this rank has most connections of all, and others wait");
    (void)send_out(&s->client[i]);
    drop(s, i);
}

/* Accept a connection. If all are in use, the session with the most connections loses one. */
static void admit(struct spot_rank_socket *s, int fd)
{
    const pid_t process = spot_endpoint_process(fd);
    const pid_t session = process > 0 ? getsid(process) : 0;
    pid_t who = 0;

    s->client[s->n++] = (struct client){ .fd = fd, .session = session, .order = ++s->last_order };
    if (s->n <= SPOT_RANK_CLIENTS_MAX)
        return;
    (void)largest(s, &who);
    turn_away(s, who == session ? s->n - 1 : least_missed(s, who));
}

static void take_in(struct spot_rank_socket *s)
{
    int fd;

    for (int i = 0; i < SPOT_RANK_CLIENTS_MAX && may_take(s); i++) {
        fd = spot_endpoint_accept(s->listener);
        if (fd < 0)
            break;
        admit(s, fd);
    }
}

/* --- all of it --- */

struct spot_rank_socket *spot_rank_socket_new(const char *path, const struct spot_rank_op *op,
                                              struct spot_err *err)
{
    struct spot_rank_socket *const s = spot_xcalloc(1, sizeof(*s));
    char text[4096];

    s->op = op;
    s->round = -1;
    s->listener = -1;
    snprintf(text, sizeof(text), "unix:%s", path);
    if (!spot_endpoint_parse(text, &s->at, err))
        s->listener = spot_endpoint_listen(&s->at, err);
    if (s->listener >= 0)
        return s;
    free(s);
    return NULL;
}

void spot_rank_socket_free(struct spot_rank_socket *s)
{
    if (!s)
        return;
    while (s->n)
        drop(s, s->n - 1);
    spot_endpoint_unlisten(&s->at, s->listener);
    free(s);
}

void spot_rank_socket_set_round(struct spot_rank_socket *s, int64_t round)
{
    if (s->round == round)
        return;
    s->round = round;
    for (size_t i = 0; i < s->n; i++) {
        struct client *const c = &s->client[i];
        const uint64_t ticket = c->ticket;

        if (!ticket)
            continue;
        spot_rank_socket_refuse(s, ticket, "the round is over");
        if (c->op->gone)
            c->op->gone(c->op->user, ticket);
    }
}

size_t spot_rank_socket_wanted(const struct spot_rank_socket *s, struct pollfd *set)
{
    size_t n = 0;

    if (may_take(s))
        set[n++] = (struct pollfd){ .fd = s->listener, .events = POLLIN };
    for (size_t i = 0; i < s->n; i++) {
        const struct client *const c = &s->client[i];
        const bool listens = !c->ticket && !c->has_ended && !is_full(c);

        set[n++] = (struct pollfd){ .fd = c->fd,
                                    .events = (short)((listens ? POLLIN : 0) |
                                                      (c->sent < c->out.n ? POLLOUT : 0)) };
    }
    return n;
}

void spot_rank_socket_turn(struct spot_rank_socket *s)
{
    take_in(s);
    for (size_t i = s->n; i-- > 0;)
        if (i < s->n && !turn(s, &s->client[i]))
            drop(s, i);
}
