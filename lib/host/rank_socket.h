/* SPDX-License-Identifier: MIT */
/* rank_socket.h - a Unix socket of the agent at which its ranks ask: one JSON object a line, each
 * answered by one line, in order.
 *
 *   {"op":"commit","step":7,"rank":0,"round":2}   ->   {"ok":true,"step":7}
 *   {"op":"commit","step":7,"rank":0,"round":1}   ->   {"error":"round 1 is over, ..."}
 *
 * Which ops there are is said by a table. An op is answered at once, or later: its connection then
 * waits, the others do not. Nothing here blocks: the caller waits for the descriptors together with
 * what else it waits for, and calls turn.
 *
 * Whoever connects runs as our user (the socket has mode 0600), and is not trusted all the same: a
 * line, the number of connections and what is kept for each are bounded; a connection that is
 * closed takes its request along, and half a line is no request. A rank of another round is refused
 * where it says its round (TORCHELASTIC_RESTART_COUNT). Not thread-safe; ignore SIGPIPE. A function
 * of the table answers its own request and no other one: those that wait are answered elsewhere.
 */
#ifndef SPOT_HOST_RANK_SOCKET_H
#define SPOT_HOST_RANK_SOCKET_H

#include <poll.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/json.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SPOT_SOCKET_ENV "SPOT_SOCKET" /* its path, in the environment of the ranks */

enum {
    SPOT_RANK_LINE_MAX = 1 << 16, /* bytes of a request; a longer one ends its connection */
    SPOT_RANK_CLIENTS_MAX = 512,  /* at once; more of them wait to be taken in */
};

struct spot_rank_request {
    uint64_t ticket;                 /* names the request until it is answered; never 0 */
    int64_t rank;                    /* -1: it did not say */
    int64_t step;                    /* -1: it did not say */
    const struct spot_json_doc *doc; /* all it said, until the function returns */
};

struct spot_rank_op {
    const char *name;
    /* Answer it: write members into `answer`, an open object that begins with "ok":true. Returns 0;
     * -1 with *err: {"error": what it says} is the answer, and what was written is dropped; 1: the
     * answer comes later (spot_rank_socket_begin), and nothing was written. */
    int (*serve)(void *user, const struct spot_rank_request *request, struct spot_jw *answer,
                 struct spot_err *err);
    /* May be NULL. Nobody waits any more for the answer that was to come later: it hung up, or its
     * round is over. */
    void (*gone)(void *user, uint64_t ticket);
    void *user;
};

struct spot_rank_socket;

/* Listens at `path`, in place of a socket that nobody answers at. The table, which ends with a row
 * of NULL, and the path are borrowed. NULL with *err. */
struct spot_rank_socket *spot_rank_socket_new(const char *path, const struct spot_rank_op *op,
                                              struct spot_err *err);
void spot_rank_socket_free(struct spot_rank_socket *socket); /* may be NULL; removes the path */

/* Which round runs from now on, -1: none, and every request is refused. Requests of another one
 * that wait are answered with an error. */
void spot_rank_socket_set_round(struct spot_rank_socket *socket, int64_t round);

/* What to wait for, into set [1 + SPOT_RANK_CLIENTS_MAX]. Returns how many. */
size_t spot_rank_socket_wanted(const struct spot_rank_socket *socket, struct pollfd *set);
/* Do all that can be done without waiting. */
void spot_rank_socket_turn(struct spot_rank_socket *socket);

/* The answer that was to come later: an open object that begins with "ok":true, then end. NULL when
 * nobody waits for it any more. */
struct spot_jw *spot_rank_socket_begin(struct spot_rank_socket *socket, uint64_t ticket);
void spot_rank_socket_end(struct spot_rank_socket *socket);
/* It is an error; no effect when nobody waits for it any more. */
void spot_rank_socket_refuse(struct spot_rank_socket *socket, uint64_t ticket, const char *why);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_HOST_RANK_SOCKET_H */
