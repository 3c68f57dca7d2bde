/* SPDX-License-Identifier: MIT */
#include "comm/monitor.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include "comm/endpoint.h"
#include "comm/http.h"
#include "comm/http_host.h"
#include "comm/http_page.h"
#include "common/clock.h"
#include "common/metric.h"
#include "common/threads.h"
#include "common/xalloc.h"

enum { CONNECTIONS_MAX = 64, TICK_MS = 250, NICE = 10 };

static const double idle_s = 10; /* limit for silent connections and incomplete requests */
static const double publish_every_s = 0.25;
static const double making_share = 0.01; /* share of the job's time */
static const double watch_s = 15;        /* the page polls twice a second */

struct spot_monitor {
    struct spot_monitor_options options;
    struct spot_http *http;
    char url[160];
    pthread_t thread;
    bool has_thread, is_tcp;
    int wake;
    _Atomic bool stop;
    _Atomic double watched_s; /* when /history.json was last requested; 0: never */

    double due_s; /* used by the job's thread */

    pthread_mutex_t lock;
    struct spot_buf doc[SPOT_MONITOR_DOCS]; /* guarded by the lock */
};

/* --- answers --------------------------------------------------------------------- */

static const char plain[] = "text/plain; charset=utf-8";

static void answer_text(struct spot_http_call *call, unsigned status, const char *text)
{
    spot_http_answer(call, status, plain, text, strlen(text));
}

static void answer_doc(struct spot_monitor *m, struct spot_http_call *call,
                       enum spot_monitor_doc which)
{
    static const char *const type[] = { [SPOT_MONITOR_METRICS] = SPOT_METRIC_TYPE,
                                        [SPOT_MONITOR_STATUS] = "application/json",
                                        [SPOT_MONITOR_HISTORY] = "application/json" };

    if (which == SPOT_MONITOR_HISTORY)
        m->watched_s = spot_clock_s();
    spot_http_add_header(call, "Cache-Control", "no-store");
    spot_http_add_header(call, "X-Content-Type-Options", "nosniff");
    pthread_mutex_lock(&m->lock);
    if (m->doc[which].n)
        spot_http_answer(call, 200, type[which], m->doc[which].data, m->doc[which].n);
    pthread_mutex_unlock(&m->lock);
    if (!spot_http_is_answered(call))
        answer_text(call, 503, "The job has not begun.\n");
}

static void answer_page(struct spot_monitor *m, struct spot_http_call *call)
{
    if (spot_http_answer_page(call, m->options.page, m->options.page_byte, NULL))
        answer_text(call, 500, "There are no random numbers.\n");
}

static void called(void *user, struct spot_http_call *call)
{
    static const char *const path[] = { [SPOT_MONITOR_METRICS] = "/metrics",
                                        [SPOT_MONITOR_STATUS] = "/status.json",
                                        [SPOT_MONITOR_HISTORY] = "/history.json" };
    struct spot_monitor *const m = user;
    const char *const method = spot_http_method(call);
    int which = 0;

    if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0) {
        spot_http_add_header(call, "Allow", "GET, HEAD");
        answer_text(call, 405, "Only GET and HEAD are answered.\n");
        return;
    }
    if (m->is_tcp && !spot_http_host_is_address(call)) {
        answer_text(call, 403, "Host must be localhost or an IP address.\n");
        return;
    }
    while (which < SPOT_MONITOR_DOCS && strcmp(path[which], spot_http_path(call)) != 0)
        which++;
    if (which < SPOT_MONITOR_DOCS)
        answer_doc(m, call, (enum spot_monitor_doc)which);
    else if (!strcmp(spot_http_path(call), "/"))
        answer_page(m, call);
    else
        answer_text(call, 404, "There are /, /metrics, /status.json and /history.json.\n");
}

static void gone(void *user, struct spot_http_call *call)
{
    (void)user;
    (void)call;
}

/* --- the thread ---------------------------------------------------------------------- */

static void *work(void *user)
{
    struct spot_monitor *const m = user;
    eventfd_t count;

    (void)setpriority(PRIO_PROCESS, 0, NICE); /* for this thread only: steps have priority */
    while (!m->stop) {
        struct pollfd set[] = { { .fd = m->wake, .events = POLLIN },
                                { .fd = spot_http_fd(m->http), .events = POLLIN } };

        (void)poll(set, 2, TICK_MS);
        (void)eventfd_read(m->wake, &count);
        spot_http_run(m->http);
    }
    return NULL;
}

static int start(struct spot_monitor *m, struct spot_err *err)
{

    m->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (m->wake < 0)
        return spot_err_sys(err, "cannot wait for events");
    m->has_thread = !spot_thread_start(&m->thread, work, m, err);
    return m->has_thread ? 0 : -1;
}

/* --- the server ------------------------------------------------------------------------- */

static int listen_at(struct spot_monitor *m, struct spot_err *err)
{
    const struct spot_monitor_options *const o = &m->options;
    const struct spot_http_options http = { .address = o->address,
                                            .n_connection_max = CONNECTIONS_MAX,
                                            .idle_s = idle_s,
                                            .called = called,
                                            .gone = gone,
                                            .user = m };
    struct spot_endpoint at;

    if (spot_endpoint_parse_reach(o->address, SPOT_REACH_NUMERIC, &at, err))
        return -1;
    if (!spot_endpoint_is_private(&at))
        return spot_err_set(err, SPOT_EUSAGE,
                            "%s is not a local address: metrics are served only on this host; use "
                            "a reverse proxy with TLS for others",
                            o->address);
    m->http = spot_http_new(&http, err);
    if (!m->http)
        return -1;
    m->is_tcp = spot_http_port(m->http) > 0;
    snprintf(m->url, sizeof(m->url), "%s%s", spot_http_url(m->http), m->is_tcp ? "/" : "");
    return 0;
}

struct spot_monitor *spot_monitor_new(const struct spot_monitor_options *options,
                                      struct spot_err *err)
{
    struct spot_monitor *const m = spot_xcalloc(1, sizeof(*m));

    m->options = *options;
    m->wake = -1;
    pthread_mutex_init(&m->lock, NULL);
    if (listen_at(m, err) || start(m, err)) {
        spot_monitor_free(m);
        return NULL;
    }
    return m;
}

void spot_monitor_free(struct spot_monitor *m)
{
    if (!m)
        return;
    m->stop = true;
    if (m->has_thread) {
        (void)eventfd_write(m->wake, 1);
        pthread_join(m->thread, NULL);
    }
    spot_http_free(m->http);
    for (int i = 0; i < SPOT_MONITOR_DOCS; i++)
        spot_buf_release(&m->doc[i]);
    pthread_mutex_destroy(&m->lock);
    if (m->wake >= 0)
        close(m->wake);
    free(m);
}

const char *spot_monitor_url(const struct spot_monitor *m)
{
    return m->url;
}

bool spot_monitor_is_due(const struct spot_monitor *m)
{
    return spot_clock_s() >= m->due_s;
}

bool spot_monitor_is_watched(const struct spot_monitor *m)
{
    return m->watched_s > 0 && spot_clock_s() - m->watched_s < watch_s;
}

bool spot_monitor_publish(struct spot_monitor *m, struct spot_buf *doc, double made_s)
{
    const double now_s = spot_clock_s();
    const double rest_s = (now_s - made_s) / making_share;

    m->due_s = now_s + (rest_s > publish_every_s ? rest_s : publish_every_s);
    if (pthread_mutex_trylock(&m->lock))
        return false;
    for (int i = 0; i < SPOT_MONITOR_DOCS; i++) {
        const struct spot_buf before = m->doc[i];

        if (!doc[i].n)
            continue;
        m->doc[i] = doc[i];
        doc[i] = before;
    }
    pthread_mutex_unlock(&m->lock);
    return true;
}
