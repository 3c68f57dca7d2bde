/* SPDX-License-Identifier: MIT */
/* migrate_net.h - the ways by which send and recv find each other, as ports.
 *
 * Unix sockets and loopback TCP as they are; any other address only with a key, over TLS; a
 * command's standard input and output (ssh), or our own.
 */
#ifndef SPOT_MIGRATE_MIGRATE_NET_H
#define SPOT_MIGRATE_MIGRATE_NET_H

#include <stdbool.h>
#include <sys/types.h>

#include "cli/rows.h"
#include "comm/tls.h"
#include "common/err.h"
#include "common/port.h"

enum { NET_STREAMS_MAX = 64 };

/* Options of both commands. */
struct net {
    const char *connect, *listen, *via, *key_path;
    bool is_duplex;
    double silence_s; /* a peer silent for this long is dead */
    double wait_s;    /* how long to wait for a peer */

    unsigned char key[SPOT_TLS_KEY_BYTE];
    pid_t child; /* of --via, 0 if none */
};

#define NET_DEFAULT                   \
    {                                 \
        .silence_s = 10, .wait_s = 60 \
    }
#define NET_OPTIONS(n)                                                                        \
    { SPOT_OPT_STRING, 0, "connect", &(n)->connect, "address", "connect to ADDRESS", 0, 0 },  \
        { SPOT_OPT_STRING, 0, "listen", &(n)->listen, "address", "listen on ADDRESS", 0, 0 }, \
        { SPOT_OPT_STRING,                                                                    \
          0,                                                                                  \
          "via",                                                                              \
          &(n)->via,                                                                          \
          "command",                                                                          \
          "through a command, such as ssh, that runs the other end with --duplex",            \
          0,                                                                                  \
          0 },                                                                                \
        { SPOT_OPT_FLAG,                                                                      \
          0,                                                                                  \
          "duplex",                                                                           \
          &(n)->is_duplex,                                                                    \
          NULL,                                                                               \
          "two-way protocol over standard input and output",                                  \
          0,                                                                                  \
          0 },                                                                                \
        SPOT_ROW_KEY_FILE(&(n)->key_path),                                                    \
        { SPOT_OPT_SECS, 0,                                                                   \
          "timeout",     &(n)->silence_s,                                                     \
          "duration",    "drop a peer after this much silence (default: 10s)",                \
          0.01,          1e6 },                                                               \
    {                                                                                         \
        SPOT_OPT_SECS, 0, "wait", &(n)->wait_s, "duration",                                   \
            "time limit for a peer to appear (default: 60s)", 0, 1e6                          \
    }

/* Check what was asked for: at most one way, addresses this machine may use, the key. True in
 * *is_one_way if no way is named: a plain stream over standard input or output.
 * Returns 0, or -1 with *err. */
int net_check(struct net *net, bool *is_one_way, struct spot_err *err);

/* One connection to one address, tried until it answers or wait_s is over; a port or NULL. */
struct spot_port *net_connect(const struct net *net, const char *address, struct spot_err *err);

/* The port of --via (the command is started) or --duplex. NULL with *err. */
struct spot_port *net_attach(struct net *net, struct spot_err *err);

/* Wait for the command of --via to end. */
void net_detach(struct net *net);

/* A listening descriptor, or -1 with *err; for port 0 the port chosen is said on stderr. The next
 * connection as a port, or NULL when there is none for limit_s. */
int net_listen(const struct net *net, struct spot_err *err);
struct spot_port *net_accept(const struct net *net, int listener, double limit_s);
void net_unlisten(const struct net *net, int listener);

#endif /* SPOT_MIGRATE_MIGRATE_NET_H */
