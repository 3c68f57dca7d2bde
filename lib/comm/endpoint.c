/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* accept4, SOCK_CLOEXEC */
#include "comm/endpoint.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/safe_dir.h"

enum { BACKLOG = 1024, BUFFER_BYTE = 4 << 20, CONNECT_MS = 5000, ADDRESSES_MAX = 8 };

union address {
    struct sockaddr any;
    struct sockaddr_un un;
    struct sockaddr_in in;
    struct sockaddr_in6 in6;
};

static int parse_port(const char *text, const char *port, struct spot_endpoint *e,
                      struct spot_err *err)
{
    char *end;
    const long value = strtol(port, &end, 10);

    if (*port < '0' || *port > '9' || *end || value > 65535)
        return spot_err_set(err, SPOT_EUSAGE, "'%s': expected a port from 0 to 65535", text);
    e->port = (uint16_t)value;
    return 0;
}

static int parse_path(const char *text, struct spot_endpoint *e, struct spot_err *err)
{
    const size_t n = strlen(text + 5);

    if (!n || n >= sizeof(((struct sockaddr_un *)0)->sun_path))
        return spot_err_set(err, SPOT_EUSAGE, "'%s': a socket path has 1 to %zu bytes", text,
                            sizeof(((struct sockaddr_un *)0)->sun_path) - 1);
    memcpy(e->path, text + 5, n + 1);
    e->kind = SPOT_ENDPOINT_UNIX;
    return 0;
}

/* Splits "HOST:PORT" or "[IPV6]:PORT": copies the host, and returns the port; NULL for any other
 * text. */
static const char *split(const char *text, char host[SPOT_ADDRESS_MAX])
{
    const char *colon = strrchr(text, ':'), *from = text, *to = colon;

    if (colon && *text == '[' && colon - text >= 2 && colon[-1] == ']') {
        from++;
        to--;
    }
    if (!colon || to <= from || to - from >= SPOT_ADDRESS_MAX ||
        (from == text && memchr(from, ':', (size_t)(to - from))))
        return NULL;
    memcpy(host, from, (size_t)(to - from));
    host[to - from] = '\0';
    return colon + 1;
}

static bool take_address(const struct addrinfo *from, struct spot_endpoint *e)
{
    union address a = { .any.sa_family = AF_UNSPEC };

    if (from->ai_addrlen <= sizeof(a))
        memcpy(&a, from->ai_addr, from->ai_addrlen);
    if (a.any.sa_family == AF_INET) {
        e->kind = SPOT_ENDPOINT_TCP4;
        memcpy(e->ip, &a.in.sin_addr, 4);
    } else if (a.any.sa_family == AF_INET6) {
        e->kind = SPOT_ENDPOINT_TCP6;
        memcpy(e->ip, &a.in6.sin6_addr, 16);
        e->scope = a.in6.sin6_scope_id;
    } else {
        return false;
    }
    return true;
}

/* The addresses of a host in the resolver's order, at most n_max, each with the port that e[0] has.
 * Returns how many. */
static int find_host(const char *host, bool ask_names, struct spot_endpoint *e, int n_max)
{
    const struct addrinfo hint = { .ai_socktype = SOCK_STREAM,
                                   .ai_flags = ask_names ? 0 : AI_NUMERICHOST };
    const uint16_t port = e->port;
    struct addrinfo *list = NULL;
    int n = 0;

    if (!strcmp(host, "localhost"))
        host = "127.0.0.1"; /* independent of the resolver */
    if (getaddrinfo(host, NULL, &hint, &list))
        return 0;
    for (const struct addrinfo *a = list; a && n < n_max; a = a->ai_next) {
        e[n] = (struct spot_endpoint){ .port = port };
        n += take_address(a, &e[n]);
    }
    freeaddrinfo(list);
    return n;
}

bool spot_endpoint_is_private(const struct spot_endpoint *e)
{
    static const uint8_t loopback4[4] = { 127, 0, 0, 1 }, loopback6[16] = { [15] = 1 };

    return e->kind == SPOT_ENDPOINT_UNIX ||
           !(e->kind == SPOT_ENDPOINT_TCP4 ? memcmp(e->ip, loopback4, sizeof(loopback4))
                                           : memcmp(e->ip, loopback6, sizeof(loopback6)));
}

bool spot_endpoint_is_same_host(const struct spot_endpoint *a, const struct spot_endpoint *b)
{
    return a->kind == b->kind && a->kind != SPOT_ENDPOINT_UNIX &&
           !memcmp(a->ip, b->ip, sizeof(a->ip)) && a->scope == b->scope;
}

bool spot_endpoint_is_any(const struct spot_endpoint *e)
{
    static const uint8_t zero[16];

    return e->kind != SPOT_ENDPOINT_UNIX && !memcmp(e->ip, zero, sizeof(zero));
}

/* Parses an address into at most n_max endpoints. Returns how many, at least 1, or -1 with *err. */
static int parse_all(const char *text, enum spot_reach reach, struct spot_endpoint *e, int n_max,
                     struct spot_err *err)
{
    char host[SPOT_ADDRESS_MAX];
    const char *port;
    int n;

    memset(e, 0, sizeof(*e));
    if (!strncmp(text, "unix:", 5))
        return parse_path(text, e, err) ? -1 : 1;
    port = split(text, host);
    if (!port && *text == '/')
        return spot_err_set(err, SPOT_EUSAGE, "'%s': write a path as unix:%s", text, text);
    if (!port)
        return spot_err_set(err, SPOT_EUSAGE, "'%s': expected unix:PATH, HOST:PORT or [IPV6]:PORT",
                            text);
    if (parse_port(text, port, e, err))
        return -1;
    n = find_host(host, reach == SPOT_REACH_NAMES, e, n_max);
    if (!n) {
        if (reach == SPOT_REACH_NAMES)
            return spot_err_set(err, SPOT_ESYS, "cannot find the host of '%s'", text);
        e->kind = SPOT_ENDPOINT_TCP4; /* for an unknown host */
        if (reach == SPOT_REACH_NUMERIC)
            return spot_err_set(err, SPOT_EUSAGE, "'%s': '%s' is not an IP address", text, host);
    }
    if (reach == SPOT_REACH_HERE && !spot_endpoint_is_private(e))
        return spot_err_set(err, SPOT_EUSAGE,
                            "'%s' is neither unix:PATH nor loopback (127.0.0.1:PORT, "
                            "[::1]:PORT): that needs --key-file",
                            text);
    return n ? n : 1;
}

int spot_endpoint_parse_reach(const char *text, enum spot_reach reach, struct spot_endpoint *e,
                              struct spot_err *err)
{
    return parse_all(text, reach, e, 1, err) < 0 ? -1 : 0;
}

int spot_endpoint_parse(const char *text, struct spot_endpoint *e, struct spot_err *err)
{
    return spot_endpoint_parse_reach(text, SPOT_REACH_HERE, e, err);
}

void spot_endpoint_print(const struct spot_endpoint *e, char *text)
{
    const size_t cap = SPOT_ADDRESS_MAX + 8;
    char host[INET6_ADDRSTRLEN] = "";

    if (e->kind == SPOT_ENDPOINT_UNIX) {
        snprintf(text, cap, "unix:%s", e->path);
        return;
    }
    inet_ntop(e->kind == SPOT_ENDPOINT_TCP4 ? AF_INET : AF_INET6, e->ip, host, sizeof(host));
    snprintf(text, cap, e->kind == SPOT_ENDPOINT_TCP4 ? "%s:%u" : "[%s]:%u", host,
             (unsigned)e->port);
}

static socklen_t fill(const struct spot_endpoint *e, union address *a)
{
    memset(a, 0, sizeof(*a));
    switch (e->kind) {
    case SPOT_ENDPOINT_UNIX:
        a->un.sun_family = AF_UNIX;
        memcpy(a->un.sun_path, e->path, strlen(e->path) + 1);
        return sizeof(a->un);
    case SPOT_ENDPOINT_TCP4:
        a->in.sin_family = AF_INET;
        a->in.sin_port = htons(e->port);
        memcpy(&a->in.sin_addr, e->ip, 4);
        return sizeof(a->in);
    default:
        a->in6.sin6_family = AF_INET6;
        a->in6.sin6_port = htons(e->port);
        memcpy(&a->in6.sin6_addr, e->ip, 16);
        a->in6.sin6_scope_id = e->scope;
        return sizeof(a->in6);
    }
}

static int set_nonblocking(int fd)
{
    const int flags = fcntl(fd, F_GETFL);

    return flags < 0 ? -1 : fcntl(fd, F_SETFL, flags | O_NONBLOCK);
}

static int open_socket(const union address *a, struct spot_err *err)
{
    const int fd = socket(a->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return spot_err_sys(err, "cannot create a socket");
    return fd;
}

/* Disable delays and enlarge buffers; failure of either only makes the connection slower. */
static void tune(int fd, const struct spot_endpoint *e)
{
    const int on = 1, size = BUFFER_BYTE;

    (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
    if (!e || e->kind != SPOT_ENDPOINT_UNIX)
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

/* True if the file is at least this old. A time in the future, after a change of the clock, is set
 * to now.
 */
static bool is_aged(const char *path, const struct stat *st, time_t age_s)
{
    const time_t now = age_s > 0 ? time(NULL) : 0;

    if (age_s <= 0)
        return true;
    if (st->st_mtime > now)
        (void)utimensat(AT_FDCWD, path, NULL, AT_SYMLINK_NOFOLLOW);
    return now - st->st_mtime >= age_s;
}

void spot_endpoint_drop_stale(const struct spot_endpoint *e, time_t age_s)
{
    union address a;
    const socklen_t len = fill(e, &a);
    struct stat st, now;
    int fd;

    if (e->kind != SPOT_ENDPOINT_UNIX || lstat(e->path, &st) || !S_ISSOCK(st.st_mode) ||
        !is_aged(e->path, &st, age_s))
        return;
    fd = open_socket(&a, NULL);
    if (fd < 0)
        return;
    if (!set_nonblocking(fd) && connect(fd, &a.any, len) && errno == ECONNREFUSED &&
        !lstat(e->path, &now) && spot_safe_is_same(&st, &now))
        unlink(e->path);
    close(fd);
}

void spot_endpoint_unlisten(const struct spot_endpoint *e, int listener)
{
    if (e->kind == SPOT_ENDPOINT_UNIX)
        (void)shutdown(listener, SHUT_RDWR); /* also for a copy in a child process */
    close(listener);
    spot_endpoint_drop_stale(e, 0);
}

void spot_endpoint_sweep(const struct spot_endpoint *e, time_t age_s)
{
    const char *slash = strrchr(e->path, '/'), *base = slash ? slash + 1 : e->path;
    const size_t n_dir = (size_t)(base - e->path), n_base = strlen(base);
    char dir[SPOT_ADDRESS_MAX] = ".";
    const struct dirent *entry;
    DIR *list;

    if (e->kind != SPOT_ENDPOINT_UNIX)
        return;
    if (n_dir)
        snprintf(dir, sizeof(dir), "%.*s", (int)n_dir, e->path);
    list = opendir(dir);
    while (list && (entry = readdir(list))) {
        struct spot_endpoint stale = { .kind = SPOT_ENDPOINT_UNIX };

        if (strncmp(entry->d_name, base, n_base) != 0 || entry->d_name[n_base] != '.')
            continue;
        if ((size_t)snprintf(stale.path, sizeof(stale.path), "%.*s%.100s", (int)n_dir, e->path,
                             entry->d_name) < sizeof(((struct sockaddr_un *)0)->sun_path))
            spot_endpoint_drop_stale(&stale, age_s);
    }
    if (list)
        closedir(list);
}

/* A socket's file is created with the mode of the socket and the umask. The umask is not changed,
 * since other threads may create files. */
static int bind_private(int fd, const struct spot_endpoint *e, const union address *a,
                        socklen_t len)
{
    const int on = 1;

    if (e->kind != SPOT_ENDPOINT_UNIX)
        (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    else if (fchmod(fd, 0600))
        return -1;
    return bind(fd, &a->any, len);
}

int spot_endpoint_listen(struct spot_endpoint *e, struct spot_err *err)
{
    char text[SPOT_ADDRESS_MAX + 8];
    union address a;
    socklen_t len = fill(e, &a);
    const int fd = open_socket(&a, err);

    if (fd < 0)
        return -1;
    spot_endpoint_drop_stale(e, 0); /* bind() fails on a path that exists */
    spot_endpoint_print(e, text);
    if (bind_private(fd, e, &a, len) || listen(fd, BACKLOG) || getsockname(fd, &a.any, &len) ||
        set_nonblocking(fd)) {
        spot_err_sys(err, "cannot listen on %s", text);
        close(fd);
        return -1;
    }
    if (e->kind != SPOT_ENDPOINT_UNIX)
        e->port = ntohs(e->kind == SPOT_ENDPOINT_TCP4 ? a.in.sin_port : a.in6.sin6_port);
    return fd;
}

static int start(const struct spot_endpoint *e, int limit_ms, struct spot_err *err)
{
    char text[SPOT_ADDRESS_MAX + 8];
    union address a;
    const socklen_t len = fill(e, &a);
    const int fd = open_socket(&a, err);
    const struct timeval patience = { limit_ms / 1000, limit_ms % 1000 * 1000 };
    int rc;

    if (fd < 0)
        return -1;
    /* connect() to a Unix socket does not return EINPROGRESS: it succeeds at once, or blocks until
     * the listener has room, which may be never */
    rc = e->kind == SPOT_ENDPOINT_UNIX
             ? setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience))
             : set_nonblocking(fd);
    rc = rc ? rc : connect(fd, &a.any, len);
    if (rc && errno == EAGAIN)
        errno = ETIMEDOUT;
    if ((rc && errno != EINPROGRESS) || set_nonblocking(fd)) {
        const int saved = errno;

        close(fd);
        spot_endpoint_print(e, text);
        errno = saved;
        return spot_err_sys(err, "cannot connect to %s", text);
    }
    tune(fd, e);
    return fd;
}

int spot_endpoint_start(const struct spot_endpoint *e, struct spot_err *err)
{
    return start(e, CONNECT_MS, err);
}

static int connect_within(const struct spot_endpoint *e, int limit_ms, struct spot_err *err)
{
    const int fd = start(e, limit_ms, err);
    struct pollfd p = { .fd = fd, .events = POLLOUT };
    char text[SPOT_ADDRESS_MAX + 8];
    int why = ETIMEDOUT;
    socklen_t n = sizeof(why);

    if (fd < 0)
        return -1;
    if (poll(&p, 1, limit_ms) > 0)
        getsockopt(fd, SOL_SOCKET, SO_ERROR, &why, &n);
    if (!why)
        return fd;
    close(fd);
    spot_endpoint_print(e, text);
    errno = why;
    return spot_err_sys(err, "cannot connect to %s", text);
}

int spot_endpoint_connect(const struct spot_endpoint *e, struct spot_err *err)
{
    return connect_within(e, CONNECT_MS, err);
}

int spot_endpoint_dial_within(const char *text, enum spot_reach reach, double limit_s,
                              struct spot_endpoint *reached, struct spot_err *err)
{
    const double until_s = spot_clock_s() + limit_s;
    struct spot_endpoint list[ADDRESSES_MAX];
    const int n = parse_all(text, reach, list, ADDRESSES_MAX, err);
    int fd = -1;

    for (int i = 0; i < n && fd < 0; i++) {
        const double left_ms = fmin(CONNECT_MS, 1e3 * (until_s - spot_clock_s()));

        if (i && left_ms <= 0)
            break;
        fd = connect_within(&list[i], left_ms < 1 ? 1 : (int)left_ms, err);
        if (reached)
            *reached = list[i];
    }
    return fd;
}

int spot_endpoint_dial(const char *text, enum spot_reach reach, struct spot_endpoint *reached,
                       struct spot_err *err)
{
    return spot_endpoint_dial_within(text, reach, INFINITY, reached, err);
}

void spot_endpoint_make_absolute(struct spot_endpoint *e)
{
    const char *slash = strrchr(e->path, '/'), *base = slash ? slash + 1 : e->path;
    char dir[SPOT_ADDRESS_MAX] = ".", path[SPOT_ADDRESS_MAX];
    char *whole;
    int n;

    if (e->kind != SPOT_ENDPOINT_UNIX)
        return;
    if (slash)
        snprintf(dir, sizeof(dir), "%.*s", slash == e->path ? 1 : (int)(slash - e->path), e->path);
    whole = realpath(dir, NULL);
    if (!whole)
        return;
    n = snprintf(path, sizeof(path), "%s/%s", strcmp(whole, "/") ? whole : "", base);
    if (n > 0 && (size_t)n < sizeof(((struct sockaddr_un *)0)->sun_path))
        memcpy(e->path, path, (size_t)n + 1);
    free(whole);
}

/* An IPv4-mapped IPv6 address is returned as IPv4. */
static int endpoint_of(const union address *from, struct spot_endpoint *e, struct spot_err *err)
{
    static const uint8_t mapped[12] = { [10] = 0xFF, [11] = 0xFF };
    const union address a = *from;

    memset(e, 0, sizeof(*e));
    if (a.any.sa_family == AF_INET6 && !memcmp(&a.in6.sin6_addr, mapped, sizeof(mapped))) {
        e->kind = SPOT_ENDPOINT_TCP4;
        e->port = ntohs(a.in6.sin6_port);
        memcpy(e->ip, (const uint8_t *)&a.in6.sin6_addr + sizeof(mapped), 4);
    } else if (a.any.sa_family == AF_INET) {
        e->kind = SPOT_ENDPOINT_TCP4;
        e->port = ntohs(a.in.sin_port);
        memcpy(e->ip, &a.in.sin_addr, 4);
    } else if (a.any.sa_family == AF_INET6) {
        e->kind = SPOT_ENDPOINT_TCP6;
        e->port = ntohs(a.in6.sin6_port);
        memcpy(e->ip, &a.in6.sin6_addr, 16);
        e->scope = a.in6.sin6_scope_id;
    } else {
        return spot_err_set(err, SPOT_EUSAGE, "a socket without an IP address");
    }
    return 0;
}

int spot_endpoint_bound(int fd, struct spot_endpoint *e, struct spot_err *err)
{
    union address a;
    socklen_t len = sizeof(a);

    memset(&a, 0, sizeof(a));
    if (getsockname(fd, &a.any, &len))
        return spot_err_sys(err, "cannot get the address of a socket");
    return endpoint_of(&a, e, err);
}

int spot_endpoint_remote(int fd, struct spot_endpoint *e, struct spot_err *err)
{
    union address a;
    socklen_t len = sizeof(a);

    memset(&a, 0, sizeof(a));
    if (getpeername(fd, &a.any, &len))
        return spot_err_sys(err, "cannot identify the peer of a socket");
    return endpoint_of(&a, e, err);
}

int spot_endpoint_local(int fd, struct spot_endpoint *e, struct spot_err *err)
{
    const int rc = spot_endpoint_bound(fd, e, err);

    e->port = 0;
    return rc;
}

int spot_endpoint_accept(int listener)
{
    const int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

    if (fd >= 0)
        tune(fd, NULL);
    return fd;
}

pid_t spot_endpoint_process(int fd)
{
    struct ucred who = { .pid = 0 };
    socklen_t n = sizeof(who);

    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &n) ? 0 : who.pid;
}

int spot_endpoint_pipe(int end[2])
{
    return pipe2(end, O_CLOEXEC | O_NONBLOCK);
}

int spot_endpoint_pair(int end[2])
{
    return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, end);
}
