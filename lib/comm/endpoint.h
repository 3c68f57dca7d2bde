/* SPDX-License-Identifier: MIT */
/* endpoint.h - addresses to listen at and connect to: Unix sockets and TCP.
 *
 * Unix sockets are created with mode 0600. An address that other machines can reach is accepted
 * only from callers that ask for it, because they use TLS there.
 */
#ifndef SPOT_COMM_ENDPOINT_H
#define SPOT_COMM_ENDPOINT_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include <sys/types.h>

#include "common/err.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_ADDRESS_MAX = 128 };

enum spot_endpoint_kind { SPOT_ENDPOINT_UNIX, SPOT_ENDPOINT_TCP4, SPOT_ENDPOINT_TCP6 };

struct spot_endpoint {
    enum spot_endpoint_kind kind;
    char path[SPOT_ADDRESS_MAX]; /* UNIX */
    uint8_t ip[16];              /* TCP4: the first four; TCP6 */
    uint32_t scope;              /* TCP6: the interface of a link-local address, else 0 */
    uint16_t port;               /* TCP; 0 lets the kernel choose when listening */
};

enum spot_reach {
    SPOT_REACH_HERE,    /* unix:PATH, 127.0.0.1, localhost, [::1]: only this machine can connect */
    SPOT_REACH_NUMERIC, /* also any IP address */
    SPOT_REACH_NAMES,   /* also host names; asks the resolver, which may take long */
};

/* "unix:PATH", "HOST:PORT", "[IPV6]:PORT", as far as `reach` allows; for a name its first address.
 * Returns 0, or -1 with *err (SPOT_EUSAGE): not allowed by `reach`, too long, no port; SPOT_ESYS: a
 * name that does not resolve. */
int spot_endpoint_parse_reach(const char *text, enum spot_reach reach,
                              struct spot_endpoint *endpoint, struct spot_err *err);

/* The same with SPOT_REACH_HERE. */
int spot_endpoint_parse(const char *text, struct spot_endpoint *endpoint, struct spot_err *err);

/* True if only this machine can connect to it. */
bool spot_endpoint_is_private(const struct spot_endpoint *endpoint);
/* True if both are TCP with the same IP address, whatever the ports. */
bool spot_endpoint_is_same_host(const struct spot_endpoint *a, const struct spot_endpoint *b);
/* True for 0.0.0.0 or [::], which means all addresses of this machine and must not be given to
 * others. */
bool spot_endpoint_is_any(const struct spot_endpoint *endpoint);

/* Write the text form into a buffer of SPOT_ADDRESS_MAX + 8 bytes. */
void spot_endpoint_print(const struct spot_endpoint *endpoint, char *text);

/* Make the path of a Unix socket absolute and free of symbolic links. Left unchanged if it would be
 * too long for a socket address, or its folder does not exist. */
void spot_endpoint_make_absolute(struct spot_endpoint *endpoint);

/* A non-blocking, close-on-exec listener; a port chosen by the kernel is written back. A Unix
 * socket left by a dead process is replaced, a live one is not. Returns the descriptor, -1 with
 * *err. */
int spot_endpoint_listen(struct spot_endpoint *endpoint, struct spot_err *err);

/* Close the listener, and remove its Unix socket, unless another process listens there by now or
 * the path is not a socket. */
void spot_endpoint_unlisten(const struct spot_endpoint *endpoint, int listener);

/* Remove a Unix socket at least this old that no longer accepts connections; does not wait. No
 * effect for TCP. Age 0: any age; a time of creation in the future counts as now. */
void spot_endpoint_drop_stale(const struct spot_endpoint *endpoint, time_t age_s);

/* Remove the sockets PATH.* at least this old that no longer accept connections: killed workers
 * leave theirs, and one that has just started does not answer yet. No effect for TCP. */
void spot_endpoint_sweep(const struct spot_endpoint *endpoint, time_t age_s);

/* A connected, non-blocking, close-on-exec descriptor, or -1 with *err (SPOT_ESYS), within five
 * seconds. */
int spot_endpoint_connect(const struct spot_endpoint *endpoint, struct spot_err *err);
/* The same for the text form: the addresses of a name are tried in order, eight at most, five
 * seconds each; *reached, unless NULL, gets the one that answered. -1 with *err as for
 * spot_endpoint_parse_reach, or SPOT_ESYS: the error of the last address. */
int spot_endpoint_dial(const char *text, enum spot_reach reach, struct spot_endpoint *reached,
                       struct spot_err *err);
/* The same within limit_s altogether, excluding the resolver's time. */
int spot_endpoint_dial_within(const char *text, enum spot_reach reach, double limit_s,
                              struct spot_endpoint *reached, struct spot_err *err);
/* Start connecting, without waiting: failures may show on first use. */
int spot_endpoint_start(const struct spot_endpoint *endpoint, struct spot_err *err);

/* The IP address and port that a TCP socket is bound to. Returns 0, or -1 with *err. */
int spot_endpoint_bound(int fd, struct spot_endpoint *endpoint, struct spot_err *err);
/* The same for the other end of a connection. */
int spot_endpoint_remote(int fd, struct spot_endpoint *endpoint, struct spot_err *err);
/* spot_endpoint_bound without the port. */
int spot_endpoint_local(int fd, struct spot_endpoint *endpoint, struct spot_err *err);

/* Accept the next connection, non-blocking and close-on-exec; -1 if there is none. */
int spot_endpoint_accept(int listener);

/* Process id of the peer of a Unix socket, at the time of its connect; 0: not known. */
pid_t spot_endpoint_process(int fd);

/* A non-blocking, close-on-exec pipe, to wake a poll(). Returns 0 or -1 with errno. */
int spot_endpoint_pipe(int end[2]);
/* Two connected Unix sockets that keep the bounds of messages, otherwise as above. The process of
 * each one's peer is the caller. */
int spot_endpoint_pair(int end[2]);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_COMM_ENDPOINT_H */
