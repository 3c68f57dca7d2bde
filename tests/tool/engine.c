/* SPDX-License-Identifier: MIT */
/* clang-format off */
/* engine.c - an engine of completions for tests, which does what it is told.
 *
 *   engine PORT [KEY=VALUE...]     PORT 0: a free one
 *   port=FILE    gets the port
 *   kind=llama   llama, vllm, sglang, tgi or ollama: whose paths, bodies and answers
 *   model=M      its name
 *   ms=1         between two tokens of an answer; 0: as fast as the socket takes them
 *   noise=0      1: tokens depend on this engine's process as well, as if it were not deterministic
 *   stamp=0      1: each token's text is when it was said (vllm with text): load.c measures the way of it
 *   fault=NAME   at the K-th answer (at=K, 0: each), behind its N-th token (after=N, 3):
 *                  error500, error400  the status, before any token (after= does not count)
 *                  error200    an event with an error inside
 *                  stop        nothing more comes; the connection stays
 *                  close       the connection ends
 *                  half        half a character of UTF-8, then its rest in no event
 *                  rubbish     bytes that are no event
 *                  miscount    a token, and that there were fewer (llama)
 *                  alien       a token that no model has
 *                  beyond      twice the tokens that were asked for
 *                  behind      tokens follow the end
 *                  early       the end, without the last token
 *                  empty       tokens have no text and no ids, from the first one on
 *                  die         the process ends, with words
 *                  freeze      the process says nothing to anybody any more
 *                  leak        from then on each token takes 8 MiB more memory
 *                  deaf        a client that goes is not noticed: the answer goes on to its end
 *   start=NAME   exit: it ends at once, with words; unwell: /health answers 503; orphan: as long as its parent lives
 *   once=FILE    the fault and start= hold until this file is there, which they make
 *   whose=FILE   gets the first letter of each prompt that begins
 *   log=FILE     a line for each answer that began, each whose client went, and each that ended without its client
 *
 * Text is bytes a..z, blanks and ends of lines: each a function of all bytes before, so that an answer that
 * goes on elsewhere is the same. An end comes with 1 in 256, as token 256 of kind llama.
 */
/* clang-format on */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "comm/endpoint.h"
#include "common/buf.h"
#include "common/clock.h"
#include "common/hash.h"
#include "common/json.h"
#include "common/xalloc.h"

enum { END = 256, CLIENTS = 1024 };

static struct {
    const char *kind, *model, *fault, *start, *once, *log, *port, *whose;
    long ms, at, after, noise, stamp;
} o = { .kind = "llama", .model = "M", .fault = "", .start = "", .ms = 1, .after = 3 };

struct client {
    int fd; /* -1: none */
    struct spot_buf in, out;
    size_t sent;
    bool answers, is_whole, ends, is_stuck, ignores_end, wants_ids, is_alone;
    long n_most, n, number;
    double due_s;
    uint32_t *token;
    size_t n_token, cap_token;
    struct spot_buf whole; /* ids of an answer that is no stream */
};

static struct client client[CLIENTS];
static int poll_fd;
static long n_answer;
static bool is_frozen, leaks;
static pid_t parent;

static void put(struct client *c, const char *fmt, ...)
{
    char text[4096];
    va_list args;
    int n;

    va_start(args, fmt);
    n = vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    spot_buf_add(&c->out, text, (size_t)n);
}

static void append(const char *path, const char *fmt, ...)
{
    FILE *const f = path ? fopen(path, "a") : NULL;
    va_list args;

    if (!f)
        return;
    va_start(args, fmt);
    vfprintf(f, fmt, args);
    va_end(args);
    fclose(f);
}

static void say(const char *what, long number)
{
    append(o.log, "%s %ld\n", what, number);
}

/* May the fault happen? */
static bool is_time(void)
{
    int fd;

    if (!o.once)
        return true;
    fd = open(o.once, O_CREAT | O_EXCL | O_WRONLY, 0600);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

static bool has_fault(const struct client *c, const char *name)
{
    return !strcmp(o.fault, name) && (!o.at || c->number == o.at);
}

static uint32_t next(const struct client *c)
{
    static const char letters[] = "etaoinshrdlucmfwypvbgkjqxz  \n ";
    const uint64_t h = spot_hash64(c->token, c->n_token * sizeof(*c->token)) ^
                       (o.noise ? (uint64_t)getpid() * 0x9E3779B97F4A7C15ULL : 0);

    if (!(h >> 40 & 0xFF) && !c->ignores_end)
        return END;
    return (uint32_t)letters[(h >> 8) % (sizeof(letters) - 1)];
}

/* A document in the frame of the kind; `text` is JSON. */
static void event(struct client *c, const char *text)
{
    put(c, !strcmp(o.kind, "ollama") || c->is_whole ? "%s\n" : "data: %s\n\n", text);
}

static void put_empty(struct client *c)
{
    char text[256];

    snprintf(text, sizeof(text),
             "{\"content\":\"\",\"tokens\":[],\"stop\":false,\"tokens_predicted\":%ld,"
             "\"choices\":[{\"index\":0,\"text\":\"\",\"finish_reason\":null}]}",
             c->n + 1);
    event(c, text);
}

static void put_token(struct client *c, uint32_t id)
{
    char text[1024], byte[16];
    const bool is_end = id == END;

    if (has_fault(c, "empty")) {
        put_empty(c);
        return;
    }
    snprintf(byte, sizeof(byte), is_end ? "" : id == '\n' ? "\\n" : "%c", (int)id);
    if (o.stamp && !is_end)
        snprintf(byte, sizeof(byte), "%07ld", (long)(fmod(spot_clock_s(), 10) * 1e6));
    if (!strcmp(o.kind, "llama"))
        snprintf(text, sizeof(text),
                 "{\"content\":\"%s\",\"tokens\":[%u],\"stop\":false,\"tokens_predicted\":%ld}",
                 byte, id, c->n + 1);
    else if (!strcmp(o.kind, "vllm"))
        snprintf(text, sizeof(text),
                 "{\"choices\":[{\"index\":0,\"text\":\"%s\",\"token_ids\":[%u],\"finish_reason\":"
                 "null}]}",
                 byte, id);
    else if (!strcmp(o.kind, "sglang"))
        snprintf(text, sizeof(text),
                 "{\"text\":\"\",\"output_ids\":[%u],\"meta_info\":{\"completion_tokens\":%ld,"
                 "\"finish_reason\":null}}",
                 id, c->n + 1);
    else if (!strcmp(o.kind, "tgi"))
        snprintf(text, sizeof(text), "{\"token\":{\"id\":1,\"text\":\"%s\",\"special\":%s}}", byte,
                 is_end ? "true" : "false");
    else
        snprintf(text, sizeof(text), "{\"response\":\"%s\",\"done\":false}", byte);
    if (!is_end || c->wants_ids)
        event(c, text);
}

static void put_end(struct client *c, const char *why)
{
    char text[512];

    if (!strcmp(o.kind, "llama"))
        snprintf(text, sizeof(text),
                 "{\"content\":\"\",\"tokens\":[],\"stop\":true,\"stop_type\":\"%s\","
                 "\"tokens_predicted\":%ld}",
                 !strcmp(why, "length") ? "limit" : "eos", c->n);
    else if (!strcmp(o.kind, "vllm"))
        snprintf(text, sizeof(text),
                 "{\"choices\":[{\"index\":0,\"text\":\"\",\"finish_reason\":\"%s\"}]}", why);
    else if (!strcmp(o.kind, "sglang"))
        snprintf(text, sizeof(text),
                 "{\"text\":\"\",\"output_ids\":[],\"meta_info\":{\"completion_tokens\":%ld,"
                 "\"finish_reason\":{\"type\":\"%s\"}}}",
                 c->n, why);
    else if (!strcmp(o.kind, "tgi"))
        snprintf(text, sizeof(text),
                 "{\"token\":{\"id\":2,\"text\":\"\",\"special\":true},\"generated_text\":\"\","
                 "\"details\":{"
                 "\"finish_reason\":\"%s\"}}",
                 !strcmp(why, "length") ? why : "eos_token");
    else
        snprintf(text, sizeof(text), "{\"response\":\"\",\"done\":true,\"done_reason\":\"%s\"}",
                 why);
    event(c, text);
    if (!strcmp(o.kind, "vllm"))
        put(c, "data: [DONE]\n\n");
}

/* --- requests -------------------------------------------------------------------- */

static void answer(struct client *c, int status, const char *body)
{
    put(c, "HTTP/1.1 %d X\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
        status, strlen(body), body);
}

static long number_of(const struct spot_json_value *root, const char *key, const char *below)
{
    const struct spot_json_value *const v =
        spot_json_get(below ? spot_json_get(root, below) : root, key);

    return v ? (long)spot_json_number(v) : -1;
}

static void take_prompt(struct client *c, const struct spot_json_value *prompt)
{
    const char *const text = spot_json_text(prompt);
    const size_t n = text ? strlen(text) : spot_json_array_size(prompt);

    c->n_token = 0;
    for (size_t i = 0; i < n; i++) {
        c->token = spot_xgrow(c->token, &c->cap_token, c->n_token + 1, sizeof(*c->token));
        c->token[c->n_token++] =
            text ? (uint8_t)text[i] : (uint32_t)spot_json_integer(spot_json_entry(prompt, i));
    }
}

static const struct spot_json_value *prompt_of(const struct spot_json_value *root)
{
    static const char *const name[] = { "prompt", "input_ids", "text", "inputs" };

    for (size_t i = 0; i < sizeof(name) / sizeof(*name); i++)
        if (spot_json_get(root, name[i]))
            return spot_json_get(root, name[i]);
    return NULL;
}

static void begin(struct client *c, const char *body, size_t n)
{
    static const char *const most[][2] = { { "n_predict", NULL },
                                           { "max_tokens", NULL },
                                           { "max_new_tokens", "sampling_params" },
                                           { "max_new_tokens", "parameters" },
                                           { "num_predict", "options" } };
    struct spot_json_doc doc;
    struct spot_err err = { 0 };

    if (spot_json_parse(&doc, body, n, "body", &err)) {
        answer(c, 400, "{\"error\":{\"message\":\"no JSON\"}}");
        return;
    }
    c->number = ++n_answer;
    say("begin", c->number);
    take_prompt(c, prompt_of(doc.root));
    append(o.whose, "%c", c->n_token ? (int)c->token[0] : '?');
    c->wants_ids = !spot_json_is_string(prompt_of(doc.root));
    c->n_most = -1;
    for (size_t i = 0; i < sizeof(most) / sizeof(*most); i++)
        if (number_of(doc.root, most[i][0], most[i][1]) >= 0)
            c->n_most = number_of(doc.root, most[i][0], most[i][1]);
    c->ignores_end = spot_json_is_true(spot_json_get(doc.root, "ignore_eos"));
    c->is_whole = !strcmp(o.kind, "llama") && !spot_json_is_true(spot_json_get(doc.root, "stream"));
    spot_json_release(&doc);
    if ((has_fault(c, "error500") || has_fault(c, "error400")) && is_time()) {
        answer(c, has_fault(c, "error500") ? 500 : 400, "{\"error\":{\"message\":\"as told\"}}");
        return;
    }
    c->answers = true;
    c->ends = c->is_stuck = false;
    c->n = 0;
    c->due_s = spot_clock_s() + (double)o.ms / 1e3;
    put(c, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n");
}

static bool is_unwell(void)
{
    return !strcmp(o.start, "unwell") || (!strcmp(o.start, "orphan") && getppid() == parent);
}

static void route(struct client *c, const char *path, const char *body, size_t n)
{
    char text[512];

    if (strstr(path, "/health") || strstr(path, "/api/version"))
        answer(c, is_unwell() ? 503 : 200, "{\"version\":\"1\"}");
    else if (strstr(path, "/v1/models")) {
        snprintf(text, sizeof(text), "{\"data\":[{\"id\":\"%s\",\"max_model_len\":4096}]}",
                 o.model);
        answer(c, 200, text);
    } else if (strstr(path, "/info")) {
        snprintf(text, sizeof(text), "{\"model_id\":\"%s\",\"max_total_tokens\":4096}", o.model);
        answer(c, !strcmp(o.kind, "tgi") ? 200 : 404, text);
    } else if (strstr(path, "/props"))
        answer(c, !strcmp(o.kind, "llama") ? 200 : 404, "{}");
    else if (strstr(path, "/completion") || strstr(path, "/generate") ||
             strstr(path, "/v1/completions"))
        begin(c, body, n);
    else
        answer(c, 404, "{}");
}

/* A whole request, if it is there. */
static void take(struct client *c)
{
    const char *head, *end, *length;
    size_t n_head, n_body = 0;
    char path[128];

    spot_buf_more(&c->in, 1)[0] = '\0';
    head = (const char *)c->in.data;
    end = strstr(head, "\r\n\r\n");
    if (!end)
        return;
    n_head = (size_t)(end + 4 - head);
    length = strcasestr(head, "Content-Length:");
    if (length && length < end)
        n_body = strtoul(length + 15, NULL, 10);
    if (c->in.n < n_head + n_body || sscanf(head, "%*s %127s", path) != 1)
        return;
    route(c, path, head + n_head, n_body);
    memmove(c->in.data, c->in.data + n_head + n_body, c->in.n - n_head - n_body);
    c->in.n -= n_head + n_body;
}

static void drop(struct client *c)
{
    if (c->answers && !c->ends)
        say("gone", c->number);
    if (c->is_alone)
        say("alone", c->number);
    close(c->fd);
    c->fd = -1;
    c->answers = c->is_alone = false;
    c->in.n = c->out.n = c->sent = 0;
}

/* The client is gone. */
static void lose(struct client *c)
{
    if (c->is_alone)
        return;
    c->is_alone = c->answers && !c->ends && has_fault(c, "deaf");
    if (c->is_alone)
        say("gone", c->number);
    else
        drop(c);
}

/* --- tokens ------------------------------------------------------------------------ */

/* Behind after= tokens. Returns whether the next one is not to come. */
static bool misbehave(struct client *c)
{
    const char *const f = o.fault;

    if (!*f || c->n != o.after || !has_fault(c, f) || !strcmp(f, "beyond") ||
        !strcmp(f, "behind") || !strcmp(f, "deaf") || !strcmp(f, "empty") || !is_time())
        return false;
    if (!strcmp(f, "error200"))
        event(c, "{\"error\":{\"message\":\"out of memory, as told\"}}");
    else if (!strcmp(f, "half"))
        put(c, "data: "
               "{\"content\":\"\xe2\x82\",\"response\":\"\xe2\x82\",\"choices\":[{\"text\":"
               "\"\xe2\"}]}\n\n");
    else if (!strcmp(f, "rubbish"))
        put(c, "\x01\x02 rubbish }{\n\n<html>\n");
    else if (!strcmp(f, "miscount"))
        event(c, "{\"content\":\"a\",\"tokens\":[97],\"stop\":false,\"tokens_predicted\":1}");
    else if (!strcmp(f, "alien"))
        put_token(c, 999999);
    else if (!strcmp(f, "early"))
        put_end(c, "stop");
    else if (!strcmp(f, "freeze"))
        is_frozen = true;
    else if (!strcmp(f, "leak")) {
        leaks = true;
        return false;
    } else if (!strcmp(f, "die")) {
        fprintf(stderr, "some words\nCUDA error: as told\n");
        _exit(3);
    }
    c->is_stuck = !strcmp(f, "stop");
    c->ends = strcmp(f, "stop") != 0 && strcmp(f, "alien") != 0;
    return true;
}

static void put_whole(struct client *c)
{
    put(c, "{\"content\":\"\",\"tokens\":[");
    for (long i = 0; i < c->n && !has_fault(c, "empty"); i++)
        put(c, "%s%u", i ? "," : "", c->token[c->n_token - (size_t)c->n + (size_t)i]);
    put(c, "],\"stop\":true,\"stop_type\":\"limit\",\"tokens_predicted\":%ld}", c->n);
}

static void step(struct client *c)
{
    const long most = has_fault(c, "beyond") ? 2 * c->n_most : c->n_most;
    uint32_t id;

    if (misbehave(c))
        return;
    if (leaks)
        memset(spot_xcalloc(8, 1 << 20), 1, 8 << 20);
    id = next(c);
    if (!c->is_whole)
        put_token(c, id);
    c->n++;
    c->token = spot_xgrow(c->token, &c->cap_token, c->n_token + 1, sizeof(*c->token));
    c->token[c->n_token++] = id;
    if (id != END && c->n != most)
        return;
    c->ends = true;
    if (c->is_whole)
        put_whole(c);
    else
        put_end(c, id == END ? "stop" : "length");
    for (int i = 0; has_fault(c, "behind") && i < 3; i++)
        put_token(c, 'x');
}

static void serve(struct client *c, double now_s)
{
    char part[16384];
    ssize_t n;

    while (c->fd >= 0 && !c->is_alone && (n = recv(c->fd, part, sizeof(part), MSG_DONTWAIT)) >= 0) {
        if (!n) {
            lose(c);
            break;
        }
        spot_buf_add(&c->in, part, (size_t)n);
        if (!c->answers)
            take(c);
    }
    while (c->answers && !c->ends && !c->is_stuck && !is_frozen && now_s >= c->due_s &&
           c->out.n - c->sent < 65536) {
        step(c);
        c->due_s += (double)o.ms / 1e3;
    }
    while (c->fd >= 0 && c->sent < c->out.n) {
        n = send(c->fd, c->out.data + c->sent, c->out.n - c->sent, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno != EAGAIN)
            lose(c);
        if (c->is_alone) /* whether anybody takes it or not */
            n = (ssize_t)(c->out.n - c->sent);
        if (n <= 0)
            break;
        c->sent += (size_t)n;
    }
    if (c->sent == c->out.n)
        c->out.n = c->sent = 0;
    if (c->fd >= 0 && c->answers && c->ends && !c->out.n)
        drop(c);
}

static void greet(int listener)
{
    int fd;

    while ((fd = spot_endpoint_accept(listener)) >= 0) {
        size_t i = 0;

        while (i < CLIENTS && client[i].fd >= 0)
            i++;
        if (i == CLIENTS) {
            close(fd);
            continue;
        }
        client[i].fd = fd;
        epoll_ctl(poll_fd, EPOLL_CTL_ADD, fd, &(struct epoll_event){ .events = EPOLLIN });
    }
}

static void read_option(const char *text)
{
    const char *const value = strchr(text, '=');
    const struct {
        const char *name, **text;
        long *number;
    } known[] = { { "kind=", &o.kind, NULL },   { "model=", &o.model, NULL },
                  { "fault=", &o.fault, NULL }, { "start=", &o.start, NULL },
                  { "once=", &o.once, NULL },   { "log=", &o.log, NULL },
                  { "port=", &o.port, NULL },   { "ms=", NULL, &o.ms },
                  { "at=", NULL, &o.at },       { "after=", NULL, &o.after },
                  { "noise=", NULL, &o.noise }, { "stamp=", NULL, &o.stamp },
                  { "whose=", &o.whose, NULL } };

    for (size_t i = 0; value && i < sizeof(known) / sizeof(*known); i++)
        if (!strncmp(text, known[i].name, strlen(known[i].name))) {
            if (known[i].text)
                *known[i].text = value + 1;
            else
                *known[i].number = atol(value + 1);
            return;
        }
    fprintf(stderr, "engine: what is '%s'?\n", text);
    exit(2);
}

static void tell_port(const struct spot_endpoint *at)
{
    FILE *const f = o.port ? fopen(o.port, "w") : NULL;

    if (f) {
        fprintf(f, "%d\n", at->port);
        fclose(f);
    }
}

int main(int argc, char **argv)
{
    struct spot_endpoint at;
    struct spot_err err = { 0 };
    char address[64];
    int listener;

    parent = getppid();
    for (int i = 2; i < argc; i++)
        read_option(argv[i]);
    if (!strcmp(o.start, "exit") && is_time()) {
        fprintf(stderr, "no such model: as told\n");
        return 3;
    }
    snprintf(address, sizeof(address), "127.0.0.1:%s", argc > 1 ? argv[1] : "");
    for (size_t i = 0; i < CLIENTS; i++)
        client[i].fd = -1;
    poll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (spot_endpoint_parse(address, &at, &err) ||
        (listener = spot_endpoint_listen(&at, &err)) < 0) {
        fprintf(stderr, "engine: %s\n", err.msg);
        return 1;
    }
    tell_port(&at);
    epoll_ctl(poll_fd, EPOLL_CTL_ADD, listener, &(struct epoll_event){ .events = EPOLLIN });
    for (;;) {
        struct epoll_event some[64];
        double now_s;

        (void)epoll_wait(poll_fd, some, 64, 1);
        if (is_frozen) {
            spot_clock_sleep(0.05);
            continue;
        }
        greet(listener);
        now_s = spot_clock_s();
        for (size_t i = 0; i < CLIENTS; i++)
            if (client[i].fd >= 0)
                serve(&client[i], now_s);
    }
}
