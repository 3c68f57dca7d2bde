/* SPDX-License-Identifier: MIT */
#include "migrate.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/tool.h"
#include "comm/endpoint.h"
#include "comm/fd_port.h"
#include "common/backoff.h"
#include "common/clock.h"
#include "common/out.h"
#include "common/xalloc.h"

/* --- TLS as a port: the handshake happens at the first use, in the thread that uses the port ---
 */

struct tls_port {
    struct spot_port port;
    const struct net *net;
    int fd; /* used until the handshake is done */
    bool is_server;
    struct spot_tls *tls;
};

static int shake(struct tls_port *p, struct spot_err *err)
{
    if (p->tls)
        return 0;
    if (p->fd < 0)
        return spot_err_set(err, SPOT_ESYS, "the connection failed before");
    p->tls = spot_tls_open(p->fd, p->is_server, p->net->key, p->net->silence_s, err);
    p->fd = -1;
    return p->tls ? 0 : -1;
}

static int tls_read(struct spot_port *port, void *data, size_t n_byte, size_t *got,
                    struct spot_err *err)
{
    struct tls_port *p = (struct tls_port *)port;

    return shake(p, err) ? -1 : spot_tls_read(p->tls, data, n_byte, got, err);
}

static int tls_write(struct spot_port *port, const void *data, size_t n_byte, struct spot_err *err)
{
    struct tls_port *p = (struct tls_port *)port;

    return shake(p, err) ? -1 : spot_tls_write(p->tls, data, n_byte, err);
}

static int tls_wait(struct spot_port *port, double limit_s)
{
    struct tls_port *p = (struct tls_port *)port;

    return p->tls ? spot_tls_wait(p->tls, limit_s) : 1;
}

static void tls_close(struct spot_port *port)
{
    struct tls_port *p = (struct tls_port *)port;

    spot_tls_free(p->tls);
    if (p->fd >= 0)
        close(p->fd);
    free(p);
}

static struct spot_port *make_port(const struct net *net, int fd, bool is_tls, bool is_server)
{
    struct tls_port *p;

    if (!is_tls)
        return spot_port_fd(fd, fd, net->silence_s);
    p = spot_xcalloc(1, sizeof(*p));
    *p = (struct tls_port){ .port = { tls_read, tls_write, tls_wait, tls_close, net->silence_s },
                            .net = net,
                            .fd = fd,
                            .is_server = is_server };
    return &p->port;
}

/* --- addresses --- */

static bool is_unix(const char *address)
{
    return !strncmp(address, "unix:", 5);
}

static bool is_tls(const struct net *net, const char *address)
{
    return net->key_path && !is_unix(address);
}

static int check_address(const struct net *net, const char *address, struct spot_err *err)
{
    struct spot_endpoint endpoint;

    if (is_tls(net, address))
        return 0;
    if (*address == ':')
        return spot_err_set(err, SPOT_EUSAGE,
                            "'%s' stands for every address of this machine: that needs --key-file",
                            address);
    return spot_endpoint_parse(address, &endpoint, err);
}

/* True if a key file is given, but no address uses it. */
static bool is_key_idle(const struct net *net)
{
    const char *at = net->listen ? net->listen : net->connect;

    while (at && is_unix(at)) {
        at = net->connect ? strchr(at, ',') : NULL;
        at = at ? at + 1 : NULL;
    }
    return net->key_path && !at;
}

int net_check(struct net *net, bool *is_one_way, struct spot_err *err)
{
    const int n_way = !!net->connect + !!net->listen + !!net->via + net->is_duplex;

    *is_one_way = !n_way;
    if (n_way > 1)
        return spot_err_set(err, SPOT_EUSAGE,
                            "--connect, --listen, --via and --duplex exclude each other");
    if (is_key_idle(net))
        return spot_err_set(err, SPOT_EUSAGE, "--key-file has no effect for unix:PATH");
    if (net->key_path && spot_tls_key_load(net->key_path, net->key, err))
        return -1;
    if (net->is_duplex && (isatty(STDIN_FILENO) || isatty(STDOUT_FILENO)))
        return spot_err_set(err, SPOT_EUSAGE, "--duplex cannot use a terminal");
    if (n_way)
        /* a write to a peer that has left must fail instead of killing this process */
        signal(SIGPIPE, SIG_IGN);
    return net->listen ? check_address(net, net->listen, err) : 0;
}

struct spot_port *net_connect(const struct net *net, const char *address, struct spot_err *err)
{
    const enum spot_reach reach = is_tls(net, address) ? SPOT_REACH_NAMES : SPOT_REACH_HERE;
    const double end_s = spot_clock_s() + net->wait_s;

    if (check_address(net, address, err))
        return NULL;
    for (int n = 1;; n++) { /* a peer that was started at the same time will listen soon */
        const int fd = spot_endpoint_dial(address, reach, NULL, err);

        if (fd >= 0)
            return make_port(net, fd, is_tls(net, address), false);
        if (err->code == SPOT_EUSAGE || spot_clock_s() >= end_s)
            return NULL;
        spot_clock_sleep(spot_backoff_s(n, 0.001, 0.05));
    }
}

static struct spot_port *start_command(struct net *net, struct spot_err *err)
{
    int to[2], from[2];

    if (pipe(to) || pipe(from)) {
        spot_err_sys(err, "cannot make a pipe");
        return NULL;
    }
    net->child = fork();
    if (net->child < 0) {
        spot_err_sys(err, "cannot start a process");
        return NULL;
    }
    if (!net->child) {
        dup2(to[0], STDIN_FILENO);
        dup2(from[1], STDOUT_FILENO);
        close(to[0]);
        close(to[1]);
        close(from[0]);
        close(from[1]);
        signal(SIGPIPE, SIG_DFL);
        execl("/bin/sh", "sh", "-c", net->via, (char *)NULL);
        _exit(127);
    }
    close(to[0]);
    close(from[1]);
    fcntl(to[1], F_SETFD, FD_CLOEXEC);
    fcntl(from[0], F_SETFD, FD_CLOEXEC);
    return spot_port_fd(from[0], to[1], net->silence_s);
}

struct spot_port *net_attach(struct net *net, struct spot_err *err)
{
    int in, out;

    if (net->via)
        return start_command(net, err);
    /* Duplicates, so that descriptors 0 and 1 stay open until the end of the program when the port
     * is closed. */
    in = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
    out = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
    if (in >= 0 && out >= 0) {
        /* the peer sees the end only when ours are closed too */
        close(STDIN_FILENO);
        close(STDOUT_FILENO);
        if (open("/dev/null", O_RDWR) == STDIN_FILENO && dup(STDIN_FILENO) == STDOUT_FILENO)
            return spot_port_fd(in, out, net->silence_s);
    }
    spot_err_sys(err, "cannot use standard input and output");
    return NULL;
}

void net_detach(struct net *net)
{
    int status;

    if (net->child > 0)
        while (waitpid(net->child, &status, 0) < 0 && errno == EINTR)
            ;
    net->child = 0;
}

static int open_listener(const struct net *net, struct spot_err *err)
{
    const enum spot_reach reach = is_tls(net, net->listen) ? SPOT_REACH_NAMES : SPOT_REACH_HERE;
    char everywhere[sizeof("0.0.0.0:65535")];
    const char *address = net->listen;
    struct spot_endpoint endpoint;

    if (*address == ':' && strlen(address) < sizeof(":65535")) {
        snprintf(everywhere, sizeof(everywhere), "0.0.0.0%s", address);
        address = everywhere;
    }
    if (spot_endpoint_parse_reach(address, reach, &endpoint, err))
        return -1;
    return spot_endpoint_listen(&endpoint, err);
}

int net_listen(const struct net *net, struct spot_err *err)
{
    const char *port = strrchr(net->listen, ':');
    const int fd = open_listener(net, err);
    char text[SPOT_ADDRESS_MAX + 8];
    struct spot_endpoint chosen;

    if (fd >= 0 && is_unix(net->listen))
        spot_out_guard(net->listen + 5);
    if (fd < 0 || is_unix(net->listen) || !port || strtoul(port + 1, NULL, 10))
        return fd;
    if (spot_endpoint_bound(fd, &chosen, err)) {
        close(fd);
        return -1;
    }
    spot_endpoint_print(&chosen, text);
    spot_tool_note("listening on %s", text);
    return fd;
}

struct spot_port *net_accept(const struct net *net, int listener, double limit_s)
{
    struct pollfd p = { .fd = listener, .events = POLLIN };
    int fd;

    if (poll(&p, 1, (int)(limit_s * 1000)) <= 0)
        return NULL;
    fd = spot_endpoint_accept(listener);
    if (fd < 0) { /* the peer left, or there are no descriptors until others leave */
        spot_clock_sleep(limit_s);
        return NULL;
    }
    return make_port(net, fd, is_tls(net, net->listen), true);
}

void net_unlisten(const struct net *net, int listener)
{
    struct spot_endpoint endpoint;

    if (listener < 0)
        return;
    if (!is_unix(net->listen) || spot_endpoint_parse(net->listen, &endpoint, NULL)) {
        close(listener);
        return;
    }
    spot_endpoint_unlisten(&endpoint, listener);
    spot_out_unguard(net->listen + 5);
}
