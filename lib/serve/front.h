/* SPDX-License-Identifier: MIT */
/* front.h - the HTTP side of a server: OpenAI's requests in, answers and streams of events out.
 *
 * It knows nothing of workers. What it asks of the server is a table of functions; the server says
 * when a completion has got further. All in one thread: the loop of the group waits for
 * spot_front_fd and calls spot_front_run.
 */
#ifndef SPOT_SERVE_FRONT_H
#define SPOT_SERVE_FRONT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/buf.h"
#include "common/err.h"
#include "common/json_writer.h"
#include "serve/completion.h"
#include "text/chat.h"

#ifdef __cplusplus
extern "C" {
#endif

enum spot_admission {
    SPOT_ADMIT,
    SPOT_ADMIT_FULL,     /* 429 with Retry-After: the queue is full */
    SPOT_ADMIT_NOBODY,   /* 503 with Retry-After: no worker came for a while */
    SPOT_ADMIT_DRAINING, /* 503: this server ends */
};

struct spot_front_server {
    /* Takes the request in any case. With SPOT_ADMIT *completion is one reference. */
    enum spot_admission (*submit)(void *server, struct spot_request *request_take,
                                  struct spot_completion **completion);
    /* Its client has gone. The server decides how long a stream may wait for it to come back. */
    void (*abandon)(void *server, struct spot_completion *c);
    /* A client has come back to a stream: one reference, or NULL when there is none of this id. */
    struct spot_completion *(*rejoin)(void *server, const char *id);
    double (*retry_after_s)(void *server);
    enum spot_admission (*health)(void *server);
    void (*metrics)(void *server, struct spot_buf *out); /* lines of Prometheus */
    void (*status)(void *server, struct spot_jw *jw);    /* fields of an object, for the page */
    const char *(*worker_name)(void *server, uint32_t worker); /* NULL when not known any more */
};

struct spot_front_options {
    const char *address; /* 127.0.0.1:PORT, [::1]:PORT or unix:PATH; others need TLS and keys */
    const char *tls_cert, *tls_key; /* PEM files; NULL: plain HTTP */
    const char *api_key_file;       /* one key a line; NULL: none is asked for */
    const char *model;              /* its id */
    const struct spot_vocabulary *vocabulary;
    const struct spot_chat *chat; /* NULL: /v1/chat/completions is refused, with chat_why */
    const char *chat_why;
    int64_t n_context, n_vocabulary; /* of the model */
    uint32_t n_choice_max;           /* of a request, over all its prompts; 0: any number */
    size_t body_max_byte;
    unsigned n_connection_max;
    double idle_s; /* a connection that says nothing is closed */
};

struct spot_front;

/* Listens. NULL with *err: SPOT_EUSAGE, SPOT_EDATA, SPOT_ESYS. */
struct spot_front *spot_front_new(const struct spot_front_options *options,
                                  const struct spot_front_server *table, void *server,
                                  struct spot_err *err);
void spot_front_free(struct spot_front *front);      /* may be NULL; connections are closed */
int spot_front_port(const struct spot_front *front); /* 0 for a socket of Unix */
int spot_front_fd(const struct spot_front *front);   /* readable: call spot_front_run */
void spot_front_run(struct spot_front *front);
/* Tokens of it were committed, or it ended. Answers are written in the next spot_front_run. */
void spot_front_progress(struct spot_front *front, struct spot_completion *c);
/* What new requests are read by from now on: vocabulary, template of chats and sizes of the
 * options. */
void spot_front_set_model(struct spot_front *front, const struct spot_front_options *options);
/* Refuse new requests and say so in /health; what runs goes on. */
void spot_front_drain(struct spot_front *front);
/* Nothing is computed any more. After spot_front_progress of each completion, who waits for one
 * that has not ended is told `why` behind the tokens that are committed: 503, or an event. */
void spot_front_fail(struct spot_front *front, const char *why);
bool spot_front_is_idle(const struct spot_front *front); /* nothing is being answered */

/* --- the documents, without a network: for --batch and for tests ------------- */

/* An OpenAI body (of /v1/chat/completions if is_chat) to a request. Returns 0, or an HTTP status
 * with OpenAI's error object in *error. */
int spot_openai_parse(const struct spot_front_options *options, bool is_chat, const char *body,
                      size_t n_byte, struct spot_request *request, struct spot_buf *error);
/* The whole answer. */
void spot_openai_answer(const struct spot_front_options *options, const struct spot_completion *c,
                        struct spot_buf *out);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SERVE_FRONT_H */
