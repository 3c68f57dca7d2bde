/* SPDX-License-Identifier: MIT */
#include "serve/front.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include "comm/http.h"
#include "comm/http_key.h"
#include "common/xalloc.h"
#include "serve/front_state.h"
#include "serve/openai_state.h"

/* --- plain answers ------------------------------------------------------------ */

void spot_front_answer_json(struct spot_http_call *call, int status, const struct spot_buf *body)
{
    spot_http_answer(call, (unsigned)status, "application/json", body->data, body->n);
}

void spot_front_answer_error(struct spot_http_call *call, int status, const char *type,
                             const char *code, const char *message)
{
    struct spot_buf out = { 0 };

    spot_openai_error(status, type, NULL, code, &out, "%s", message);
    spot_front_answer_json(call, status, &out);
    spot_buf_release(&out);
}

void spot_front_answer_not_now(struct spot_front *f, struct spot_http_call *call,
                               enum spot_admission why)
{
    char seconds[24];

    snprintf(seconds, sizeof(seconds), "%.0f", fmax(1, ceil(f->table->retry_after_s(f->server))));
    spot_http_add_header(call, "Retry-After", seconds);
    if (why == SPOT_ADMIT_FULL)
        spot_front_answer_error(call, 429, "rate_limit_error", "rate_limit_exceeded",
                                "The queue is full.");
    else if (why == SPOT_ADMIT_NOBODY)
        spot_front_answer_error(call, 503, "server_error", NULL, "No worker is available.");
    else
        spot_front_answer_error(call, 503, "server_error", NULL, "The server is shutting down.");
}

/* --- sending a completion to a client ---------------------------------------- */

static struct spot_exchange *begin_exchange(struct spot_front *f, struct spot_http_call *call)
{
    struct spot_exchange *const x = spot_xcalloc(1, sizeof(*x));

    *x = (struct spot_exchange){ .front = f, .call = call };
    f->n_exchange++;
    x->tells_worker = spot_http_header(call, "X-Spot-Worker") != NULL;
    spot_http_set_data(call, x);
    return x;
}

static void attach(struct spot_exchange *x, struct spot_completion *c_take)
{
    x->c = c_take;
    x->next = c_take->front;
    c_take->front = x;
}

static void detach(struct spot_exchange *x)
{
    struct spot_exchange *at = x->c->front;

    if (at == x) {
        x->c->front = x->next;
    } else {
        while (at->next != x)
            at = at->next;
        at->next = x->next;
    }
}

static void gone(void *user, struct spot_http_call *call)
{
    struct spot_front *const f = user;
    struct spot_exchange *const x = spot_http_data(call);

    if (!x)
        return;
    f->n_exchange--;
    if (x->at_desk)
        *x->at_desk = NULL;
    if (x->c) {
        detach(x);
        if (!x->has_said_all && !x->c->front)
            f->table->abandon(f->server, x->c);
        spot_completion_unref(x->c);
    }
    spot_buf_release(&x->out);
    free(x->cursor);
    free(x);
}

static const char stopped[] = "server_stopped"; /* a client may resume the stream */

static void answer_whole(struct spot_exchange *x)
{
    struct spot_buf out = { 0 };

    x->has_said_all = true;
    if (spot_completion_is_given_up(x->c)) {
        const int status = spot_openai_given_up(x->c, &out);

        spot_front_answer_json(x->call, status, &out);
        spot_buf_release(&out);
        return;
    }
    if (!spot_completion_is_ready(x->c)) {
        spot_http_add_header(x->call, "Retry-After", "1");
        spot_front_answer_error(x->call, 503, "server_error", stopped, x->front->failure);
        return;
    }
    spot_front_write(x);
}

/* --- a stream of events --------------------------------------------------------- */

static void put(struct spot_buf *out, const char *text)
{
    spot_buf_add(out, text, strlen(text));
}

/* One token may have several events; only the last has its id, so that a resuming client gets all
 * of them or none. */
static void put_response(struct spot_exchange *x, size_t position)
{
    struct spot_buf out = { 0 };
    size_t last = 0;
    char id[64];

    spot_openai_response_events(&x->front->options, x->c, position, &x->response, &out);
    for (size_t i = 0; i + 3 < out.n; i++)
        if (!memcmp(out.data + i, "\n\n", 2))
            last = i + 2;
    spot_buf_add(&x->out, out.data, last);
    snprintf(id, sizeof(id), "id: 0:%zu\n", position);
    if (out.n) {
        put(&x->out, id);
        spot_buf_add(&x->out, out.data + last, out.n - last);
    }
    spot_buf_release(&out);
}

static void put_token(struct spot_exchange *x, uint32_t choice)
{
    const bool is_response = x->c->request.response != NULL;
    const size_t next = x->cursor[choice];
    const size_t position = is_response ? next : spot_choice_piece_last(x->c, choice, next);
    const uint32_t worker = x->c->choice[choice].token[position].worker;
    const struct spot_front *const f = x->front;
    char id[64];

    x->cursor[choice] = position + 1;
    if (is_response) {
        put_response(x, position);
        return;
    }
    snprintf(id, sizeof(id), "id: %u:%zu\ndata: ", (unsigned)choice, position);
    put(&x->out, id);
    spot_openai_chunk(&f->options, x->c, choice, position, x->tells_worker,
                      f->table->worker_name(f->server, worker), &x->out);
    put(&x->out, "\n\n");
}

static void put_error(struct spot_exchange *x, int status, const char *code, const char *message)
{
    put(&x->out, "data: ");
    spot_openai_error(status, "server_error", NULL, code, &x->out, "%s", message);
    put(&x->out, "\n\n");
}

/* Write the events after the tokens. An aborted choice ends without a final token. */
static void put_end(struct spot_exchange *x)
{
    if (spot_completion_is_given_up(x->c)) {
        put(&x->out, "data: ");
        (void)spot_openai_given_up(x->c, &x->out);
        put(&x->out, "\n\n");
    }
    if (x->c->request.response) {
        if (!spot_completion_is_given_up(x->c))
            spot_openai_response_end(&x->front->options, x->c, &x->response, &x->out);
        x->has_said_all = true;
        return;
    }
    if (x->c->request.wants_usage) {
        put(&x->out, "data: ");
        spot_openai_usage_chunk(&x->front->options, x->c, &x->out);
        put(&x->out, "\n\n");
    }
    put(&x->out, "data: [DONE]\n\n");
    x->has_said_all = true;
}

/* Write the next event to x->out; false if there is none now. */
static bool next_event(struct spot_exchange *x)
{
    const bool is_ready = spot_completion_is_ready(x->c);

    for (uint32_t i = 0; i < x->c->request.n_choice && !x->c->n_held; i++)
        while (x->cursor[i] < x->c->choice[i].n_token) {
            put_token(x, i);
            if (x->out.n) /* a token may produce no event of a response */
                return true;
        }
    if (x->has_said_all || (!is_ready && !x->front->failure))
        return false;
    if (is_ready) {
        put_end(x);
    } else { /* the answer is incomplete, so [DONE] is not sent */
        put_error(x, 503, stopped, x->front->failure);
        x->has_said_all = true;
    }
    return true;
}

static ssize_t pull(void *user, struct spot_http_call *call, char *data, size_t n)
{
    struct spot_exchange *const x = spot_http_data(call);

    (void)user;
    if (x->n_sent == x->out.n) {
        x->n_sent = x->out.n = 0;
        if (!next_event(x))
            return x->has_said_all ? -1 : 0;
    }
    n = n < x->out.n - x->n_sent ? n : x->out.n - x->n_sent;
    memcpy(data, x->out.data + x->n_sent, n);
    x->n_sent += n;
    return (ssize_t)n;
}

static void begin_stream(struct spot_exchange *x)
{
    x->cursor = spot_xcalloc(x->c->request.n_choice, sizeof(*x->cursor));
    spot_http_add_header(x->call, "Cache-Control", "no-cache");
    spot_http_add_header(x->call, "X-Accel-Buffering", "no");
}

void spot_front_progress(struct spot_front *f, struct spot_completion *c)
{
    for (struct spot_exchange *x = c->front, *next; x; x = next) {
        next = x->next;
        if (x->cursor)
            spot_http_wake(x->call);
        else if ((spot_completion_is_ready(c) || f->failure) && !x->has_said_all)
            answer_whole(x);
    }
}

/* --- requests -------------------------------------------------------------------- */

void spot_front_take(struct spot_exchange *x, int status, struct spot_request *request_take,
                     const struct spot_buf *error)
{
    struct spot_front *const f = x->front;
    const struct spot_http_terms terms = spot_http_keys_terms(f->keys, x->call);
    enum spot_admission admission = SPOT_ADMIT_DRAINING;
    struct spot_completion *c;

    if (status) {
        spot_front_answer_json(x->call, status, error);
        return;
    }
    request_take->owner = spot_http_keys_owner(f->keys, x->call, request_take->id);
    request_take->payer = terms.key;
    request_take->share = terms.share;
    request_take->priority = terms.priority;
    if (f->is_draining)
        spot_request_release(request_take);
    else
        admission = f->table->submit(f->server, request_take, &c);
    if (admission != SPOT_ADMIT) {
        spot_front_answer_not_now(f, x->call, admission);
        return;
    }
    attach(x, c);
    if (c->request.does_stream) {
        begin_stream(x);
        spot_http_stream(x->call, "text/event-stream", pull);
    } else if (spot_completion_is_ready(c)) {
        answer_whole(x);
    }
}

void spot_front_complete(struct spot_front *f, struct spot_http_call *call, enum spot_api api)
{
    if (!spot_front_read(begin_exchange(f, call), api, spot_http_body(call)))
        spot_front_answer_not_now(f, call, SPOT_ADMIT_FULL);
}

/* Parse "0:17,1:12", the last token sent of each choice. False for any other text. */
static bool read_cursors(struct spot_exchange *x, const char *text)
{
    while (*text) {
        char *end;
        const unsigned long choice = strtoul(text, &end, 10);
        unsigned long position;

        if (end == text || *end != ':' || choice >= x->c->request.n_choice)
            return false;
        text = end + 1;
        position = strtoul(text, &end, 10);
        if (end == text || (*end && *end != ',') || position >= x->c->choice[choice].n_token)
            return false;
        x->cursor[choice] = position + 1;
        text = *end ? end + 1 : end;
    }
    return true;
}

/* Skip the events already sent: later ones depend on them. */
static void pass_response(struct spot_exchange *x)
{
    for (size_t i = 0; i < x->cursor[0]; i++) {
        struct spot_buf told = { 0 };

        spot_openai_response_events(&x->front->options, x->c, i, &x->response, &told);
        spot_buf_release(&told);
    }
}

static void answer_head(struct spot_front *f, struct spot_http_call *call,
                        struct spot_completion *c)
{
    if (!spot_completion_is_ready(c) && !c->front)
        f->table->abandon(f->server, c);
    spot_completion_unref(c);
    spot_http_answer(call, 200, "text/event-stream", NULL, 0);
}

/* End a stream: computation stops, and its other readers are told. */
static void end_stream(struct spot_front *f, struct spot_http_call *call, struct spot_completion *c)
{
    static const char done[] = "{\"deleted\":true}";

    if (!spot_completion_is_ready(c))
        f->table->cancel(f->server, c);
    spot_front_progress(f, c);
    spot_completion_unref(c);
    spot_http_answer(call, 200, "application/json", done, sizeof(done) - 1);
}

/* Answer a request for the proof, which does not affect the stream's readers. */
static void answer_proof(struct spot_front *f, struct spot_http_call *call,
                         struct spot_completion *c)
{
    const bool is_ready = spot_completion_is_ready(c);
    struct spot_buf out = { 0 };
    int status = 409;

    if (spot_completion_is_given_up(c))
        status = spot_openai_given_up(c, &out);
    else if (!is_ready)
        (void)spot_openai_error(status, "invalid_request_error", NULL, "stream_not_ended", &out,
                                "The answer has not ended; only a complete answer has a proof.");
    else
        status = f->table->proof(f->server, c, &out);
    if (!is_ready && !c->front)
        f->table->abandon(f->server, c);
    spot_completion_unref(c);
    spot_front_answer_json(call, status ? status : 200, &out);
    spot_buf_release(&out);
}

void spot_front_rejoin(struct spot_front *f, struct spot_http_call *call, const char *rest)
{
    const char *const last = spot_http_header(call, "Last-Event-ID");
    const bool wants_proof = spot_front_is_proof(rest);
    char id[SPOT_REQUEST_ID_MAX];
    struct spot_completion *c;
    struct spot_exchange *x;

    snprintf(id, sizeof(id), "%.*s", (int)strcspn(rest, wants_proof ? "/" : ""), rest);
    c = f->table->rejoin(f->server, id, spot_http_keys_owner(f->keys, call, id));
    if (!c) {
        spot_front_answer_error(call, 404, "invalid_request_error", "stream_not_found",
                                "There is no stream with this id.");
        return;
    }
    if (wants_proof) {
        answer_proof(f, call, c);
        return;
    }
    if (!strcmp(spot_http_method(call), "HEAD")) { /* it reads no tokens and does not wait */
        answer_head(f, call, c);
        return;
    }
    if (!strcmp(spot_http_method(call), "DELETE")) {
        end_stream(f, call, c);
        return;
    }
    x = begin_exchange(f, call);
    attach(x, c);
    begin_stream(x);
    if (last && !read_cursors(x, last)) {
        /* another client reads it, so it is not abandoned */
        x->has_said_all = x->c->front != x || x->next;
        spot_front_answer_error(call, 400, "invalid_request_error", NULL,
                                "Last-Event-ID must be choice:position of tokens that were sent.");
        return;
    }
    if (x->c->request.response)
        pass_response(x);
    spot_http_stream(call, "text/event-stream", pull);
}

/* --- the front --------------------------------------------------------------------- */

static int open_keys(struct spot_front *f, struct spot_err *err)
{
    const struct spot_front_options *const o = &f->options;

    if (!o->tls_cert != !o->tls_key)
        return spot_err_set(err, SPOT_EUSAGE, "--tls-cert and --tls-key must go together");
    if (spot_http_check_reach(o->address, o->tls_cert, o->tls_key, o->api_key_file,
                              "--tls-cert, --tls-key and --api-key-file", err))
        return -1;
    return o->api_key_file && !(f->keys = spot_http_keys_load(o->api_key_file, err)) ? -1 : 0;
}

/* Watches both the HTTP server and the thread for long work with one descriptor. */
static int watch(struct spot_front *f, struct spot_err *err)
{
    struct epoll_event event = { .events = EPOLLIN };

    f->fd = epoll_create1(EPOLL_CLOEXEC);
    if (f->fd < 0 || epoll_ctl(f->fd, EPOLL_CTL_ADD, spot_http_fd(f->http), &event) ||
        epoll_ctl(f->fd, EPOLL_CTL_ADD, spot_desk_fd(f->desk), &event))
        return spot_err_sys(err, "cannot watch a server");
    return 0;
}

struct spot_front *spot_front_new(const struct spot_front_options *options,
                                  const struct spot_front_server *table, void *server,
                                  struct spot_err *err)
{
    struct spot_front *const f = spot_xcalloc(1, sizeof(*f));
    const struct spot_http_options http = { .address = options->address,
                                            .tls_cert = options->tls_cert,
                                            .tls_key = options->tls_key,
                                            .body_max_byte = options->body_max_byte,
                                            .n_connection_max = options->n_connection_max,
                                            .bodies_max_byte =
                                                SPOT_FRONT_BODIES_MAX * options->body_max_byte,
                                            .idle_s = options->idle_s,
                                            .received = spot_front_gate,
                                            .called = spot_front_called,
                                            .gone = gone,
                                            .user = f };

    f->options = *options;
    f->fd = -1;
    f->table = table;
    f->server = server;
    f->began_s = (int64_t)time(NULL);
    if (open_keys(f, err) || !(f->http = spot_http_new(&http, err)) ||
        !(f->desk = spot_desk_new(err)) || watch(f, err)) {
        spot_front_free(f);
        return NULL;
    }
    return f;
}

void spot_front_free(struct spot_front *f)
{
    if (!f)
        return;
    spot_http_free(f->http);
    spot_desk_free(f->desk);
    if (f->fd >= 0)
        close(f->fd);
    spot_http_keys_free(f->keys);
    free(f->failure);
    free(f);
}

int spot_front_port(const struct spot_front *f)
{
    return spot_http_port(f->http);
}

const char *spot_front_url(const struct spot_front *f)
{
    return spot_http_url(f->http);
}

int spot_front_fd(const struct spot_front *f)
{
    return f->fd;
}

void spot_front_run(struct spot_front *f)
{
    f->at_once_byte = 0;
    spot_desk_run(f->desk);
    spot_http_run(f->http);
}

void spot_front_set_model(struct spot_front *f, const struct spot_front_options *options)
{
    f->options.vocabulary = options->vocabulary;
    f->options.chat = options->chat;
    f->options.chat_why = options->chat_why;
    f->options.tool_form = options->tool_form;
    f->options.n_context = options->n_context;
    f->options.n_vocabulary = options->n_vocabulary;
    f->options.n_state = options->n_state;
    f->options.pool = options->pool;
}

void spot_front_drain(struct spot_front *f)
{
    f->is_draining = true;
}

void spot_front_fail(struct spot_front *f, const char *why)
{
    spot_front_drain(f);
    free(f->failure);
    f->failure = spot_xstrdup(why);
}

bool spot_front_is_idle(const struct spot_front *f)
{
    return !f->n_exchange;
}
