/* SPDX-License-Identifier: MIT */
/* The loop of a watch: sends due queries and handles answers. */
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cluster/notice/notice_state.h"
#include "comm/endpoint.h"
#include "common/clock.h"
#include "common/threads.h"
#include "common/utf8.h"
#include "common/xalloc.h"

static const char link_local[] = "http://169.254.169.254";
static const double pause_max_s = 30; /* largest interval between failing queries */
static const double connect_s = 1;

enum { FAILS_BEFORE_WARNING = 3, BYTE_STOP = 's', BYTE_TERMINATE = 't' };

void spot_notice_warn(struct spot_notice_watch *w, const char *fmt, ...)
{
    char text[400];
    va_list ap;

    if (!w->options.warn)
        return;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    spot_utf8_make_plain(text);
    w->options.warn("%s", text);
}

/* --- queries ----------------------------------------------------------- */

static void on_answer(void *user, const struct spot_http_reply *reply)
{
    const struct spot_notice_awaited *const a = user;
    struct spot_notice_watch *const w = a->watch;

    if (a->generation != w->generation)
        return;
    w->query[a->query].is_under_way = false;
    if (reply->status)
        spot_notice_set_clock(w, reply);
    w->cloud->answered(w, a->query, reply);
}

void spot_notice_ask(struct spot_notice_watch *w, size_t i, const char *method, const char *path,
                     const char *const header[], const char *body, double limit_s)
{
    struct spot_notice_awaited *const a = &w->awaited[w->generation % 2][i];
    char url[SPOT_HTTP_URL_MAX];
    struct spot_http_ask ask = {
        .method = method, .url = url, .body = body, .connect_s = connect_s, .limit_s = limit_s
    };
    struct spot_err why;

    *a = (struct spot_notice_awaited){ .watch = w, .generation = w->generation, .query = i };
    snprintf(url, sizeof(url), "%s%s", w->base, path);
    for (size_t k = 0; k < SPOT_HTTP_HEADERS_MAX && header[k]; k++)
        ask.header[k] = header[k];
    w->query[i].due_s = INFINITY;
    w->query[i].asked_s = spot_clock_s();
    w->query[i].is_under_way = true;
    if (!spot_http_client_ask(w->client, &ask, on_answer, a, &why))
        return;
    w->query[i].is_under_way = false;
    spot_notice_failed(w, i, "%s", why.msg);
}

void spot_notice_again(struct spot_notice_watch *w, size_t i, double after_s)
{
    struct spot_notice_query *const q = &w->query[i];

    q->n_fail = 0;
    q->has_answered = true;
    q->due_s = spot_clock_s() + after_s;
}

void spot_notice_failed(struct spot_notice_watch *w, size_t i, const char *fmt, ...)
{
    struct spot_notice_query *const q = &w->query[i];
    char why[300];
    va_list ap;

    q->due_s = spot_clock_s() + fmin(pause_max_s, ldexp(w->options.interval_s,
                                                        (int)(q->n_fail < 10 ? q->n_fail : 10)));
    if (++q->n_fail < FAILS_BEFORE_WARNING || q->has_warned)
        return;
    q->has_warned = true;
    va_start(ap, fmt);
    vsnprintf(why, sizeof(why), fmt, ap);
    va_end(ap);
    spot_notice_warn(w, "notices of %s: %s; retrying, at intervals of up to %g s", w->cloud->name,
                     why, pause_max_s);
}

const char *spot_notice_reason(const struct spot_http_reply *reply, char text[64])
{
    if (reply->status)
        snprintf(text, 64, "HTTP status %ld", reply->status);
    else
        snprintf(text, 64, "%.60s", reply->why);
    return text;
}

void spot_notice_turn_to(struct spot_notice_watch *w, const struct spot_notice_cloud *cloud)
{
    w->cloud = cloud;
    w->generation++;
    memset(w->query, 0, sizeof(w->query));
}

void spot_notice_take(struct spot_notice_watch *w, size_t i, const struct spot_http_reply *reply,
                      spot_notice_read *read)
{
    struct spot_notice_claim claim[SPOT_NOTICE_CLAIMS_MAX];
    struct spot_err why;
    const int n = read(reply->body, reply->n_byte, w->name[0] ? w->name : NULL, claim, &why);

    if (n < 0) {
        spot_notice_failed(w, i, "%s", why.msg);
        return;
    }
    spot_notice_again(w, i, w->options.interval_s);
    spot_notice_compare(w, i, claim, (size_t)n);
}

/* --- the loop ------------------------------------------------------------ */

static void ask_due(struct spot_notice_watch *w)
{
    const unsigned generation = w->generation;

    for (size_t i = 0; w->cloud && i < w->cloud->n_query && generation == w->generation; i++)
        if (!w->query[i].is_under_way && w->query[i].due_s <= spot_clock_s())
            w->cloud->ask(w, i);
}

/* True while a child process runs. Its end is polled, since SIGCHLD would affect the whole
 * program. */
static bool is_child_awaited(const struct spot_notice_watch *w)
{
    return w->n_hook || (w->command && w->command_fd < 0);
}

static double timeout_s(const struct spot_notice_watch *w, double ack_s)
{
    double until_s = spot_clock_s() + fmin(ack_s, 3600);

    for (size_t i = 0; w->cloud && i < w->cloud->n_query; i++)
        if (!w->query[i].is_under_way)
            until_s = fmin(until_s, w->query[i].due_s);
    return fmin(fmax(until_s - spot_clock_s(), 0), is_child_awaited(w) ? 0.02 : 3600);
}

static void report_signal(struct spot_notice_watch *w)
{
    struct spot_notice_claim claim = { .kind = SPOT_NOTICE_PREEMPT,
                                       .is_memory_lost = true,
                                       .has_begun = true,
                                       .action = "SIGTERM",
                                       .id = "SIGTERM",
                                       .deadline_s = NAN,
                                       .lead_s = w->options.lead_s > 0 ? w->options.lead_s : NAN };

    spot_notice_add(w, "sigterm", &claim);
}

static void read_wake(struct spot_notice_watch *w)
{
    char byte;

    while (read(w->wake[0], &byte, 1) == 1) {
        if (byte == BYTE_TERMINATE && !w->is_stopping)
            report_signal(w);
        w->is_left |= w->is_stopping;
        w->is_stopping = true;
    }
}

/* With is_once: true when every query that reports notices was answered. */
static bool has_reported_all(const struct spot_notice_watch *w)
{
    for (size_t i = 0; i < w->cloud->n_query; i++)
        if (w->cloud->reports >> i & 1 && !w->query[i].has_answered)
            return false;
    return w->cloud->reports != 0;
}

/* With is_once: true when queries have failed too often and nothing is pending. */
static bool is_hopeless(const struct spot_notice_watch *w)
{
    bool has_failed = false;

    for (size_t i = 0; i < w->cloud->n_query; i++) {
        const struct spot_notice_query *const q = &w->query[i];
        const bool is_over = q->n_fail >= FAILS_BEFORE_WARNING;

        has_failed |= is_over;
        if (!is_over && !q->has_answered && (q->is_under_way || isfinite(q->due_s)))
            return false;
    }
    return has_failed;
}

static int check_reported(const struct spot_notice_watch *w, struct spot_err *err)
{
    return has_reported_all(w) || w->n_seen
               ? 0
               : spot_err_set(err, SPOT_ESYS, "%s: no metadata service answers at %s",
                              w->options.from, w->base);
}

int spot_notice_run(struct spot_notice_watch *w, struct spot_err *err)
{
    for (;;) {
        bool is_awaited;
        const double ack_s = spot_notice_send_acks(w, &is_awaited);
        int fd[2];

        if (w->is_left || (w->is_stopping && !w->n_hook && !is_awaited))
            break;
        if (!w->is_stopping)
            ask_due(w);
        fd[0] = w->wake[0];
        fd[1] = w->command_fd; /* a restarted command has another descriptor */
        if (spot_http_client_wait(w->client, fd, w->command_fd >= 0 ? 2 : 1, timeout_s(w, ack_s),
                                  err))
            return -1;
        spot_notice_read_command(w);
        spot_notice_reap_hooks(w);
        read_wake(w);
        if (w->options.is_once && (has_reported_all(w) || is_hopeless(w)))
            w->is_stopping = true;
    }
    return w->options.is_once ? check_reported(w, err) : 0;
}

static void *run_thread(void *watch)
{
    struct spot_notice_watch *const w = watch;
    struct spot_err why;

    if (spot_notice_run(w, &why))
        spot_notice_warn(w, "no longer watching for notices: %s", why.msg);
    return NULL;
}

int spot_notice_start(struct spot_notice_watch *w, struct spot_err *err)
{
    if (spot_thread_start(&w->thread, run_thread, w, err))
        return -1;
    w->has_thread = true;
    return 0;
}

static void wake(struct spot_notice_watch *w, char byte)
{
    const int before = errno; /* keep errno of the interrupted code */

    (void)!write(w->wake[1], &byte, 1);
    errno = before;
}

void spot_notice_stop(struct spot_notice_watch *w)
{
    wake(w, BYTE_STOP);
}

void spot_notice_terminate(struct spot_notice_watch *w)
{
    wake(w, BYTE_TERMINATE);
}

/* --- begin and end ------------------------------------------------------- */

static int find_cloud(const char *from, const struct spot_notice_cloud **cloud,
                      struct spot_err *err)
{
    static const struct spot_notice_cloud *const all[] = { &spot_notice_aws, &spot_notice_gcp,
                                                           &spot_notice_azure, &spot_notice_auto };

    *cloud = NULL;
    if (!strcmp(from, "sigterm"))
        return 0;
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]) && !*cloud; i++)
        if (!strcmp(from, all[i]->name))
            *cloud = all[i];
    if (!strncmp(from, "cmd:", 4) && from[4 + strspn(from + 4, " ")])
        *cloud = &spot_notice_cmd;
    return *cloud
               ? 0
               : spot_err_set(err, SPOT_EUSAGE,
                              "expected aws, gcp, azure, auto, sigterm or cmd:COMMAND, got '%.60s'",
                              from);
}

static int check_options(const struct spot_notice_options *o, struct spot_err *err)
{
    if (o->endpoint && spot_http_url_check(o->endpoint, err))
        return -1;
    if (o->is_once && (!strncmp(o->from, "cmd:", 4) || !strcmp(o->from, "sigterm")))
        return spot_err_set(err, SPOT_EUSAGE, "only a metadata service can be asked once");
    return 0;
}

struct spot_notice_watch *spot_notice_new(const struct spot_notice_options *options,
                                          struct spot_err *err)
{
    const struct spot_notice_cloud *cloud;
    struct spot_notice_watch *w;

    if (find_cloud(options->from, &cloud, err) || check_options(options, err))
        return NULL;
    w = spot_xcalloc(1, sizeof(*w));
    w->options = *options;
    if (w->options.interval_s <= 0)
        w->options.interval_s = 1;
    w->command_fd = w->wake[0] = w->wake[1] = -1;
    snprintf(w->base, sizeof(w->base), "%s", options->endpoint ? options->endpoint : link_local);
    if (cloud)
        spot_notice_turn_to(w, cloud);
    w->client = spot_http_client_new(err);
    if (w->client && !spot_endpoint_pipe(w->wake))
        return w;
    if (w->client)
        spot_err_sys(err, "cannot make a pipe");
    spot_notice_free(w);
    return NULL;
}

void spot_notice_free(struct spot_notice_watch *w)
{
    if (!w)
        return;
    if (w->has_thread) {
        spot_notice_stop(w);
        spot_notice_stop(w);
        pthread_join(w->thread, NULL);
    }
    spot_notice_end_command(w);
    spot_http_client_free(w->client);
    spot_buf_release(&w->line);
    for (int i = 0; i < 2; i++)
        if (w->wake[i] >= 0)
            close(w->wake[i]);
    free(w);
}
