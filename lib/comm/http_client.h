/* SPDX-License-Identifier: MIT */
/* http_client.h - small requests to a server, from one thread.
 *
 * For the metadata service of a cloud, whose data are secret and untrusted: without TLS only URLs
 * that pass spot_http_url_check are to be requested. Never uses a proxy, whatever the environment
 * says; a redirect is returned like any other answer, not followed. Time and size of an answer are
 * bounded. libcurl implements the protocol.
 */
#ifndef SPOT_COMM_HTTP_CLIENT_H
#define SPOT_COMM_HTTP_CLIENT_H

#include <stdbool.h>
#include <stddef.h>

#include "common/err.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    SPOT_HTTP_URL_MAX = 512,
    SPOT_HTTP_ANSWER_MAX = 1 << 20, /* bytes of a body; more is a failure */
    SPOT_HTTP_HEAD_MAX = 16 << 10,  /* of all header lines */
    SPOT_HTTP_HEADERS_MAX = 4,      /* of a request */
};

struct spot_http_client;

struct spot_http_ask {
    const char *method;                        /* "GET", "PUT", "POST" */
    const char *url;                           /* must pass spot_http_url_check */
    const char *header[SPOT_HTTP_HEADERS_MAX]; /* "Name: value"; ends with NULL */
    const char *body;                          /* NULL: none */
    double connect_s, limit_s; /* time limits for connecting, and for the whole answer; 0: none */
    /* If not NULL, receives the body of an answer with status 200 in pieces, of any length; the
     * reply then has no body. Return false to end the transfer. It must not call
     * spot_http_client_ask or _drop. */
    bool (*part)(void *user, const char *data, size_t n_byte);
};

/* Valid until `done` returns. */
struct spot_http_reply {
    long status;      /* 0: no complete answer; `why` gives the reason */
    const char *why;  /* NULL if there is a status */
    bool is_refused;  /* the connection was refused */
    const char *body; /* [n_byte], followed by a NUL */
    size_t n_byte;
    const char *head; /* the header lines; see spot_http_reply_header */
};

typedef void (*spot_http_done)(void *user, const struct spot_http_reply *reply);

/* Accepts http://ADDRESS[:PORT], where ADDRESS is numeric and of this machine (127.0.0.1, [::1]) or
 * of its link (169.254.0.0/16, [fe80::/10], and [fd00:ec2::254], which is a cloud's). Returns 0, or
 * -1 with *err (SPOT_EUSAGE). */
int spot_http_url_check(const char *url, struct spot_err *err);

/* NULL with *err (SPOT_ESYS). */
struct spot_http_client *spot_http_client_new(struct spot_err *err);

/* PEM files, which must outlive the client. */
struct spot_http_tls {
    const char *ca;         /* the only CA that servers are verified against */
    const char *cert, *key; /* client certificate and key; NULL: none */
};
/* A client for https:// URLs only, of any host. NULL with *err (SPOT_ESYS). */
struct spot_http_client *spot_http_client_new_tls(const struct spot_http_tls *tls,
                                                  struct spot_err *err);
void spot_http_client_free(
    struct spot_http_client *client); /* NULL: no effect; pending `done` are not called */

/* Send a request; all of *ask is copied. `done` is called once, from spot_http_client_wait. Returns
 * 0, or -1 with *err (SPOT_ESYS) and `done` is not called. */
int spot_http_client_ask(struct spot_http_client *client, const struct spot_http_ask *ask,
                         spot_http_done done, void *user, struct spot_err *err);

/* Cancel the requests of this user; their `done` is not called. */
void spot_http_client_drop(struct spot_http_client *client, const void *user);

/* Wait until data of an answer have come, one of fd[n_fd] is readable or hung up, or timeout_s is
 * over; call `done` for each complete answer. Returns 0, or -1 with *err (SPOT_ESYS). */
int spot_http_client_wait(struct spot_http_client *client, const int *fd, size_t n_fd,
                          double timeout_s, struct spot_err *err);

/* Copy the value of a header into text[n], without surrounding blanks; "" if it is missing or
 * longer. Returns whether it exists. */
bool spot_http_reply_header(const struct spot_http_reply *reply, const char *name, char *text,
                            size_t n);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_COMM_HTTP_CLIENT_H */
