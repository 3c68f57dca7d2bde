/* SPDX-License-Identifier: MIT */
/* http.h - a small HTTP server in its caller's event loop: requests arrive whole, responses are
 * sent whole or as a stream that is pulled.
 *
 * HTTP/1.1 as in RFC 9112, parsed strictly (http_head.h); HTTPS with TLS 1.2 and 1.3.
 * Single-threaded. Everything is bounded: headers, bodies, connections, silence. A disconnect of a
 * client is detected at once, even while its request waits.
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
                            TLS any IP address */
    const char *tls_cert, *tls_key; /* PEM files, both or neither */
    size_t body_max_byte;           /* a larger body is answered 413 */
    size_t bodies_max_byte;         /* all bodies held at once; beyond that, 503 */
    unsigned n_connection_max;      /* further ones are closed immediately */
    double idle_s; /* a connection is closed after this silence, or when a request takes this long
                      to arrive, plus a second for each 16 KiB of its body */
    /* May be NULL. The headers of a request with a body have arrived: if it is answered now, its
     * body is dropped, and `called` and `gone` do not follow. */
    void (*received)(void *user, struct spot_http_call *call);
    /* A request has arrived: answer it now or later. Its body is available until this returns. */
    void (*called)(void *user, struct spot_http_call *call);
    /* A request is over: answered, or its client disconnected. Called once for each request that
     * was `called`. */
    void (*gone)(void *user, struct spot_http_call *call);
    void *user;
};

/* Starts listening. NULL with *err: SPOT_EUSAGE, SPOT_EDATA (a certificate), SPOT_ESYS. */
struct spot_http *spot_http_new(const struct spot_http_options *options, struct spot_err *err);
void spot_http_free(struct spot_http *http);      /* may be NULL; ends all calls */
int spot_http_port(const struct spot_http *http); /* 0 for a Unix socket */
/* "http://HOST:PORT", "https://HOST:PORT", or "unix:PATH": where it listens. */
const char *spot_http_url(const struct spot_http *http);
int spot_http_fd(const struct spot_http *http); /* call spot_http_run when it is readable */
/* Do everything possible without waiting; to be called at least once a second. */
void spot_http_run(struct spot_http *http);

/* --- a request ----------------------------------------------------------------- */

const char *spot_http_method(const struct spot_http_call *call);
const char *spot_http_path(const struct spot_http_call *call); /* without the query */
const char *spot_http_header(const struct spot_http_call *call, const char *name); /* NULL: none */
/* The requested host, from the target or the Host header; NULL: none, in HTTP/1.0. */
const char *spot_http_host(const struct spot_http_call *call);
const struct spot_buf *spot_http_body(const struct spot_http_call *call);
void spot_http_set_data(struct spot_http_call *call, void *data);
void *
spot_http_data(const struct spot_http_call *call); /* the value set by the owner, NULL at first */
bool spot_http_is_answered(const struct spot_http_call *call);

/* Add a header to the response, or replace its value; before the response is given. */
void spot_http_add_header(struct spot_http_call *call, const char *name, const char *value);
/* Give the response; the bytes are copied. */
void spot_http_answer(struct spot_http_call *call, unsigned status, const char *content_type,
                      const void *body, size_t n_byte);

/* A response of unknown length. `pull` puts up to n bytes into data[] and returns how many, 0:
 * nothing now (spot_http_wake tells when), or -1: the end. */
typedef ssize_t (*spot_http_pull)(void *user, struct spot_http_call *call, char *data, size_t n);
void spot_http_stream(struct spot_http_call *call, const char *content_type, spot_http_pull pull);
void spot_http_wake(struct spot_http_call *call);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_COMM_HTTP_H */
