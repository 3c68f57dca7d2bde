/* SPDX-License-Identifier: MIT */
/* front.h - the HTTP side of a server: takes OpenAI requests, sends answers and event streams.
 *
 * It does not know about workers. It calls the server through a table of functions; the server
 * reports progress of completions. The loop of the group polls spot_front_fd and calls
 * spot_front_run. Work that may take long, reading a large body and writing a large answer, is done
 * by a thread beside the loop (front_beside.c).
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
    SPOT_ADMIT_NOBODY,   /* 503 with Retry-After: no worker joined for a while */
    SPOT_ADMIT_DRAINING, /* 503: this server is shutting down */
};

struct spot_front_server {
    /* Takes the request in any case. With SPOT_ADMIT *completion is one reference. */
    enum spot_admission (*submit)(void *server, struct spot_request *request_take,
                                  struct spot_completion **completion);
    /* Its client disconnected. The server decides how long a stream waits for it to reconnect. */
    void (*abandon)(void *server, struct spot_completion *c);
    /* The client cancelled its request. */
    void (*cancel)(void *server, struct spot_completion *c);
    /* A client reconnects to a stream: one reference, or NULL if there is none of this id and
     * owner. */
    struct spot_completion *(*rejoin)(void *server, const char *id, uint64_t owner);
    /* Append the proof of a complete answer (proof_doc.h). Returns 0, or a status with an error
     * object in *out if there is none. */
    int (*proof)(void *server, const struct spot_completion *c, struct spot_buf *out);
    double (*retry_after_s)(void *server);
    enum spot_admission (*health)(void *server);
    void (*metrics)(void *server, struct spot_buf *out); /* in Prometheus's text format */
    void (*status)(void *server, struct spot_jw *jw);    /* fields of an object, for the page */
    const char *(*worker_name)(void *server, uint32_t worker); /* NULL when no longer known */
};

struct spot_front_options {
    const char *address; /* 127.0.0.1:PORT, [::1]:PORT or unix:PATH; others require TLS and keys */
    const char *tls_cert, *tls_key; /* PEM files; NULL: plain HTTP */
    const char *api_key_file;       /* one key a line; NULL: no key is required */
    const char *model;              /* its id */
    const char *aliases;            /* other names of it, separated by commas; NULL: none */
    const char *adapters; /* of the model, see adapter_list.h: each a model with a parent; NULL */
    const char *cors; /* allowed origins of web pages, separated by commas, or "*"; NULL: only this
                         server's own page */
    const struct spot_vocabulary *vocabulary;
    const struct spot_chat *chat; /* NULL: /v1/chat/completions is refused, with chat_why */
    const char *chat_why;
    uint8_t tool_form;               /* of the model, see tool_call.h; 0: SPOT_TOOL_JSON */
    int64_t n_context, n_vocabulary; /* of the model */
    int64_t n_state;                 /* numbers of an embedding; 0: not supported */
    enum spot_pool pool;             /* default pooling; SPOT_POOL_NONE: clients must specify it */
    uint32_t n_choice_max;           /* per request, over all its prompts; 0: no limit */
    bool may_verify;                 /* clients may request a check by another replica */
    size_t body_max_byte;
    unsigned n_connection_max;
    double idle_s; /* a silent connection is closed after this */
};

struct spot_front;

/* Starts listening. NULL with *err: SPOT_EUSAGE, SPOT_EDATA, SPOT_ESYS. */
struct spot_front *spot_front_new(const struct spot_front_options *options,
                                  const struct spot_front_server *table, void *server,
                                  struct spot_err *err);
void spot_front_free(struct spot_front *front);             /* may be NULL; closes connections */
int spot_front_port(const struct spot_front *front);        /* 0 for a Unix socket */
const char *spot_front_url(const struct spot_front *front); /* see spot_http_url */
int spot_front_fd(const struct spot_front *front); /* call spot_front_run when it is readable */
void spot_front_run(struct spot_front *front);
/* Tokens of a completion were committed, or it ended. The next spot_front_run writes answers. */
void spot_front_progress(struct spot_front *front, struct spot_completion *c);
/* Use these options for new requests from now on: vocabulary, chat template and sizes. */
void spot_front_set_model(struct spot_front *front, const struct spot_front_options *options);
/* True while a body is being read with this vocabulary, which must not be freed then. */
bool spot_front_is_reading(const struct spot_front *front,
                           const struct spot_vocabulary *vocabulary);
/* Refuse new requests and report it in /health; running ones continue. */
void spot_front_drain(struct spot_front *front);
/* Computing has ended. After spot_front_progress of each completion, clients of unfinished ones
 * receive `why` after the committed tokens, as 503 or an event. */
void spot_front_fail(struct spot_front *front, const char *why);
bool spot_front_is_idle(const struct spot_front *front); /* no request is being answered */

/* --- the documents, without a network: for --batch and for tests ------------- */

enum spot_api {
    SPOT_API_COMPLETIONS,
    SPOT_API_CHAT,
    SPOT_API_RESPONSES,
    SPOT_API_EMBEDDINGS,
    SPOT_API_TOKENIZE, /* not completions, see openai_tokens.c */
    SPOT_API_DETOKENIZE,
};

/* Convert an OpenAI body to a request. Returns 0, or an HTTP status with OpenAI's error object in
 * *error. */
int spot_openai_parse(const struct spot_front_options *options, enum spot_api api, const char *body,
                      size_t n_byte, struct spot_request *request, struct spot_buf *error);
/* The format of tool calls shown by the template, see tool_call.h. NULL: no template. */
uint8_t spot_openai_tool_form(const struct spot_chat *chat);
/* True for the id of the model, an alias, or the name of an adapter. *adapter, unless NULL, gets
 * the number of the adapter, 0: none. */
bool spot_front_has_model(const struct spot_front_options *options, const char *name,
                          uint32_t *adapter);
/* Write the whole answer. */
void spot_openai_answer(const struct spot_front_options *options, const struct spot_completion *c,
                        struct spot_buf *out);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SERVE_FRONT_H */
