/* SPDX-License-Identifier: MIT */
#include "serve/engine_client.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comm/http_client.h"
#include "common/clock.h"
#include "common/hash.h"
#include "common/xalloc.h"

static const double connect_s = 5;
static const double silent_steps = 20,
                    first_times = 30; /* multiples of the mean step time after which a stream is
                                         silent; of the time to the first token */
static const double ask_health_s = 2, answer_health_s = 10;

enum { LINE_MAX_BYTE = 1 << 20, TEXT_ROOM = 1024 };

/* A choice that the engine computes. */
struct stream {
    struct spot_engine_client *client;
    uint64_t number;
    uint32_t assignment, choice;
    struct spot_request request;
    uint32_t *token; /* [n] of the choice so far */
    size_t n, cap;
    size_t n_began;        /* number of tokens when it was assigned */
    int64_t n_counted;     /* number that max_tokens counts */
    int64_t n_most, n_got; /* tokens of the current answer: requested, received */
    bool ignores_end, is_whole, is_part;
    bool is_asked;  /* a request is in progress */
    bool is_over;   /* no more tokens of it are wanted */
    bool must_ask;  /* a request for the rest is needed */
    size_t n_asked; /* tokens at the last request; SIZE_MAX: there was none */
    int n_idle;     /* consecutive requests without tokens */
    /* grammar of the text after the tokens with which it began; n 0: none */
    struct spot_buf grammar;
    struct spot_buf line; /* incomplete line of the answer */
    double told_s;        /* time of its last token, or of the request */
};

struct spot_engine_client {
    struct spot_engine_config config;
    struct spot_http_client *http;
    struct stream **stream; /* [n] */
    size_t n, cap;
    struct spot_engine_told *told;
    size_t n_told, cap_told;
    struct spot_engine_failure *failure;
    size_t n_failure, cap_failure;
    bool is_told; /* the caller has read the two arrays above */
    struct spot_engine_event event;
    double step_s, told_s;         /* mean time between tokens of a stream; last token of any */
    bool is_asked_health, is_gone; /* is_gone: the engine accepts no connections */
    double health_s, unwell_s; /* time of the last health check; since when it has not answered */
};

struct spot_engine_client *spot_engine_client_new(const struct spot_engine_config *config,
                                                  struct spot_err *err)
{
    struct spot_http_client *const http = spot_http_client_new(err);
    struct spot_engine_client *const c = http ? spot_xcalloc(1, sizeof(*c)) : NULL;

    if (!c)
        return NULL;
    c->config = *config;
    c->http = http;
    c->health_s = spot_clock_s();
    return c;
}

static void free_stream(struct spot_engine_client *c, size_t i)
{
    struct stream *const s = c->stream[i];

    spot_http_client_drop(c->http, s);
    spot_request_release(&s->request);
    spot_buf_release(&s->line);
    spot_buf_release(&s->grammar);
    free(s->token);
    free(s);
    c->stream[i] = c->stream[--c->n];
}

void spot_engine_client_clear(struct spot_engine_client *c)
{
    while (c->n)
        free_stream(c, c->n - 1);
    c->n_told = c->n_failure = 0;
}

void spot_engine_client_free(struct spot_engine_client *c)
{
    if (!c)
        return;
    spot_engine_client_clear(c);
    spot_http_client_free(c->http);
    spot_engine_event_release(&c->event);
    free(c->stream);
    free(c->told);
    free(c->failure);
    free(c);
}

/* --- messages to the coordinator ----------------------------------------- */

static void begin_telling(struct spot_engine_client *c)
{
    if (c->is_told)
        c->n_told = c->n_failure = 0;
    c->is_told = false;
}

static void fail(struct stream *s, bool is_final, const char *why)
{
    struct spot_engine_client *const c = s->client;
    struct spot_engine_failure *f;

    if (s->is_over)
        return;
    c->failure = spot_xgrow(c->failure, &c->cap_failure, c->n_failure + 1, sizeof(*c->failure));
    f = &c->failure[c->n_failure++];
    *f = (struct spot_engine_failure){ .sequence = s->number,
                                       .assignment = s->assignment,
                                       .is_final = is_final };
    snprintf(f->why, sizeof(f->why), "%.180s", why);
    s->is_over = true;
}

static void keep(struct stream *s, uint32_t id)
{
    s->token = spot_xgrow(s->token, &s->cap, s->n + 1, sizeof(*s->token));
    s->token[s->n++] = id;
    s->n_counted += !s->client->config.is_text || spot_piece_counts(id);
}

static void tell(struct stream *s, const struct spot_token *token)
{
    struct spot_engine_client *const c = s->client;
    struct spot_engine_told *t;

    c->told = spot_xgrow(c->told, &c->cap_told, c->n_told + 1, sizeof(*c->told));
    t = &c->told[c->n_told++];
    *t = (struct spot_engine_told){ .sequence = s->number,
                                    .token = { .position = (uint32_t)s->n, .token = *token } };
    t->token.token.epoch = s->assignment;
    keep(s, token->id);
}

static void note_time(struct stream *s)
{
    struct spot_engine_client *const c = s->client;
    const double now_s = spot_clock_s();

    if (s->n_got)
        c->step_s =
            c->step_s > 0 ? 0.95 * c->step_s + 0.05 * (now_s - s->told_s) : now_s - s->told_s;
    s->told_s = c->told_s = now_s;
}

/* Tokens without requested logprobs have none. */
static void take_token(struct stream *s, const struct spot_token *token)
{
    struct spot_token t = *token;

    if (t.id >= s->client->config.n_vocabulary) {
        fail(s, false, "the engine tells a token that the model does not have");
        return;
    }
    if (s->request.n_logprob < 0)
        t.logprob = 0;
    t.n_top = s->request.n_logprob <= 0                  ? 0
              : t.n_top < (uint32_t)s->request.n_logprob ? t.n_top
                                                         : (uint32_t)s->request.n_logprob;
    note_time(s);
    tell(s, &t);
    s->n_got++;
}

/* Counts a piece of text as a token of the engine. */
static void take_text(struct stream *s, const struct spot_buf *text)
{
    if (!text->n)
        return;
    note_time(s);
    for (size_t i = 0; i < text->n; i++)
        tell(s, &(struct spot_token){ .id = text->data[i] |
                                            (i + 1 == text->n ? SPOT_PIECE_LAST : 0U) });
    s->n_got++;
}

/* --- an event ---------------------------------------------------------------------- */

static int64_t left(const struct stream *s)
{
    return s->request.n_token_max - s->n_counted;
}

/* The engine stopped early: the choice ends with an end token. */
static void take_stop(struct stream *s)
{
    const struct spot_engine_config *const config = &s->client->config;

    if (s->ignores_end) {
        fail(s, false, "the engine stopped although it was to ignore the end");
        return;
    }
    tell(s, &(struct spot_token){ .id = config->end });
    s->is_over = true;
}

/* The engine stopped at the requested length, or at its own limit. */
static void take_length(struct stream *s)
{
    if (s->n_got < s->n_most && !s->client->config.is_text) {
        fail(s, true, "the engine ended the answer at a limit of its own, such as its context");
        return;
    }
    s->is_over = !s->is_part || left(s) <= 0;
    if (s->is_over && left(s) > 0) /* pieces of several tokens, or all that the context holds */
        tell(s, &(struct spot_token){ .id = SPOT_PIECE_LENGTH });
    s->must_ask = !s->is_over;
}

/* llama-server omits ids of tokens that end within a character when streaming. A whole answer has
 * all of them, so the next few tokens are requested without streaming. */
static int64_t n_lacking(const struct stream *s, const struct spot_engine_event *e)
{
    if (s->client->config.is_text || s->is_whole || e->n_all < 0 || e->n_before >= 0)
        return 0;
    return e->n_all - s->n_got - (int64_t)e->n_token;
}

static void take_event(struct stream *s, const struct spot_engine_event *e)
{
    const int64_t known = e->n_before < 0 ? 0 : s->n_got - e->n_before;

    if (n_lacking(s, e) > 0) {
        s->must_ask = s->is_whole = true;
        s->n_most = e->n_all - s->n_got;
        return;
    }
    if (n_lacking(s, e) < 0) {
        fail(s, false, "the engine counts fewer tokens than it tells");
        return;
    }
    if (known < 0) {
        fail(s, false, "the engine left out tokens");
        return;
    }
    if (s->client->config.is_text && s->n_got < s->n_most)
        take_text(s, &e->text);
    for (size_t i = (size_t)known;
         !s->client->config.is_text && i < e->n_token && !s->is_over && s->n_got < s->n_most; i++)
        take_token(s, &e->token[i]);
    if (s->is_over)
        return;
    if (left(s) <= 0) /* whatever else the event says */
        s->is_over = true;
    else if (e->end == SPOT_ENGINE_LENGTH || s->n_got >= s->n_most)
        take_length(s);
    else if (e->end == SPOT_ENGINE_STOP)
        take_stop(s);
}

static void take_document(struct stream *s, const char *text, size_t n)
{
    struct spot_engine_client *const c = s->client;
    struct spot_err why = { 0 };

    if (spot_engine_event_read(c->config.preset, text, n, &c->event, &why))
        fail(s, false, why.msg);
    else
        take_event(s, &c->event);
}

/* A line of server-sent events or of JSON Lines. */
static void take_line(struct stream *s, const char *line, size_t n)
{
    static const char data[] = "data:";

    if (n && line[n - 1] == '\r')
        n--;
    if (!n || *line == ':' || (n > 5 && !strncmp(line, "event:", 6)))
        return;
    if (n >= sizeof(data) - 1 && !strncmp(line, data, sizeof(data) - 1)) {
        line += sizeof(data) - 1;
        n -= sizeof(data) - 1;
    }
    while (n && *line == ' ') {
        line++;
        n--;
    }
    if (n == 6 && !strncmp(line, "[DONE]", 6))
        fail(s, false, "the engine's stream ended without saying why");
    else
        take_document(s, line, n);
}

/* Called by curl; decisions made here are carried out after the wait. */
static bool on_part(void *user, const char *data, size_t n)
{
    struct stream *const s = user;

    while (n && !s->is_over && !s->must_ask) {
        const char *const end = memchr(data, '\n', n);
        const size_t n_line = end ? (size_t)(end - data) : n;

        if (s->line.n + n_line > LINE_MAX_BYTE) {
            fail(s, false, "the engine tells too much at once");
            break;
        }
        if (end && !s->line.n) {
            take_line(s, data, n_line);
        } else {
            spot_buf_add(&s->line, data, n_line);
            if (end) {
                const size_t all = s->line.n;

                s->line.n = 0;
                take_line(s, (const char *)s->line.data, all);
            }
        }
        data += n_line + (end != NULL);
        n -= n_line + (end != NULL);
    }
    return true;
}

static bool is_final(long status)
{
    return status == 400 || status == 404 || status == 413 || status == 422;
}

/* Take the text of an engine's error, or its start. */
static void fail_by_status(struct stream *s, const struct spot_http_reply *reply)
{
    char why[160];
    struct spot_err said = { 0 };

    if (!reply->n_byte || !spot_engine_event_read(s->client->config.preset, reply->body,
                                                  reply->n_byte, &s->client->event, &said))
        snprintf(said.msg, sizeof(said.msg), "nothing more");
    snprintf(why, sizeof(why), "HTTP %ld: %.120s", reply->status, said.msg);
    fail(s, is_final(reply->status), why);
}

static void on_done(void *user, const struct spot_http_reply *reply)
{
    struct stream *const s = user;

    s->is_asked = false;
    if (s->is_over || s->must_ask)
        return;
    if (reply->is_refused) { /* the worker leaves: the choice did not fail, and continues elsewhere
                              */
        s->client->is_gone = true;
        return;
    }
    if (!reply->status)
        fail(s, false, reply->why);
    else if (reply->status != 200)
        fail_by_status(s, reply);
    else if (s->line.n) /* the last line may lack a line end */
        take_line(s, (const char *)s->line.data, s->line.n);
    if (!s->is_over && !s->must_ask)
        fail(s, false, "the engine's answer broke off");
}

/* --- a request ---------------------------------------------------------------------- */

/* The seed of a position, the same for every engine. */
static uint32_t seed_of(const struct stream *s)
{
    const uint64_t key[] = { s->request.sample.seed, s->choice, s->n };

    return (uint32_t)(spot_hash64(key, sizeof(key)) & INT32_MAX);
}

/* Ends are ignored before the minimum number of tokens. */
static void plan_answer(struct stream *s)
{
    const int64_t least = s->request.n_token_min - s->n_counted;
    const int64_t n_byte = (int64_t)(s->request.n_prompt + s->n),
                  n_context = s->client->config.n_context;
    const int64_t room = n_context > n_byte + TEXT_ROOM ? n_context - n_byte : TEXT_ROOM;

    s->ignores_end = s->request.ignores_end || least > 0;
    if (!s->is_whole || s->n_most > left(s))
        s->n_most = left(s);
    if (s->client->config.is_text && s->n_most > room)
        s->n_most = room;
    s->is_part = s->is_whole || (!s->request.ignores_end && least > 0 && least < s->n_most);
    if (s->is_part && !s->is_whole)
        s->n_most = least;
    s->n_got = 0;
}

static void ask(struct stream *s)
{
    struct spot_engine_client *const c = s->client;
    char url[SPOT_HTTP_URL_MAX];
    struct spot_buf body = { 0 };
    struct spot_err why = { 0 };
    struct spot_http_ask question = { .method = "POST",
                                      .url = url,
                                      .header = { "Content-Type: application/json" },
                                      .connect_s = connect_s,
                                      .part = on_part };

    plan_answer(s);
    s->n_idle = s->n == s->n_asked ? s->n_idle + 1 : 0;
    s->n_asked = s->n;
    snprintf(url, sizeof(url), "%s%s", c->config.url, c->config.preset->complete);
    spot_engine_put_body(c->config.preset,
                         &(struct spot_engine_ask){ .request = &s->request,
                                                    .model = c->config.model,
                                                    .token = s->token,
                                                    .n = s->n,
                                                    .n_most = s->n_most,
                                                    .ignores_end = s->ignores_end,
                                                    .is_text = c->config.is_text,
                                                    .is_whole = s->is_whole,
                                                    .seed = seed_of(s),
                                                    .grammar = s->grammar.data,
                                                    .n_grammar = s->grammar.n },
                         &body);
    spot_buf_add(&body, "", 1);
    question.body = (const char *)body.data;
    s->must_ask = false;
    s->line.n = 0;
    s->told_s = spot_clock_s();
    s->is_asked = !spot_http_client_ask(c->http, &question, on_done, s, &why);
    if (!s->is_asked)
        fail(s, false, why.msg);
    spot_buf_release(&body);
}

int spot_engine_client_add(struct spot_engine_client *c, uint64_t number, uint32_t assignment,
                           struct spot_request *request_take, uint32_t choice,
                           const uint32_t *token, size_t n, const char *grammar, size_t n_grammar,
                           struct spot_err *err)
{
    struct stream *s;

    if (spot_engine_check(c->config.preset, request_take, c->config.is_text, err)) {
        spot_request_release(request_take);
        return -1;
    }
    begin_telling(c);
    spot_engine_client_drop(c, number);
    s = spot_xcalloc(1, sizeof(*s));
    s->client = c;
    s->number = number;
    s->assignment = assignment;
    s->choice = choice;
    s->n_asked = SIZE_MAX;
    s->request = *request_take;
    for (size_t i = 0; i < n; i++)
        keep(s, token[i]);
    s->n_began = n;
    spot_buf_add(&s->grammar, grammar, n_grammar);
    c->stream = spot_xgrow(c->stream, &c->cap, c->n + 1, sizeof(struct stream *));
    c->stream[c->n++] = s;
    if (left(s) > 0)
        ask(s);
    return 0;
}

void spot_engine_client_drop(struct spot_engine_client *c, uint64_t number)
{
    for (size_t i = 0; i < c->n; i++)
        if (c->stream[i]->number == number) {
            free_stream(c, i);
            return;
        }
}

/* --- the wait ------------------------------------------------------------------------- */

/* The first token may wait for other prompts, as long as other streams produce tokens, but at most
 * twice its limit, since the engine may have lost the request. */
static bool is_silent(const struct stream *s, double limit_s, double now_s)
{
    const double quiet_s = now_s - s->told_s, first_s = first_times * limit_s;

    if (s->n_got)
        return quiet_s > limit_s;
    return now_s - fmax(s->told_s, s->client->told_s) > first_s || quiet_s > 2 * first_s;
}

static void look_for_silence(struct spot_engine_client *c, double now_s)
{
    const double limit_s = fmax(c->config.silent_s, silent_steps * c->step_s);

    for (size_t i = 0; i < c->n; i++) {
        struct stream *const s = c->stream[i];

        if (s->is_asked && is_silent(s, limit_s, now_s))
            fail(s, false,
                 s->n_got ? "the engine stopped in the middle of an answer"
                          : "the engine does not begin an answer");
    }
}

static void carry_out(struct spot_engine_client *c)
{
    for (size_t i = c->n; i-- > 0;) {
        struct stream *const s = c->stream[i];

        if (s->is_over) {
            free_stream(c, i);
        } else if (s->must_ask && s->grammar.n && s->n > s->n_began) {
            fail(s, false, "the rest of its form must be told anew");
            c->failure[c->n_failure - 1].is_anew = true;
            free_stream(c, i);
        } else if (s->must_ask && s->n == s->n_asked && s->n_idle) { /* no tokens at all */
            fail(s, false, "the engine tells no tokens");
            free_stream(c, i);
        } else if (s->must_ask) {
            spot_http_client_drop(c->http, s);
            s->is_asked = false;
            ask(s);
            s->is_whole = false;
        }
    }
}

static void on_health(void *user, const struct spot_http_reply *reply)
{
    struct spot_engine_client *const c = user;

    c->is_asked_health = false;
    if (reply->status == 200)
        c->unwell_s = 0;
    else if (c->unwell_s <= 0)
        c->unwell_s = c->health_s;
}

static void ask_health(struct spot_engine_client *c, double now_s)
{
    char url[SPOT_HTTP_URL_MAX];
    const struct spot_http_ask question = {
        .method = "GET", .url = url, .connect_s = connect_s, .limit_s = answer_health_s
    };

    if (c->is_asked_health || now_s - c->health_s < ask_health_s)
        return;
    c->health_s = now_s;
    snprintf(url, sizeof(url), "%s%s", c->config.url, c->config.preset->health);
    c->is_asked_health = !spot_http_client_ask(c->http, &question, on_health, c, NULL);
}

double spot_engine_client_unwell_s(const struct spot_engine_client *c)
{
    return c->is_gone ? INFINITY : c->unwell_s > 0 ? spot_clock_s() - c->unwell_s : 0;
}

int spot_engine_client_wait(struct spot_engine_client *c, const int *fd, size_t n_fd, double wait_s,
                            struct spot_err *err)
{
    double now_s;

    begin_telling(c);
    if (spot_http_client_wait(c->http, fd, n_fd, wait_s, err))
        return -1;
    now_s = spot_clock_s();
    look_for_silence(c, now_s);
    ask_health(c, now_s);
    carry_out(c);
    return 0;
}

const struct spot_engine_told *spot_engine_client_told(struct spot_engine_client *c, size_t *n)
{
    c->is_told = true;
    *n = c->n_told;
    return c->told;
}

const struct spot_engine_failure *spot_engine_client_failures(struct spot_engine_client *c,
                                                              size_t *n)
{
    c->is_told = true;
    *n = c->n_failure;
    return c->failure;
}
