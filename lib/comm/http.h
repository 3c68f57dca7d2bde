/* SPDX-License-Identifier: MIT */
/* http.h - a small HTTP server in somebody else's loop: calls come in whole, answers go out whole
 * or as a stream that is pulled.
 *
 * One thread. Everything is bounded: headers, bodies, connections, silence. A client that goes is
 * noticed within a second, also while its call waits. libmicrohttpd speaks the protocol.
 */
#ifndef SPOT_COMM_HTTP_H
#define SPOT_COMM_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/buf.h"
#include "common/err.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_http;
struct spot_http_call; /* from `called` until `gone` */

struct spot_http_options {
    const char *address; /* unix:PATH, 127.0.0.1:PORT, [::1]:PORT; port 0: the kernel chooses. With
                          * TLS any IP address */
    const char *tls_cert, *tls_key; /* PEM files, both or neither */
    size_t body_max_byte;           /* a larger body is answered 413 */
    size_t bodies_max_byte;    /* of all that are held at once; beyond, they are answered 503 */
    unsigned n_connection_max; /* more are closed as they come */
    double idle_s; /* a connection that is silent so long is closed, and one on which a call took
                    * so long to come, a second more for each 16 KiB of its body */
    /* May be NULL. The headers of a call with a body are there: if it is answered now, its body is
     * not kept, and `called` and `gone` do not follow. */
    void (*heard)(void *user, struct spot_http_call *call);
    /* A call is there: answer it now or later. Its body is there until this returns. */
    void (*called)(void *user, struct spot_http_call *call);
    /* It is over: answered, or its client went before. Once for each call that was `called`. */
    void (*gone)(void *user, struct spot_http_call *call);
    void *user;
};

/* Listens. NULL with *err: SPOT_EUSAGE, SPOT_EDATA (a certificate), SPOT_ESYS. */
struct spot_http *spot_http_new(const struct spot_http_options *options, struct spot_err *err);
void spot_http_free(struct spot_http *http);      /* may be NULL; calls are gone */
int spot_http_port(const struct spot_http *http); /* 0 for a Unix socket */
int spot_http_fd(const struct spot_http *http);   /* readable: run */
/* Do what can be done without waiting; at least every second. */
void spot_http_run(struct spot_http *http);

/* --- a call ------------------------------------------------------------------ */

const char *spot_http_method(const struct spot_http_call *call);
const char *spot_http_path(const struct spot_http_call *call); /* without the query */
const char *spot_http_header(const struct spot_http_call *call, const char *name); /* NULL: none */
const struct spot_buf *spot_http_body(const struct spot_http_call *call);
void spot_http_set_data(struct spot_http_call *call, void *data);
void *spot_http_data(const struct spot_http_call *call); /* NULL at first */
bool spot_http_is_answered(const struct spot_http_call *call);

/* One more header of the answer; before it is given. */
void spot_http_add_header(struct spot_http_call *call, const char *name, const char *value);
/* The answer; the bytes are copied. */
void spot_http_answer(struct spot_http_call *call, unsigned status, const char *content_type,
                      const void *body, size_t n_byte);

/* An answer of unknown length. `pull` puts up to n bytes into data[] and returns how many, 0: there
 * is nothing now (spot_http_wake says when), or -1: that was all. */
typedef ssize_t (*spot_http_pull)(void *user, struct spot_http_call *call, char *data, size_t n);
void spot_http_stream(struct spot_http_call *call, const char *content_type, spot_http_pull pull);
void spot_http_wake(struct spot_http_call *call);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_COMM_HTTP_H */
