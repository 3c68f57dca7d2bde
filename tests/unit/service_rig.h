/* SPDX-License-Identifier: MIT */
/* service_rig.h - a small HTTP service on loopback, in a thread: each question is answered as the
 * test says, when it says so. */
#ifndef SPOT_TESTS_SERVICE_RIG_H
#define SPOT_TESTS_SERVICE_RIG_H

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "comm/endpoint.h"
#include "suite.h"

enum { QUESTIONS_MAX = 16, QUESTION_BYTES = 8192 };

struct question {
    int fd;
    size_t n;
    char text[QUESTION_BYTES]; /* as it came */
    char method[8], path[512];
    const char *body;
};

static struct service {
    /* Write a whole reply, or what is less; the connection is closed behind it. False: there is no
     * answer yet, and the question is asked again soon. Called in the service's thread. */
    bool (*answer)(const struct question *q, FILE *out);
    char url[64];
    int listener, wake[2];
    pthread_t thread;
    struct question open[QUESTIONS_MAX];
    size_t n_open;
} service;

/* "" where it is not there. */
static inline const char *question_header(const struct question *q, const char *name)
{
    static _Thread_local char value[256];
    const size_t n = strlen(name);

    value[0] = '\0';
    for (const char *line = strstr(q->text, "\r\n"); line; line = strstr(line, "\r\n")) {
        line += 2;
        if (!strncasecmp(line, name, n) && line[n] == ':') {
            const char *v = line + n + 1 + strspn(line + n + 1, " ");

            snprintf(value, sizeof(value), "%.*s", (int)strcspn(v, "\r\n"), v);
            break;
        }
    }
    return value;
}

/* `more` are header lines with their ends. */
static inline void reply(FILE *out, int status, const char *more, const char *body)
{
    fprintf(out, "HTTP/1.1 %d Said\r\n%sContent-Length: %zu\r\nConnection: close\r\n\r\n%s", status,
            more, strlen(body), body);
}

/* Is it whole? Then its parts are set. */
static inline bool question_is_whole(struct question *q)
{
    const char *const end = strstr(q->text, "\r\n\r\n");

    if (!end)
        return false;
    q->body = end + 4;
    if ((size_t)(q->text + q->n - q->body) <
        strtoul(question_header(q, "Content-Length"), NULL, 10))
        return false;
    return sscanf(q->text, "%7s %511s", q->method, q->path) == 2;
}

/* Returns whether the connection is over. */
static inline bool serve_question(struct question *q, bool is_readable)
{
    char *text = NULL;
    size_t n_text = 0;
    bool is_answered;
    FILE *out;

    if (is_readable) {
        const ssize_t n = read(q->fd, q->text + q->n, sizeof(q->text) - 1 - q->n);

        if (n <= 0)
            return true; /* whoever asked has gone */
        q->n += (size_t)n;
    }
    if (!question_is_whole(q))
        return false;
    out = open_memstream(&text, &n_text);
    is_answered = service.answer(q, out);
    fclose(out);
    for (size_t at = 0; is_answered && at < n_text;) {
        const ssize_t n = send(q->fd, text + at, n_text - at, MSG_NOSIGNAL);

        at = n > 0 ? at + (size_t)n : n_text;
    }
    free(text);
    return is_answered;
}

static inline void *run_service(void *unused)
{
    struct pollfd set[QUESTIONS_MAX + 2];

    for (;;) {
        const size_t n = service.n_open;

        set[0] = (struct pollfd){ .fd = service.wake[0], .events = POLLIN };
        set[1] =
            (struct pollfd){ .fd = n < QUESTIONS_MAX ? service.listener : -1, .events = POLLIN };
        for (size_t i = 0; i < n; i++)
            set[i + 2] = (struct pollfd){ .fd = service.open[i].fd, .events = POLLIN };
        poll(set, n + 2, n ? 2 : -1);
        if (set[0].revents)
            return unused;
        for (size_t i = n; i-- > 0;)
            if (serve_question(&service.open[i], set[i + 2].revents)) {
                close(service.open[i].fd);
                service.open[i] = service.open[--service.n_open];
            }
        if (set[1].revents) {
            struct question *const q = &service.open[service.n_open];

            *q = (struct question){ .fd = accept(service.listener, NULL, NULL) };
            service.n_open += q->fd >= 0;
        }
    }
}

static inline void begin_service(bool (*answer)(const struct question *q, FILE *out))
{
    struct spot_endpoint at;

    service = (struct service){ .answer = answer };
    ck_assert_int_eq(spot_endpoint_parse("127.0.0.1:0", &at, NULL), 0);
    service.listener = spot_endpoint_listen(&at, NULL);
    ck_assert_int_ge(service.listener, 0);
    snprintf(service.url, sizeof(service.url), "http://127.0.0.1:%d", at.port);
    ck_assert_int_eq(pipe(service.wake), 0);
    ck_assert_int_eq(pthread_create(&service.thread, NULL, run_service, NULL), 0);
}

static inline void end_service(void)
{
    ck_assert_int_eq(write(service.wake[1], "", 1), 1);
    pthread_join(service.thread, NULL);
    for (size_t i = 0; i < service.n_open; i++)
        close(service.open[i].fd);
    close(service.listener);
    close(service.wake[0]);
    close(service.wake[1]);
}

#endif /* SPOT_TESTS_SERVICE_RIG_H */
