/* SPDX-License-Identifier: MIT */
/* rank_socket.h - the agent's Unix socket for requests of its ranks: one JSON object per line, each
 * answered by one line, in order.
 *
 *   {"op":"commit","step":7,"rank":0,"round":2}   ->   {"ok":true,"step":7}
 *   {"op":"commit","step":7,"rank":0,"round":1}   ->   {"error":"round 1 is over, ..."}
 *
 * A table lists the ops. An op is answered at once, or later: then only its connection waits.
 * Nothing here blocks: the caller polls the descriptors together with its own, and calls turn.
 *
 * Clients run as our user (the socket has mode 0600), but are not trusted: the length of a line,
 * the number of connections and the memory for each are bounded; when all connections are in use,
 * the rank with the most of them loses one to another rank; closing a connection cancels its
 * request, and a partial line is not a request. A rank of another round is refused if it gives its
 * round (TORCHELASTIC_RESTART_COUNT). Not thread-safe; ignore SIGPIPE. A function of the table may
 * answer only its own request: waiting ones are answered elsewhere.
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

#define SPOT_SOCKET_ENV "SPOT_SOCKET" /* path of the socket, in the environment of the ranks */

enum {
    SPOT_RANK_LINE_MAX = 1 << 16, /* bytes of a request; a longer one ends its connection */
    SPOT_RANK_CLIENTS_MAX = 512,  /* connections at a time; further ones wait to be accepted, */
    SPOT_RANK_SHARE_MAX = 64, /* unless a session (each rank leads one) has more than this number */
};

struct spot_rank_request {
    uint64_t ticket;                 /* identifies the request until it is answered; never 0 */
    int64_t rank;                    /* -1: not given */
    int64_t step;                    /* -1: not given */
    const struct spot_json_doc *doc; /* the whole request, valid until the function returns */
};

struct spot_rank_op {
    const char *name;
    /* Answer it: write members into `answer`, an open object that begins with "ok":true. Returns 0;
     * -1 with *err: the answer is {"error": its message}, and what was written is dropped; 1: the
     * answer will follow (spot_rank_socket_begin), and nothing was written. */
    int (*serve)(void *user, const struct spot_rank_request *request, struct spot_jw *answer,
                 struct spot_err *err);
    /* May be NULL. The request no longer waits for its answer: its client disconnected, or its
     * round is over. */
    void (*gone)(void *user, uint64_t ticket);
    void *user;
};

struct spot_rank_socket;

/* Listens at `path`, replacing a dead socket. The table, which ends with a row of NULL, and the
 * path are borrowed. NULL with *err. */
struct spot_rank_socket *spot_rank_socket_new(const char *path, const struct spot_rank_op *op,
                                              struct spot_err *err);
void spot_rank_socket_free(struct spot_rank_socket *socket); /* may be NULL; removes the path */

/* Set the current round; -1: none, and every request is refused. Waiting requests of another round
 * are answered with an error. */
void spot_rank_socket_set_round(struct spot_rank_socket *socket, int64_t round);

/* Fill set [1 + SPOT_RANK_CLIENTS_MAX] for poll(). Returns how many. */
size_t spot_rank_socket_wanted(const struct spot_rank_socket *socket, struct pollfd *set);
/* Do everything possible without waiting. */
void spot_rank_socket_turn(struct spot_rank_socket *socket);

/* Begin a delayed answer: an open object that begins with "ok":true; then call end. NULL if the
 * request no longer waits. */
struct spot_jw *spot_rank_socket_begin(struct spot_rank_socket *socket, uint64_t ticket);
void spot_rank_socket_end(struct spot_rank_socket *socket);
/* Answer with an error; no effect if the request no longer waits. */
void spot_rank_socket_refuse(struct spot_rank_socket *socket, uint64_t ticket, const char *why);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_HOST_RANK_SOCKET_H */
