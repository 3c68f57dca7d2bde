/* SPDX-License-Identifier: MIT */
#include "comm/http_client.h"

#include <arpa/inet.h>
#define CURL_DISABLE_TYPECHECK    /* the type-checking macros cannot be used with the table of \
                                     functions */
#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/clock.h"
#include "common/late_library.h"
#include "common/version.h"
#include "common/xalloc.h"

enum { FD_MAX = 8, IDLE_CONNECTIONS = 4, EVENTS = 256 };

/* A pending request. */
struct asked {
    struct asked *next;
    CURL *easy;
    struct curl_slist *header;
    struct spot_buf head, body;
    bool is_too_large;
    char why[CURL_ERROR_SIZE];
    spot_http_done done;
    bool (*part)(void *user, const char *data, size_t n_byte);
    void *user;
};

struct spot_http_client {
    CURLM *multi;
    int epoll_fd;   /* an epoll of libcurl's sockets, so that only ready ones are served */
    double timer_s; /* when libcurl must be called next; INFINITY: only for events */
    struct asked *asked;
    struct spot_http_tls tls; /* ca NULL: no TLS */
};

/* --- the library --------------------------------------------------------- */

#define EACH_FUNCTION(x)                                                                         \
    x(curl_easy_cleanup) x(curl_easy_getinfo) x(curl_easy_init) x(curl_easy_setopt)              \
        x(curl_easy_strerror) x(curl_global_init) x(curl_multi_add_handle) x(curl_multi_cleanup) \
            x(curl_multi_info_read) x(curl_multi_init) x(curl_multi_remove_handle)               \
                x(curl_multi_setopt) x(curl_multi_socket_action) x(curl_multi_strerror)          \
                    x(curl_slist_append) x(curl_slist_free_all)

SPOT_LATE_TABLE(EACH_FUNCTION)

/* --- addresses ----------------------------------------------------------- */

static bool is_near4(const struct in_addr *ip)
{
    const uint32_t x = ntohl(ip->s_addr);

    return x == INADDR_LOOPBACK || x >> 16 == (169U << 8 | 254U);
}

static bool is_near6(const struct in6_addr *ip)
{
    static const uint8_t ec2[16] = { 0xfd, 0x00, 0x0e, 0xc2, [14] = 0x02, [15] = 0x54 };

    return IN6_IS_ADDR_LOOPBACK(ip) || IN6_IS_ADDR_LINKLOCAL(ip) || !memcmp(ip, ec2, sizeof(ec2));
}

/* True for "", or ":PORT". */
static bool is_port(const char *text)
{
    const size_t n = strspn(text + (*text == ':'), "0123456789");
    long port;

    if (!*text)
        return true;
    port = strtol(text + 1, NULL, 10);
    return *text == ':' && n >= 1 && n <= 5 && !text[1 + n] && port >= 1 && port <= 65535;
}

int spot_http_url_check(const char *url, struct spot_err *err)
{
    static const char scheme[] = "http://";
    const bool is_http = !strncmp(url, scheme, sizeof(scheme) - 1);
    const char *const host = is_http ? url + sizeof(scheme) - 1 : url;
    const bool is_six = *host == '[';
    const size_t n = strcspn(host + is_six, is_six ? "]" : ":");
    char address[INET6_ADDRSTRLEN];
    struct in6_addr six;
    struct in_addr four;

    if (is_http && n < sizeof(address) && strlen(url) < SPOT_HTTP_URL_MAX / 4) {
        snprintf(address, sizeof(address), "%.*s", (int)n, host + is_six);
        if (is_six && host[1 + n] == ']' && inet_pton(AF_INET6, address, &six) == 1 &&
            is_near6(&six) && is_port(host + n + 2))
            return 0;
        if (!is_six && inet_pton(AF_INET, address, &four) == 1 && is_near4(&four) &&
            is_port(host + n))
            return 0;
    }
    return spot_err_set(err, SPOT_EUSAGE,
                        "expected http://ADDRESS[:PORT], a number of this machine or its link such "
                        "as 127.0.0.1 or 169.254.169.254, got '%.100s'",
                        url);
}

/* --- requests ----------------------------------------------------------- */

static size_t take(struct asked *a, struct spot_buf *to, size_t n_max, const void *data, size_t n)
{
    if (to->n + n > n_max) {
        a->is_too_large = true;
        return 0; /* ends the transfer */
    }
    spot_buf_add(to, data, n);
    return n;
}

static size_t take_head(char *data, size_t size, size_t n, void *user)
{
    struct asked *const a = user;

    return take(a, &a->head, SPOT_HTTP_HEAD_MAX, data, size * n);
}

static size_t take_body(char *data, size_t size, size_t n, void *user)
{
    struct asked *const a = user;
    long status = 0;

    if (a->part)
        api.curl_easy_getinfo(a->easy, CURLINFO_RESPONSE_CODE, &status);
    if (status == 200)
        return a->part(a->user, data, size * n) ? size * n : 0;
    return take(a, &a->body, SPOT_HTTP_ANSWER_MAX, data, size * n);
}

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct spot_err why; /* why it is missing; code SPOT_OK: it is loaded */

static void load(void)
{
    if (!spot_late_library("libcurl.so.4", api_name, sizeof(api_name) / sizeof(*api_name), &api,
                           &why) &&
        api.curl_global_init(CURL_GLOBAL_NOTHING))
        spot_err_set(&why, SPOT_ESYS, "cannot start libcurl");
}

/* libcurl's callback: watch `what` on a socket, or stop (CURL_POLL_REMOVE). */
static int on_watch(CURL *easy, curl_socket_t fd, int what, void *user, void *socket_data)
{
    const struct spot_http_client *const client = user;
    struct epoll_event e = { .events = (what & CURL_POLL_IN ? (uint32_t)EPOLLIN : 0) |
                                       (what & CURL_POLL_OUT ? (uint32_t)EPOLLOUT : 0),
                             .data.fd = fd };

    (void)easy, (void)socket_data;
    if (what == CURL_POLL_REMOVE)
        return epoll_ctl(client->epoll_fd, EPOLL_CTL_DEL, fd, NULL) && errno != ENOENT &&
                       errno != EBADF
                   ? -1
                   : 0;
    if (!epoll_ctl(client->epoll_fd, EPOLL_CTL_MOD, fd, &e))
        return 0;
    return errno == ENOENT && !epoll_ctl(client->epoll_fd, EPOLL_CTL_ADD, fd, &e) ? 0 : -1;
}

static int on_timer(CURLM *multi, long in_ms, void *user)
{
    struct spot_http_client *const client = user;

    (void)multi;
    client->timer_s = in_ms < 0 ? (double)INFINITY : spot_clock_s() + (double)in_ms / 1e3;
    return 0;
}

struct spot_http_client *spot_http_client_new(struct spot_err *err)
{
    struct spot_http_client *client;

    pthread_once(&once, load);
    if (why.code) {
        *err = why;
        return NULL;
    }
    client = spot_xcalloc(1, sizeof(*client));
    client->timer_s = INFINITY;
    client->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    client->multi = api.curl_multi_init();
    if (client->multi && client->epoll_fd >= 0) {
        api.curl_multi_setopt(client->multi, CURLMOPT_MAXCONNECTS, (long)IDLE_CONNECTIONS);
        api.curl_multi_setopt(client->multi, CURLMOPT_SOCKETFUNCTION, on_watch);
        api.curl_multi_setopt(client->multi, CURLMOPT_SOCKETDATA, client);
        api.curl_multi_setopt(client->multi, CURLMOPT_TIMERFUNCTION, on_timer);
        api.curl_multi_setopt(client->multi, CURLMOPT_TIMERDATA, client);
        return client;
    }
    spot_http_client_free(client);
    spot_err_set(err, SPOT_ESYS, "cannot start libcurl");
    return NULL;
}

struct spot_http_client *spot_http_client_new_tls(const struct spot_http_tls *tls,
                                                  struct spot_err *err)
{
    struct spot_http_client *const client = spot_http_client_new(err);

    if (client)
        client->tls = *tls;
    return client;
}

static void free_asked(struct spot_http_client *client, struct asked *a)
{
    for (struct asked **p = &client->asked; *p; p = &(*p)->next) {
        if (*p == a) {
            *p = a->next;
            break;
        }
    }
    if (a->easy) {
        api.curl_multi_remove_handle(client->multi, a->easy);
        api.curl_easy_cleanup(a->easy);
    }
    api.curl_slist_free_all(a->header);
    spot_buf_release(&a->head);
    spot_buf_release(&a->body);
    free(a);
}

void spot_http_client_free(struct spot_http_client *client)
{
    if (!client)
        return;
    while (client->asked)
        free_asked(client, client->asked);
    if (client->multi)
        api.curl_multi_cleanup(client->multi);
    if (client->epoll_fd >= 0)
        close(client->epoll_fd);
    free(client);
}

/* Creates the socket with close-on-exec, so that child processes do not inherit it. */
static int on_socket(void *user, curl_socket_t fd, curlsocktype purpose)
{
    (void)user, (void)purpose;
    return fcntl(fd, F_SETFD, FD_CLOEXEC) ? CURL_SOCKOPT_ERROR : CURL_SOCKOPT_OK;
}

static void allow_alone(CURL *easy, bool is_tls)
{
#if LIBCURL_VERSION_NUM >= 0x075500
    api.curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, is_tls ? "https" : "http");
#else
    api.curl_easy_setopt(easy, CURLOPT_PROTOCOLS,
                         is_tls ? (long)CURLPROTO_HTTPS : (long)CURLPROTO_HTTP);
#endif
}

/* Checks the server's certificate and name. */
static void set_tls(CURL *easy, const struct spot_http_tls *tls)
{
    api.curl_easy_setopt(easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    api.curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 1L);
    api.curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 2L);
    api.curl_easy_setopt(easy, CURLOPT_CAINFO, tls->ca);
    api.curl_easy_setopt(easy, CURLOPT_CAPATH, NULL);
    if (tls->cert)
        api.curl_easy_setopt(easy, CURLOPT_SSLCERT, tls->cert);
    if (tls->key)
        api.curl_easy_setopt(easy, CURLOPT_SSLKEY, tls->key);
}

/* Neither environment variables nor redirects may change where a request goes. */
static void set_route(CURL *easy, bool is_tls)
{
    api.curl_easy_setopt(easy, CURLOPT_PROXY, "");
    api.curl_easy_setopt(easy, CURLOPT_NOPROXY, "*");
    api.curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
    api.curl_easy_setopt(easy, CURLOPT_NETRC, (long)CURL_NETRC_IGNORED);
    api.curl_easy_setopt(easy, CURLOPT_HTTP09_ALLOWED, 0L);
    api.curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    api.curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    api.curl_easy_setopt(easy, CURLOPT_SOCKOPTFUNCTION, on_socket);
    allow_alone(easy, is_tls);
}

static void set_question(struct asked *a, const struct spot_http_ask *ask)
{
    char agent[96];

    snprintf(agent, sizeof(agent), "User-Agent: spot/%s", spot_version());
    a->header = api.curl_slist_append(NULL, agent);
    a->header = api.curl_slist_append(a->header, "Expect:");
    for (size_t i = 0; i < SPOT_HTTP_HEADERS_MAX && ask->header[i]; i++)
        a->header = api.curl_slist_append(a->header, ask->header[i]);
    api.curl_easy_setopt(a->easy, CURLOPT_HTTPHEADER, a->header);
    api.curl_easy_setopt(a->easy, CURLOPT_URL, ask->url);
    if (ask->body || strcmp(ask->method, "GET") != 0) {
        api.curl_easy_setopt(a->easy, CURLOPT_POSTFIELDSIZE,
                             (long)strlen(ask->body ? ask->body : ""));
        api.curl_easy_setopt(a->easy, CURLOPT_COPYPOSTFIELDS, ask->body ? ask->body : "");
    }
    api.curl_easy_setopt(a->easy, CURLOPT_CUSTOMREQUEST, ask->method);
    api.curl_easy_setopt(a->easy, CURLOPT_CONNECTTIMEOUT_MS, (long)(ask->connect_s * 1e3) + 1);
    if (ask->limit_s > 0)
        api.curl_easy_setopt(a->easy, CURLOPT_TIMEOUT_MS, (long)(ask->limit_s * 1e3) + 1);
}

int spot_http_client_ask(struct spot_http_client *client, const struct spot_http_ask *ask,
                         spot_http_done done, void *user, struct spot_err *err)
{
    struct asked *const a = spot_xcalloc(1, sizeof(*a));

    a->done = done;
    a->part = ask->part;
    a->user = user;
    a->next = client->asked;
    client->asked = a;
    a->easy = api.curl_easy_init();
    if (a->easy) {
        set_route(a->easy, client->tls.ca);
        if (client->tls.ca)
            set_tls(a->easy, &client->tls);
        set_question(a, ask);
        api.curl_easy_setopt(a->easy, CURLOPT_ERRORBUFFER, a->why);
        api.curl_easy_setopt(a->easy, CURLOPT_HEADERFUNCTION, take_head);
        api.curl_easy_setopt(a->easy, CURLOPT_HEADERDATA, a);
        api.curl_easy_setopt(a->easy, CURLOPT_WRITEFUNCTION, take_body);
        api.curl_easy_setopt(a->easy, CURLOPT_WRITEDATA, a);
        api.curl_easy_setopt(a->easy, CURLOPT_PRIVATE, a);
        if (!api.curl_multi_add_handle(client->multi, a->easy))
            return 0;
    }
    free_asked(client, a);
    return spot_err_set(err, SPOT_ESYS, "libcurl accepts no request");
}

void spot_http_client_drop(struct spot_http_client *client, const void *user)
{
    struct asked *next;

    for (struct asked *a = client->asked; a; a = next) {
        next = a->next;
        if (a->user == user)
            free_asked(client, a);
    }
}

/* --- answers ------------------------------------------------------------- */

static const char *reason(const struct asked *a, CURLcode code)
{
    if (a->is_too_large)
        return "the answer is too large";
    if (code == CURLE_OPERATION_TIMEDOUT)
        return "no complete answer in time";
    return a->why[0] ? a->why : api.curl_easy_strerror(code);
}

static void finish(struct spot_http_client *client, struct asked *a, CURLcode code)
{
    struct spot_http_reply reply = { 0 };

    *spot_buf_more(&a->body, 1) = '\0';
    *spot_buf_more(&a->head, 1) = '\0';
    if (code)
        reply.why = reason(a, code);
    else
        api.curl_easy_getinfo(a->easy, CURLINFO_RESPONSE_CODE, &reply.status);
    if (!code && !reply.status)
        reply.why = "no HTTP";
    reply.is_refused = code == CURLE_COULDNT_CONNECT;
    reply.body = (const char *)a->body.data;
    reply.n_byte = a->body.n;
    reply.head = (const char *)a->head.data;
    a->done(a->user, &reply);
    free_asked(client, a);
}

static bool finish_next(struct spot_http_client *client)
{
    const CURLMsg *msg;
    char *a = NULL;
    int n_left;

    do {
        msg = api.curl_multi_info_read(client->multi, &n_left);
        if (!msg)
            return false;
    } while (msg->msg != CURLMSG_DONE);
    api.curl_easy_getinfo(msg->easy_handle, CURLINFO_PRIVATE, &a);
    finish(client, (struct asked *)(void *)a, msg->data.result);
    return true;
}

static CURLMcode run_timer(struct spot_http_client *client)
{
    int n_running;

    if (spot_clock_s() < client->timer_s)
        return CURLM_OK;
    client->timer_s = INFINITY; /* the call may set another timer */
    return api.curl_multi_socket_action(client->multi, CURL_SOCKET_TIMEOUT, 0, &n_running);
}

static CURLMcode run_sockets(struct spot_http_client *client)
{
    struct epoll_event event[EVENTS];
    const int n = epoll_wait(client->epoll_fd, event, EVENTS, 0);
    CURLMcode code = CURLM_OK;

    for (int i = 0; i < n && !code; i++) {
        const uint32_t e = event[i].events;
        const int bits = (e & EPOLLIN ? CURL_CSELECT_IN : 0) |
                         (e & EPOLLOUT ? CURL_CSELECT_OUT : 0) |
                         (e & (EPOLLERR | EPOLLHUP) ? CURL_CSELECT_ERR : 0);
        int n_running;

        code = api.curl_multi_socket_action(client->multi, event[i].data.fd, bits, &n_running);
    }
    return code;
}

/* The wait in milliseconds, rounded up. */
static int wait_ms(const struct spot_http_client *client, double timeout_s)
{
    const double left_s = fmin(timeout_s, client->timer_s - spot_clock_s());

    return left_s > 0 ? (int)fmin(left_s * 1e3, 1e6) + 1 : 0;
}

int spot_http_client_wait(struct spot_http_client *client, const int *fd, size_t n_fd,
                          double timeout_s, struct spot_err *err)
{
    struct pollfd watched[FD_MAX + 1] = { { .fd = client->epoll_fd, .events = POLLIN } };
    CURLMcode code = run_timer(client);
    bool is_some = false;

    n_fd = n_fd < FD_MAX ? n_fd : FD_MAX;
    for (size_t i = 0; i < n_fd; i++)
        watched[i + 1] = (struct pollfd){ .fd = fd[i], .events = POLLIN };
    while (!code && finish_next(client))
        is_some = true;
    if (!code && !is_some) {
        (void)poll(watched, n_fd + 1, wait_ms(client, timeout_s));
        code = run_sockets(client);
        if (!code)
            code = run_timer(client);
        while (!code && finish_next(client))
            ;
    }
    return code ? spot_err_set(err, SPOT_ESYS, "libcurl: %s", api.curl_multi_strerror(code)) : 0;
}

bool spot_http_reply_header(const struct spot_http_reply *reply, const char *name, char *text,
                            size_t n)
{
    const size_t n_name = strlen(name);
    const char *line = reply->head;

    *text = '\0';
    while (line && *line) {
        const char *const end = line + strcspn(line, "\r\n");

        if (!strncasecmp(line, name, n_name) && line[n_name] == ':') {
            const char *value = line + n_name + 1;
            size_t n_value;

            value += strspn(value, " \t");
            n_value = end > value ? (size_t)(end - value) : 0;
            while (n_value && (value[n_value - 1] == ' ' || value[n_value - 1] == '\t'))
                n_value--;
            if (n_value < n)
                snprintf(text, n, "%.*s", (int)n_value, value);
            return true;
        }
        line = end + strspn(end, "\r\n");
    }
    return false;
}
