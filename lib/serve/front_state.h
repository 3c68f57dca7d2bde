/* SPDX-License-Identifier: MIT */
/* front_state.h - shared by the parts of a front; private to lib/serve/front*.c. */
#ifndef SPOT_SERVE_FRONT_STATE_H
#define SPOT_SERVE_FRONT_STATE_H

#include "comm/http.h"
#include "comm/http_key.h"
#include "common/desk.h"
#include "serve/front.h"
#include "serve/openai_state.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_front {
    struct spot_front_options options;
    const struct spot_front_server *table;
    void *server;
    struct spot_http *http;
    struct spot_http_keys *keys; /* NULL: no key is required */
    struct spot_desk *desk;
    int fd;                             /* covers those of http and of the desk */
    struct spot_front_reading *reading; /* bodies at the desk */
    bool reads_beside;                  /* bytes of all bodies */
    size_t reading_byte;
    size_t at_once_byte; /* bytes of bodies read in this turn of the loop */
    size_t n_exchange;
    int64_t began_s;
    bool is_draining;
    char *failure; /* why serving has ended; NULL: it continues */
};

/* A call whose body is being read, or that waits for a completion, or receives it as a stream. */
struct spot_exchange {
    struct spot_front *front;
    struct spot_http_call *call;
    struct spot_completion *c; /* NULL: its body is being read */
    /* next exchange of the same completion, whose `front` is the first */
    struct spot_exchange *next;
    struct spot_exchange **at_desk; /* the job's own pointer to this one; NULL: there is none */
    size_t *cursor; /* [n_choice] of a stream: the next position to send; NULL: not a stream */
    struct spot_response_stream response; /* position in its events */
    struct spot_buf out;                  /* the chunk being sent */
    size_t n_sent;
    bool has_said_all, tells_worker;
};

enum { SPOT_FRONT_BODIES_MAX = 8 }; /* bodies of the largest size that are held at once */

/* front.c: a body was read: `status` 0 with a request, which is taken, or a status and an error. */
void spot_front_take(struct spot_exchange *x, int status, struct spot_request *request_take,
                     const struct spot_buf *error);
void spot_front_complete(struct spot_front *f, struct spot_http_call *call, enum spot_api api);
void spot_front_rejoin(struct spot_front *f, struct spot_http_call *call, const char *rest);
void spot_front_answer_error(struct spot_http_call *call, int status, const char *type,
                             const char *code, const char *message);
void spot_front_answer_not_now(struct spot_front *f, struct spot_http_call *call,
                               enum spot_admission why);
void spot_front_answer_json(struct spot_http_call *call, int status, const struct spot_buf *body);

/* front_route.c: whether the rest of a path is ID/proof; handle requests that need no body; handle
 * the others. */
bool spot_front_is_proof(const char *rest);
void spot_front_gate(void *user, struct spot_http_call *call);
void spot_front_called(void *user, struct spot_http_call *call);

/* front_beside.c: read a body; write a whole answer. Small ones are processed on the loop, others
 * in a thread. False: too many bodies wait to be read. */
bool spot_front_read(struct spot_exchange *x, enum spot_api api, const struct spot_buf *body);
void spot_front_write(struct spot_exchange *x);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SERVE_FRONT_STATE_H */
