/* SPDX-License-Identifier: MIT */
/* Requests and their answers. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "comm/http_state.h"
#include "common/clock.h"
#include "common/xalloc.h"

enum { BLOCK = 4 << 10, CHUNK_HEAD = 8 };
enum { SMALL_BODY = 64 << 10 }; /* a body of this size is read even if it is not needed */

static const double body_byte_per_s = 16384; /* minimum rate of a body */

/* --- a call ------------------------------------------------------------------ */

const char *spot_http_method(const struct spot_http_call *call)
{
    return call->head.method;
}

const char *spot_http_path(const struct spot_http_call *call)
{
    return call->head.path;
}

const char *spot_http_header(const struct spot_http_call *call, const char *name)
{
    return spot_http_head_field(&call->head, name);
}

const char *spot_http_host(const struct spot_http_call *call)
{
    return call->head.host;
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
    return call->state >= SPOT_HTTP_ANSWERED;
}

bool spot_http_is_sent(const struct spot_http_call *call)
{
    return call->state == SPOT_HTTP_SENT || (call->state == SPOT_HTTP_ANSWERED && !call->pull);
}

void spot_http_add_header(struct spot_http_call *call, const char *name, const char *value)
{
    for (size_t i = 0; i < call->n_header; i++)
        if (!strcmp(call->header[i].name, name)) {
            free(call->header[i].value);
            call->header[i].value = spot_xstrdup(value);
            return;
        }
    if (call->n_header == SPOT_HTTP_ADDED_MAX)
        return;
    call->header[call->n_header].name = spot_xstrdup(name);
    call->header[call->n_header++].value = spot_xstrdup(value);
}

static void drop_body(struct spot_http_call *call)
{
    call->http->n_held -= call->body.cap;
    spot_buf_release(&call->body);
}

void spot_http_end_call(struct spot_http_line *l)
{
    struct spot_http_call *const call = l->call;

    l->call = NULL;
    if (call->is_notified)
        l->http->options.gone(l->http->options.user, call);
    for (size_t i = 0; i < call->n_header; i++) {
        free(call->header[i].name);
        free(call->header[i].value);
    }
    drop_body(call);
    spot_buf_release(&call->answer_body);
    spot_http_head_release(&call->head);
    free(call);
}

/* --- answers ----------------------------------------------------------------- */

static void put_answer(struct spot_http_call *call, unsigned status, const char *content_type)
{
    call->status = status;
    call->content_type = content_type;
    call->state = SPOT_HTTP_ANSWERED;
    spot_http_ready(call->line);
}

void spot_http_answer(struct spot_http_call *call, unsigned status, const char *content_type,
                      const void *body, size_t n_byte)
{
    if (spot_http_is_answered(call))
        return;
    spot_buf_add(&call->answer_body, body, n_byte);
    put_answer(call, status, content_type);
}

void spot_http_stream(struct spot_http_call *call, const char *content_type, spot_http_pull pull)
{
    if (spot_http_is_answered(call))
        return;
    call->pull = pull;
    put_answer(call, 200, content_type);
}

void spot_http_wake(struct spot_http_call *call)
{
    if (call->state == SPOT_HTTP_STREAMING)
        spot_http_ready(call->line);
}

static const char *reason_of(unsigned status)
{
    static const struct {
        unsigned status;
        const char *reason;
    } known[] = { { 200, "OK" },
                  { 204, "No Content" },
                  { 400, "Bad Request" },
                  { 401, "Unauthorized" },
                  { 403, "Forbidden" },
                  { 404, "Not Found" },
                  { 405, "Method Not Allowed" },
                  { 413, "Content Too Large" },
                  { 415, "Unsupported Media Type" },
                  { 417, "Expectation Failed" },
                  { 429, "Too Many Requests" },
                  { 431, "Request Header Fields Too Large" },
                  { 500, "Internal Server Error" },
                  { 503, "Service Unavailable" },
                  { 505, "HTTP Version Not Supported" } };

    for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++)
        if (known[i].status == status)
            return known[i].reason;
    return "Unknown";
}

static void put(struct spot_buf *out, const char *text)
{
    spot_buf_add(out, text, strlen(text));
}

static void put_field(struct spot_buf *out, const char *name, const char *value)
{
    put(out, name);
    put(out, ": ");
    put(out, value);
    put(out, "\r\n");
}

static void put_status(struct spot_buf *out, unsigned status)
{
    char line[64], date[64] = "";
    const time_t now = time(NULL);
    struct tm tm;

    snprintf(line, sizeof(line), "HTTP/1.1 %u %s\r\n", status, reason_of(status));
    put(out, line);
    if (gmtime_r(&now, &tm) && strftime(date, sizeof(date), "%a, %d %b %Y %H:%M:%S GMT", &tm))
        put_field(out, "Date", date);
}

/* Writes the Connection header: close if no other call will follow, otherwise as the client
 * requested. */
static void put_connection(struct spot_http_line *l, const struct spot_http_call *call)
{
    l->closes |= !call->head.keeps_alive || (call->pull && call->head.is_1_0);
    if (l->closes)
        put_field(&l->out, "Connection", "close");
    else if (call->head.is_1_0)
        put_field(&l->out, "Connection", "keep-alive");
}

/* Writes the head, and the body if its length is known. */
static void begin_answer(struct spot_http_line *l, struct spot_http_call *call)
{
    const bool is_head = !strcmp(call->head.method, "HEAD");
    char length[24];

    put_status(&l->out, call->status);
    put_connection(l, call);
    put_field(&l->out, "Content-Type", call->content_type);
    for (size_t i = 0; i < call->n_header; i++)
        put_field(&l->out, call->header[i].name, call->header[i].value);
    snprintf(length, sizeof(length), "%zu", call->answer_body.n);
    if (call->pull && !call->head.is_1_0)
        put_field(&l->out, "Transfer-Encoding", "chunked");
    else if (!call->pull && call->status != 204)
        put_field(&l->out, "Content-Length", length);
    put(&l->out, "\r\n");
    if (!is_head)
        spot_buf_add(&l->out, call->answer_body.data, call->answer_body.n);
    spot_buf_release(&call->answer_body);
    call->state = call->pull && !is_head ? SPOT_HTTP_STREAMING : SPOT_HTTP_SENT;
    l->due_s = spot_clock_s() + l->http->options.idle_s;
}

/* Writes one chunk from the owner's `pull`. False: nothing to send now. */
static bool put_chunk(struct spot_http_line *l, struct spot_http_call *call)
{
    const bool is_chunked = !call->head.is_1_0;
    char *const room = (char *)spot_buf_more(&l->out, CHUNK_HEAD + BLOCK + 2);
    const ssize_t got = call->pull(l->http->options.user, call, room + CHUNK_HEAD, BLOCK);
    char size[32];

    if (!got) {
        l->due_s = INFINITY;
        return false;
    }
    l->due_s = spot_clock_s() + l->http->options.idle_s;
    if (got < 0) {
        call->state = SPOT_HTTP_SENT;
        if (is_chunked)
            put(&l->out, "0\r\n\r\n");
        return true;
    }
    snprintf(size, sizeof(size), "%06zx\r\n", (size_t)got);
    if (is_chunked)
        memcpy(room, size, CHUNK_HEAD);
    else
        memmove(room, room + CHUNK_HEAD, (size_t)got);
    l->out.n += (size_t)got + (is_chunked ? CHUNK_HEAD : 0);
    if (is_chunked)
        put(&l->out, "\r\n");
    return true;
}

bool spot_http_produce(struct spot_http_line *l)
{
    struct spot_http_call *const call = l->call;

    if (!call || call->is_reading || call->state == SPOT_HTTP_OPEN)
        return false;
    if (call->state == SPOT_HTTP_ANSWERED) {
        begin_answer(l, call);
        return true;
    }
    if (call->state == SPOT_HTTP_STREAMING)
        return put_chunk(l, call);
    spot_http_end_call(l);
    spot_buf_release(&l->out);
    l->n_sent = 0;
    l->due_s = spot_clock_s() + l->http->options.idle_s;
    return true;
}

/* --- refusals ------------------------------------------------------------------ */

static void put_error(struct spot_buf *out, bool is_full, const char *message)
{
    put(out, "{\"error\":{\"message\":\"");
    put(out, message);
    put(out, is_full ? "\",\"type\":\"server_error\"" : "\",\"type\":\"invalid_request_error\"");
    put(out, ",\"param\":null,\"code\":null}}");
}

/* Refuses a malformed head and closes the connection, since the start of the next request is
 * unknown. */
static void refuse_head(struct spot_http_line *l, int status, const char *why)
{
    struct spot_buf body = { 0 };
    char length[24];

    put_error(&body, false, why);
    snprintf(length, sizeof(length), "%zu", body.n);
    put_status(&l->out, (unsigned)status);
    put_field(&l->out, "Connection", "close");
    put_field(&l->out, "Content-Type", "application/json");
    put_field(&l->out, "Content-Length", length);
    put(&l->out, "\r\n");
    spot_buf_add(&l->out, body.data, body.n);
    spot_buf_release(&body);
    l->closes = true;
}

static void refuse_body(struct spot_http_call *call, unsigned status)
{
    const bool is_full = status == 503;
    struct spot_buf answer_body = { 0 };

    put_error(&answer_body, is_full,
              is_full         ? "There are too many request bodies."
              : status == 400 ? "The request body is malformed."
                              : "The request body is too large.");
    if (is_full)
        spot_http_add_header(call, "Retry-After", "1");
    spot_http_answer(call, status, "application/json", answer_body.data, answer_body.n);
    spot_buf_release(&answer_body);
}

/* --- bodies --------------------------------------------------------------------- */

/* The request is complete: call `called`. */
static void notify(struct spot_http_call *call)
{
    call->is_notified = true;
    call->line->due_s = INFINITY;
    call->http->options.called(call->http->options.user, call);
    drop_body(call);
}

/* Answer without reading the rest of the body; the connection is closed afterwards. */
static void stop_reading(struct spot_http_call *call)
{
    call->is_reading = false;
    call->line->closes = true;
}

/* A body of unknown length that is too large is answered at its end, unless it may be endless. */
static void take_body(struct spot_http_call *call, const char *data, size_t n)
{
    const struct spot_http_options *const o = &call->http->options;
    const size_t before = call->body.cap;

    call->line->due_s += (double)n / body_byte_per_s;
    if (spot_http_is_answered(call))
        return; /* a small body that is not needed */
    if (!call->refusal) {
        spot_buf_add(&call->body, data, n);
        call->http->n_held += call->body.cap - before;
        if (call->body.n > o->body_max_byte || call->http->n_held > o->bodies_max_byte) {
            call->refusal = call->body.n > o->body_max_byte ? 413 : 503;
            drop_body(call);
        }
        return;
    }
    call->n_refused += n;
    if (call->n_refused > o->body_max_byte) {
        refuse_body(call, call->refusal);
        stop_reading(call);
    }
}

static void end_body(struct spot_http_call *call)
{
    call->is_reading = false;
    if (spot_http_is_answered(call))
        return;
    if (call->refusal)
        refuse_body(call, call->refusal);
    else
        notify(call);
}

/* Reads up to n bytes; returns how many belonged to the body. */
static size_t read_body(struct spot_http_call *call, const char *data, size_t n)
{
    const char *part = data;
    size_t n_part = n;
    int rc;

    if (call->head.n_body == SPOT_HTTP_CHUNKED) {
        rc = spot_http_chunks_read(&call->chunks, data, &n, &part, &n_part);
    } else {
        n = n_part = n < (size_t)call->n_left ? n : (size_t)call->n_left;
        call->n_left -= (int64_t)n;
        rc = call->n_left == 0;
    }
    if (rc < 0) {
        refuse_body(call, 400);
        stop_reading(call);
        return n;
    }
    if (n_part)
        take_body(call, part, n_part);
    if (rc && call->is_reading)
        end_body(call);
    return n;
}

/* --- heads ----------------------------------------------------------------------- */

/* HTTP status with which a body of this size is refused; 0: accepted. */
static unsigned no_room(const struct spot_http *h, int64_t n_byte)
{
    if (n_byte == SPOT_HTTP_CHUNKED)
        return 0;
    if ((uint64_t)n_byte > h->options.body_max_byte)
        return 413;
    return (size_t)n_byte > h->options.bodies_max_byte - h->n_held ? 503 : 0;
}

/* A client that is answered before its body was read may lose the answer by a reset: a small body
 * is read, unless the client waits for 100-continue. */
static void receive(struct spot_http_call *call)
{
    const int64_t n = call->head.n_body;
    const unsigned status = no_room(call->http, n);

    call->line->due_s = spot_clock_s() + call->http->options.idle_s;
    if (!n) {
        notify(call);
        return;
    }
    call->is_reading = true;
    call->n_left = n;
    if (call->http->options.received)
        call->http->options.received(call->http->options.user, call);
    if (status && !spot_http_is_answered(call))
        refuse_body(call, status);
    if (!spot_http_is_answered(call)) {
        if (call->head.expects_continue)
            put(&call->line->out, "HTTP/1.1 100 Continue\r\n\r\n");
    } else if (status || n < 0 || n > SMALL_BODY || call->head.expects_continue) {
        stop_reading(call);
    }
}

static void take_head(struct spot_http_line *l, size_t n)
{
    struct spot_http_head head;
    const char *why = NULL;
    const int status = spot_http_head_read(&head, (const char *)l->in.data, n, &why);

    if (status) {
        spot_http_head_release(&head);
        refuse_head(l, status, why);
        return;
    }
    l->call = spot_xcalloc(1, sizeof(*l->call));
    *l->call = (struct spot_http_call){ .http = l->http, .line = l, .head = head };
    receive(l->call);
}

/* Empty lines before a request are left over from the one before. */
static size_t count_empty(const struct spot_buf *in)
{
    size_t n = 0;

    while (in->n - n >= 2 && in->data[n] == '\r' && in->data[n + 1] == '\n')
        n += 2;
    return n;
}

static void take_from(struct spot_http_line *l, size_t n)
{
    l->in.n -= n;
    memmove(l->in.data, l->in.data + n, l->in.n);
    l->n_seen = 0;
    if (!l->in.n)
        spot_buf_release(&l->in);
}

bool spot_http_consume(struct spot_http_line *l)
{
    size_t n;

    if (!l->in.n || l->closes || (l->call && !l->call->is_reading))
        return false;
    if (l->call) {
        take_from(l, read_body(l->call, (const char *)l->in.data, l->in.n));
        return true;
    }
    n = l->n_seen ? 0 : count_empty(&l->in);
    if (n) {
        take_from(l, n);
        return true;
    }
    n = spot_http_head_size((const char *)l->in.data, l->in.n, &l->n_seen);
    if (n == SIZE_MAX)
        refuse_head(l, 400, "A line must end in CRLF.");
    else if (n > SPOT_HTTP_HEAD_BYTE || (!n && l->in.n >= SPOT_HTTP_HEAD_BYTE))
        refuse_head(l, 431, "The headers are too large.");
    else if (n)
        take_head(l, n);
    else
        return false;
    if (n && n != SIZE_MAX)
        take_from(l, n);
    return true;
}
