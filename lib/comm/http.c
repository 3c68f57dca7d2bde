/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* POLLRDHUP */
#include "comm/http.h"

#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "comm/endpoint.h"
#include "comm/http_framing.h"
#include "comm/mhd_state.h"
#include "common/clock.h"
#include "common/xalloc.h"

enum { HEADER_BYTE = 32 << 10, BLOCK = 4 << 10, HEADERS_MAX = 4, PEM_MAX = 1 << 20 };
enum { SMALL_BODY = 64 << 10 }; /* is read although not needed */

static const double look_every_s = 0.25;     /* whether clients that wait are still there */
static const double run_max_s = 0.01;        /* per run: the caller has other work too */
static const double body_byte_per_s = 16384; /* a body that comes slower is not waited for */

struct spot_http {
    struct spot_http_options options;
    struct MHD_Daemon *daemon;
    struct spot_endpoint endpoint;
    bool has_path; /* of a Unix socket, to be removed */
    int fd, more;  /* polling fd covers libmicrohttpd's, and work left to do */
    char *cert, *key;
    struct spot_http_call *first; /* all calls, a list */
    struct line *line;            /* all connections, a list */
    double looked_s;
    size_t n_held; /* bytes that bodies take */
};

/* A connection. Limiting silence is not enough: a peer may send a byte now and then. */
struct line {
    struct line *next, *before;
    struct MHD_Connection *connection;
    double due_s; /* a call must be there whole by then; INFINITY: it is */
};

enum call_state {
    CALL_READING,  /* its body comes */
    CALL_WAITING,  /* for an answer; the connection is suspended unless `called` is running */
    CALL_ANSWERED, /* there is an answer that waits for its turn */
    CALL_SENDING,
};

struct spot_http_call {
    struct spot_http *http;
    struct spot_http_call *next, *before;
    struct MHD_Connection *connection;
    enum call_state state;
    char *method, *path;
    struct spot_buf body;
    size_t n_refused; /* bytes behind what a body may have */
    bool is_told;     /* `called` was */
    bool is_suspended, is_lost;
    unsigned refusal; /* of the body: a status; 0: none */
    void *data;
    struct MHD_Response *response;
    unsigned status;
    const char *content_type; /* of a stream */
    spot_http_pull pull;
    struct {
        char *name, *value;
    } header[HEADERS_MAX];
    size_t n_header;
};

/* --- connections ---------------------------------------------------------------- */

static struct line *line_of(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *const info =
        spot_mhd.get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

    return info ? info->socket_context : NULL;
}

static void set_due(struct MHD_Connection *connection, double due_s)
{
    struct line *const line = line_of(connection);

    if (line)
        line->due_s = due_s;
}

static void connected(void *cls, struct MHD_Connection *connection, void **context,
                      enum MHD_ConnectionNotificationCode code)
{
    struct spot_http *const h = cls;
    struct line *line = *context;

    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        *context = line = spot_xcalloc(1, sizeof(*line));
        *line = (struct line){ .next = h->line,
                               .connection = connection,
                               .due_s = spot_clock_s() + h->options.idle_s };
        if (h->line)
            h->line->before = line;
        h->line = line;
        return;
    }
    if (line->next)
        line->next->before = line->before;
    *(line->before ? &line->before->next : &h->line) = line->next;
    free(line);
}

static int socket_of(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *const info =
        spot_mhd.get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);

    return info ? info->connect_fd : -1;
}

/* libmicrohttpd sees that as a client that has hung up. */
static void hang_up_on_slow(struct spot_http *h, double now_s)
{
    for (struct line *line = h->line; line; line = line->next)
        if (now_s > line->due_s) {
            line->due_s = INFINITY;
            shutdown(socket_of(line->connection), SHUT_RDWR);
        }
}

/* --- a call ------------------------------------------------------------------ */

const char *spot_http_method(const struct spot_http_call *call)
{
    return call->method;
}

const char *spot_http_path(const struct spot_http_call *call)
{
    return call->path;
}

const char *spot_http_header(const struct spot_http_call *call, const char *name)
{
    return spot_mhd.lookup_connection_value(call->connection, MHD_HEADER_KIND, name);
}

const struct spot_buf *spot_http_body(const struct spot_http_call *call)
{
    return &call->body;
}

void spot_http_set_data(struct spot_http_call *call, void *data)
{
    call->data = data;
}

void *spot_http_data(const struct spot_http_call *call)
{
    return call->data;
}

bool spot_http_is_answered(const struct spot_http_call *call)
{
    return call->state >= CALL_ANSWERED;
}

void spot_http_add_header(struct spot_http_call *call, const char *name, const char *value)
{
    if (call->n_header == HEADERS_MAX)
        return;
    call->header[call->n_header].name = spot_xstrdup(name);
    call->header[call->n_header++].value = spot_xstrdup(value);
}

static struct spot_http_call *add_call(struct spot_http *h, struct MHD_Connection *connection,
                                       const char *method, const char *path)
{
    struct spot_http_call *const call = spot_xcalloc(1, sizeof(*call));

    *call = (struct spot_http_call){ .http = h, .connection = connection, .next = h->first };
    call->method = spot_xstrdup(method);
    call->path = spot_xstrdup(path);
    if (h->first)
        h->first->before = call;
    h->first = call;
    return call;
}

static void drop_body(struct spot_http_call *call)
{
    call->http->n_held -= call->body.cap;
    spot_buf_release(&call->body);
}

static void free_call(struct spot_http_call *call)
{
    if (call->next)
        call->next->before = call->before;
    *(call->before ? &call->before->next : &call->http->first) = call->next;
    for (size_t i = 0; i < call->n_header; i++) {
        free(call->header[i].name);
        free(call->header[i].value);
    }
    if (call->response)
        spot_mhd.destroy_response(call->response);
    drop_body(call);
    free(call->method);
    free(call->path);
    free(call);
}

/* --- answers ----------------------------------------------------------------- */

static void resume(struct spot_http_call *call)
{
    if (call->is_suspended) {
        call->is_suspended = false;
        spot_mhd.resume_connection(call->connection);
        (void)eventfd_write(call->http->more, 1);
    }
}

static void give(struct spot_http_call *call, unsigned status, const char *content_type,
                 struct MHD_Response *response)
{
    if (!response || spot_http_is_answered(call)) {
        spot_mhd.destroy_response(response);
        return;
    }
    spot_mhd.add_response_header(response, "Content-Type", content_type);
    for (size_t i = 0; i < call->n_header; i++)
        spot_mhd.add_response_header(response, call->header[i].name, call->header[i].value);
    call->response = response;
    call->status = status;
    call->state = CALL_ANSWERED;
    resume(call);
}

void spot_http_answer(struct spot_http_call *call, unsigned status, const char *content_type,
                      const void *body, size_t n_byte)
{
    give(call, status, content_type,
         spot_mhd.create_response_from_buffer(n_byte, (void *)(uintptr_t)(body ? body : ""),
                                              MHD_RESPMEM_MUST_COPY));
}

static ssize_t read_stream(void *cls, uint64_t position, char *data, size_t n)
{
    struct spot_http_call *const call = cls;
    ssize_t got;

    (void)position;
    if (call->is_lost)
        return MHD_CONTENT_READER_END_WITH_ERROR;
    got = call->pull(call->http->options.user, call, data, n);
    if (got < 0)
        return MHD_CONTENT_READER_END_OF_STREAM;
    if (!got) {
        call->is_suspended = true;
        spot_mhd.suspend_connection(call->connection);
    }
    return got;
}

void spot_http_stream(struct spot_http_call *call, const char *content_type, spot_http_pull pull)
{
    call->pull = pull;
    give(call, MHD_HTTP_OK, content_type,
         spot_mhd.create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK, read_stream, call, NULL));
}

void spot_http_wake(struct spot_http_call *call)
{
    if (call->state == CALL_SENDING)
        resume(call);
}

/* --- what libmicrohttpd calls ------------------------------------------------- */

static enum MHD_Result send_answer(struct spot_http_call *call)
{
    call->state = CALL_SENDING;
    return spot_mhd.queue_response(call->connection, call->status, call->response);
}

/* The call is whole: tell the owner, and wait unless it answers at once. */
static enum MHD_Result tell(struct spot_http_call *call)
{
    call->is_told = true;
    call->state = CALL_WAITING;
    set_due(call->connection, INFINITY);
    call->http->options.called(call->http->options.user, call);
    drop_body(call);
    if (call->state == CALL_ANSWERED)
        return send_answer(call);
    call->is_suspended = true;
    spot_mhd.suspend_connection(call->connection);
    return MHD_YES;
}

static void refuse_body(struct spot_http_call *call, unsigned status)
{
    const bool is_full = status == MHD_HTTP_SERVICE_UNAVAILABLE;
    char said[192];

    snprintf(said, sizeof(said),
             "{\"error\":{\"message\":\"%s\",\"type\":\"%s\",\"param\":null,\"code\":null}}",
             is_full                          ? "Too many bodies come in at once."
             : status == MHD_HTTP_BAD_REQUEST ? "The headers do not tell where the body ends."
                                              : "The body is too large.",
             is_full ? "server_error" : "invalid_request_error");
    if (is_full)
        spot_http_add_header(call, "Retry-After", "1");
    spot_http_answer(call, status, "application/json", said, strlen(said));
}

/* A status; 0: a body of this size is admitted. */
static unsigned no_room(const struct spot_http_call *call, size_t n_byte)
{
    const struct spot_http *const h = call->http;

    if (n_byte > h->options.body_max_byte)
        return MHD_HTTP_CONTENT_TOO_LARGE;
    return n_byte > h->options.bodies_max_byte - h->n_held ? MHD_HTTP_SERVICE_UNAVAILABLE : 0;
}

/* A body of unknown length is answered at its end; false: it may be endless. */
static bool take_body(struct spot_http_call *call, const char *data, size_t n)
{
    const size_t before = call->body.cap, max = call->http->options.body_max_byte;

    if (call->state == CALL_ANSWERED)
        return true; /* a small, unneeded one */
    if (!call->refusal) {
        spot_buf_add(&call->body, data, n);
        call->http->n_held += call->body.cap - before;
        if (call->body.n > max || call->http->n_held > call->http->options.bodies_max_byte) {
            call->refusal =
                call->body.n > max ? MHD_HTTP_CONTENT_TOO_LARGE : MHD_HTTP_SERVICE_UNAVAILABLE;
            drop_body(call);
        }
        return true;
    }
    call->n_refused += n;
    return call->n_refused <= max;
}

/* The headers are complete. A client that is answered before its body was read may lose the answer
 * by a reset: a small body is read, unless the client waits for 100-continue. */
static enum MHD_Result hear(struct spot_http_call *call)
{
    unsigned status = 0;
    size_t n;

    if (!spot_http_framing(call->connection, &n))
        status = MHD_HTTP_BAD_REQUEST;
    else if (n < SIZE_MAX)
        status = no_room(call, n);
    set_due(call->connection, spot_clock_s() + call->http->options.idle_s);
    if (n && status != MHD_HTTP_BAD_REQUEST && call->http->options.heard)
        call->http->options.heard(call->http->options.user, call);
    if (call->state != CALL_ANSWERED && status)
        refuse_body(call, status);
    if (call->state != CALL_ANSWERED ||
        (!status && n <= SMALL_BODY && !spot_http_header(call, "Expect")))
        return MHD_YES;
    return send_answer(call); /* the connection is closed behind it */
}

static enum MHD_Result handle(void *cls, struct MHD_Connection *connection, const char *url,
                              const char *method, const char *version, const char *data,
                              size_t *n_data, void **con_cls)
{
    struct spot_http *const h = cls;
    struct spot_http_call *call = *con_cls;

    (void)version;
    if (!call) {
        *con_cls = call = add_call(h, connection, method, url);
        return hear(call);
    }
    if (call->is_lost)
        return MHD_NO;
    if (*n_data) {
        const bool is_heard = take_body(call, data, *n_data);
        struct line *const line = line_of(connection);

        if (line)
            line->due_s += (double)*n_data / body_byte_per_s;
        *n_data = 0;
        return is_heard ? MHD_YES : MHD_NO;
    }
    if (call->state == CALL_ANSWERED)
        return send_answer(call);
    if (call->state != CALL_READING)
        return MHD_YES;
    if (call->refusal) {
        refuse_body(call, call->refusal);
        return send_answer(call);
    }
    return tell(call);
}

static void completed(void *cls, struct MHD_Connection *connection, void **con_cls,
                      enum MHD_RequestTerminationCode code)
{
    struct spot_http *const h = cls;
    struct spot_http_call *const call = *con_cls;

    (void)code;
    set_due(connection, spot_clock_s() + h->options.idle_s);
    if (!call)
        return;
    *con_cls = NULL;
    if (call->is_told)
        h->options.gone(h->options.user, call);
    free_call(call);
}

/* --- the server ---------------------------------------------------------------- */

static char *read_pem(const char *path, struct spot_err *err)
{
    FILE *const f = fopen(path, "rbe");
    char *text;
    size_t n;

    if (!f) {
        spot_err_sys(err, "%s", path);
        return NULL;
    }
    text = spot_xcalloc(PEM_MAX + 1, 1);
    n = fread(text, 1, PEM_MAX, f);
    fclose(f);
    if (n && strstr(text, "-----BEGIN "))
        return text;
    spot_err_set(err, SPOT_EDATA, "%s: not a PEM file", path);
    free(text);
    return NULL;
}

static void say_nothing(void *cls, const char *fmt, va_list ap)
{
    (void)cls;
    (void)fmt;
    (void)ap;
}

/* One descriptor for two. */
static int watch(struct spot_http *h, struct spot_err *err)
{
    struct epoll_event event = { .events = EPOLLIN };

    h->fd = epoll_create1(EPOLL_CLOEXEC);
    h->more = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (h->fd < 0 || h->more < 0 || epoll_ctl(h->fd, EPOLL_CTL_ADD, h->more, &event) ||
        epoll_ctl(h->fd, EPOLL_CTL_ADD,
                  spot_mhd.get_daemon_info(h->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd, &event))
        return spot_err_sys(err, "cannot wait for HTTP at %s", h->options.address);
    return 0;
}

static int start(struct spot_http *h, int fd, struct spot_err *err)
{
    const struct spot_http_options *const o = &h->options;
    const bool has_tls = h->cert != NULL;
    const struct MHD_OptionItem tls[] = { { MHD_OPTION_HTTPS_MEM_CERT, 0, h->cert },
                                          { MHD_OPTION_HTTPS_MEM_KEY, 0, h->key },
                                          { MHD_OPTION_END, 0, NULL } };
    const struct MHD_OptionItem none[] = { { MHD_OPTION_END, 0, NULL } };

    h->daemon = spot_mhd.start_daemon(
        MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG | (has_tls ? MHD_USE_TLS : 0),
        0, NULL, NULL, handle, h, MHD_OPTION_EXTERNAL_LOGGER, say_nothing, NULL,
        MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_NOTIFY_COMPLETED, completed, h,
        MHD_OPTION_NOTIFY_CONNECTION, connected, h, MHD_OPTION_CONNECTION_LIMIT,
        o->n_connection_max, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)(o->idle_s + 0.5),
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)HEADER_BYTE, MHD_OPTION_ARRAY,
        has_tls ? tls : none, MHD_OPTION_END);
    if (h->daemon)
        return 0;
    close(fd);
    return has_tls ? spot_err_set(err, SPOT_EDATA, "%s and %s are not a certificate and key",
                                  o->tls_cert, o->tls_key)
                   : spot_err_set(err, SPOT_ESYS, "cannot serve HTTP at %s", o->address);
}

static int listen_at(struct spot_http *h, struct spot_err *err)
{
    const int fd = spot_endpoint_listen(&h->endpoint, err);

    h->has_path = fd >= 0 && h->endpoint.kind == SPOT_ENDPOINT_UNIX;
    return fd;
}

struct spot_http *spot_http_new(const struct spot_http_options *options, struct spot_err *err)
{
    struct spot_http *const h = spot_xcalloc(1, sizeof(*h));
    int fd;

    h->options = *options;
    h->fd = h->more = -1;
    if (spot_mhd_need(err) ||
        spot_endpoint_parse_reach(options->address,
                                  options->tls_cert ? SPOT_REACH_NUMERIC : SPOT_REACH_HERE,
                                  &h->endpoint, err) ||
        (options->tls_cert && (!(h->cert = read_pem(options->tls_cert, err)) ||
                               !(h->key = read_pem(options->tls_key, err)))) ||
        (fd = listen_at(h, err)) < 0 || start(h, fd, err) || watch(h, err)) {
        spot_http_free(h);
        return NULL;
    }
    return h;
}

void spot_http_free(struct spot_http *h)
{
    if (!h)
        return;
    for (struct spot_http_call *c = h->first; c; c = c->next) {
        c->is_lost = true;
        resume(c);
    }
    if (h->daemon)
        spot_mhd.stop_daemon(h->daemon);
    if (h->has_path)
        spot_endpoint_drop_stale(&h->endpoint, 0);
    if (h->fd >= 0)
        close(h->fd);
    if (h->more >= 0)
        close(h->more);
    free(h->cert);
    free(h->key);
    free(h);
}

int spot_http_port(const struct spot_http *h)
{
    return h->endpoint.kind == SPOT_ENDPOINT_UNIX ? 0 : h->endpoint.port;
}

int spot_http_fd(const struct spot_http *h)
{
    return h->fd;
}

/* A connection that is suspended is not looked at by libmicrohttpd: has its client hung up? What it
 * said before it did, a line too many or TLS's farewell, is still unread. */
static bool has_hung_up(const struct spot_http_call *call)
{
    struct pollfd set = { .fd = socket_of(call->connection), .events = POLLRDHUP };

    return poll(&set, 1, 0) == 1 && set.revents & (POLLRDHUP | POLLHUP | POLLERR);
}

static void look_for_lost(struct spot_http *h)
{
    const double now_s = spot_clock_s();

    if (now_s < h->looked_s + look_every_s)
        return;
    h->looked_s = now_s;
    hang_up_on_slow(h, now_s);
    for (struct spot_http_call *c = h->first; c; c = c->next)
        if (c->is_suspended && has_hung_up(c)) {
            c->is_lost = true;
            resume(c);
        }
}

/* libmicrohttpd looks at each connection once a run, and hears what is ready by edges: what it has
 * not finished makes its descriptor readable no more, and it says so by a time of 0. */
static bool has_more(struct spot_http *h)
{
    MHD_UNSIGNED_LONG_LONG wait_ms;

    return spot_mhd.get_timeout(h->daemon, &wait_ms) == MHD_YES && !wait_ms;
}

void spot_http_run(struct spot_http *h)
{
    const double until_s = spot_clock_s() + run_max_s;
    eventfd_t told;
    bool is_left;

    (void)eventfd_read(h->more, &told);
    look_for_lost(h);
    do
        spot_mhd.run(h->daemon);
    while ((is_left = has_more(h)) && spot_clock_s() < until_s);
    if (is_left)
        (void)eventfd_write(h->more, 1);
}
