/* SPDX-License-Identifier: MIT */
/* http_state.h - connections and calls of a server; private to lib/comm/http*.c. */
#ifndef SPOT_COMM_HTTP_STATE_H
#define SPOT_COMM_HTTP_STATE_H

#include "comm/endpoint.h"
#include "comm/http.h"
#include "comm/http_head.h"
#include "comm/tls.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_http {
    struct spot_http_options options;
    struct spot_endpoint endpoint;
    struct spot_tls_context *tls; /* NULL: in the clear */
    char url[SPOT_ADDRESS_MAX + 24];
    int listener, fd, more; /* fd is an epoll of the listener, all connections, and `more`, which
                               signals ready ones */
    bool is_paused;         /* out of descriptors: the listener is not polled for a while */
    struct spot_http_line *first; /* all connections, a list */
    size_t n_line;
    struct spot_http_line **ready; /* [n_ready] connections with work to do; NULL: closed */
    size_t n_ready, cap_ready;
    const struct spot_http_line *current; /* the connection being served */
    double looked_s;
    size_t n_held; /* bytes of all bodies */
};

/* A connection: one call at a time. */
struct spot_http_line {
    struct spot_http *http;
    struct spot_http_line *next, *before;
    int fd;
    struct spot_tls *tls; /* owns fd; NULL: in the clear */
    uint32_t events;      /* polled events */
    double due_s; /* when it is closed. Not every byte extends it, since a peer could send one now
                     and then. INFINITY: the call waits for its owner */
    struct spot_buf in, out;
    size_t n_seen,
        n_sent; /* bytes of `in` searched for the end of a head; bytes of `out` already sent */
    struct spot_http_call *call;
    size_t n_dropped;
    double linger_end_s;
    bool is_ready, has_ended; /* the client has ended its side */
    bool closes, lingers;     /* no other call follows `out`; this side is closed, too */
};

enum spot_http_call_state {
    SPOT_HTTP_OPEN,     /* the answer waits for its turn */
    SPOT_HTTP_ANSWERED, /* the answer waits for its turn */
    SPOT_HTTP_STREAMING,
    SPOT_HTTP_SENT, /* the answer is in the connection's output */
};

enum { SPOT_HTTP_ADDED_MAX = 12 };

struct spot_http_call {
    struct spot_http *http;
    struct spot_http_line *line;
    enum spot_http_call_state state;
    struct spot_http_head head;
    struct spot_buf body;
    struct spot_http_chunks chunks;
    int64_t n_left;   /* remaining bytes of the body, if known */
    size_t n_refused; /* bytes beyond the limit of a body */
    bool is_reading;  /* the body is being read */
    bool is_notified; /* `called` was called */
    unsigned refusal; /* HTTP status with which the body is refused; 0: none */
    void *data;
    unsigned status;
    const char *content_type;
    struct spot_buf answer_body; /* the answer's body */
    spot_http_pull pull;         /* NULL: no stream */
    struct {
        char *name, *value;
    } header[SPOT_HTTP_ADDED_MAX];
    size_t n_header;
};

/* http.c: put the connection on the list of ready ones. */
void spot_http_ready(struct spot_http_line *l);

/* http_call.c: consume a part of the input; append the next part of the answer to the output.
 * False: nothing was done. */
bool spot_http_consume(struct spot_http_line *l);
bool spot_http_produce(struct spot_http_line *l);
/* End the call, complete or not. */
void spot_http_end_call(struct spot_http_line *l);
/* True if the answer is complete in the output, so that the client may disconnect. */
bool spot_http_is_sent(const struct spot_http_call *call);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_COMM_HTTP_STATE_H */
