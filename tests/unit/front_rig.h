/* SPDX-License-Identifier: MIT */
/* front_rig.h - a server whose tokens a test commits, and clients that are plain sockets, all in
 * one thread. Include it behind _XOPEN_SOURCE. */
#ifndef SPOT_TESTS_FRONT_RIG_H
#define SPOT_TESTS_FRONT_RIG_H

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "comm/endpoint.h"
#include "serve/front.h"
#include "serve/openai_state.h"
#include "suite.h"

enum { RIG_BODY_MAX = 4096, RIG_COMPLETIONS = 64, RIG_TURNS = 20000, RIG_LOOKS = 400 };

static struct {
    struct spot_completion *c[RIG_COMPLETIONS]; /* [n], a reference each */
    size_t n, n_abandoned, n_told; /* n_told: times that the worker of a token was asked for */
    const struct spot_completion *abandoned; /* the last */
    enum spot_admission admission, health;
} rig;

static struct spot_bpe *rig_bpe;
static struct spot_vocabulary rig_vocabulary;
static const uint32_t rig_end = 'E';
static char rig_dir[32], rig_address[64];
static struct spot_front_options rig_options;
static struct spot_front *rig_front;

/* --- the server ---------------------------------------------------------------- */

static inline enum spot_admission rig_submit(void *server, struct spot_request *request_take,
                                             struct spot_completion **completion)
{
    (void)server;
    if (rig.admission != SPOT_ADMIT) {
        spot_request_release(request_take);
        return rig.admission;
    }
    ck_assert_uint_lt(rig.n, RIG_COMPLETIONS);
    rig.c[rig.n] = spot_completion_new(request_take, &rig_vocabulary);
    *completion = spot_completion_ref(rig.c[rig.n++]);
    return SPOT_ADMIT;
}

static inline void rig_abandon(void *server, struct spot_completion *c)
{
    (void)server;
    rig.n_abandoned++;
    rig.abandoned = c;
}

static inline void rig_cancel(void *server, struct spot_completion *c)
{
    (void)server;
    for (uint32_t i = 0; i < c->request.n_choice; i++)
        if (c->choice[i].finish == SPOT_FINISH_NONE)
            spot_completion_finish(c, i, SPOT_FINISH_CANCELLED);
}

static inline struct spot_completion *rig_rejoin(void *server, const char *id, uint64_t owner)
{
    (void)server;
    for (size_t i = 0; i < rig.n; i++)
        if (!strcmp(rig.c[i]->request.id, id) && rig.c[i]->request.owner == owner)
            return spot_completion_ref(rig.c[i]);
    return NULL;
}

static inline int rig_proof(void *server, const struct spot_completion *c, struct spot_buf *out)
{
    (void)server;
    spot_buf_add(out, c->request.id, strlen(c->request.id));
    return 0;
}

static inline double rig_retry_after_s(void *server)
{
    (void)server;
    return 6.5;
}

static inline enum spot_admission rig_health(void *server)
{
    (void)server;
    return rig.health;
}

static inline void rig_metrics(void *server, struct spot_buf *out)
{
    (void)server;
    spot_buf_add(out, "spot_up 1\n", 10);
}

static inline const char *rig_worker_name(void *server, uint32_t worker)
{
    (void)server;
    rig.n_told++;
    return worker ? "w1" : NULL;
}

static const struct spot_front_server rig_table = { .submit = rig_submit,
                                                    .abandon = rig_abandon,
                                                    .cancel = rig_cancel,
                                                    .rejoin = rig_rejoin,
                                                    .proof = rig_proof,
                                                    .retry_after_s = rig_retry_after_s,
                                                    .health = rig_health,
                                                    .metrics = rig_metrics,
                                                    .worker_name = rig_worker_name };

/* Commit the next token of a choice; the front is told, and has not run. */
static inline void rig_commit(struct spot_completion *c, uint32_t choice, uint32_t id)
{
    const struct spot_token token = { .id = id, .logprob = -1, .worker = choice, .epoch = 3 };

    ck_assert_int_eq(spot_completion_append(c, choice, c->choice[choice].n_token, &token), 0);
    spot_front_progress(rig_front, c);
}

static inline void rig_begin(void)
{
    memset(&rig, 0, sizeof(rig));
    rig_bpe = spot_bpe_of_bytes();
    rig_vocabulary = (struct spot_vocabulary){ .bpe = rig_bpe, .end = &rig_end, .n_end = 1 };
    ck_assert_ptr_nonnull(mkdtemp(strcpy(rig_dir, "/tmp/spot-front-XXXXXX")));
    snprintf(rig_address, sizeof(rig_address), "unix:%s/s", rig_dir);
    rig_options = (struct spot_front_options){ .address = rig_address,
                                               .model = "m",
                                               .vocabulary = &rig_vocabulary,
                                               .n_context = 1 << 20,
                                               .n_vocabulary = 256,
                                               .body_max_byte = RIG_BODY_MAX,
                                               .n_connection_max = 64,
                                               .idle_s = 60 };
}

static inline void rig_open(void)
{
    struct spot_err err = { 0 };

    rig_front = spot_front_new(&rig_options, &rig_table, NULL, &err);
    ck_assert_msg(rig_front != NULL, "%s", err.msg);
}

static inline void rig_close(void)
{
    spot_front_free(rig_front);
    rig_front = NULL;
}

static inline void rig_end_all(void)
{
    rig_close();
    for (size_t i = 0; i < rig.n; i++) {
        ck_assert_int_eq(rig.c[i]->n_reference, 1); /* the front has given back what it had */
        spot_completion_unref(rig.c[i]);
    }
    spot_bpe_free(rig_bpe);
    rmdir(rig_dir);
}

/* --- clients --------------------------------------------------------------------- */

struct client {
    int fd;
    bool is_ended;
    struct spot_buf said; /* by the server; with a '\0' behind it */
};

static inline void rig_turn(void)
{
    struct pollfd set = { .fd = spot_front_fd(rig_front), .events = POLLIN };

    (void)poll(&set, 1, 1);
    spot_front_run(rig_front);
}

static inline void client_open(struct client *k)
{
    struct spot_endpoint at;

    *k = (struct client){ 0 };
    if (spot_front_port(rig_front))
        snprintf(rig_address, sizeof(rig_address), "127.0.0.1:%d", spot_front_port(rig_front));
    ck_assert_int_eq(spot_endpoint_parse(rig_address, &at, NULL), 0);
    k->fd = spot_endpoint_connect(&at, NULL);
    ck_assert_int_ge(k->fd, 0);
    ck_assert_int_eq(fcntl(k->fd, F_SETFL, O_NONBLOCK), 0);
    spot_buf_add(&k->said, "", 1);
}

/* A server may hang up on what it does not like before all is written. */
static inline void client_send(struct client *k, const void *data, size_t n)
{
    const char *at = data;

    while (n) {
        const ssize_t put = send(k->fd, at, n, MSG_NOSIGNAL);

        if (put < 0 && errno != EAGAIN)
            return;
        if (put < 0)
            rig_turn();
        at += put > 0 ? put : 0;
        n -= put > 0 ? (size_t)put : 0;
    }
}

static inline const char *client_text(const struct client *k)
{
    return (const char *)k->said.data;
}

/* Take what is there. */
static inline void client_read(struct client *k)
{
    char block[8192];
    ssize_t got;

    while ((got = read(k->fd, block, sizeof(block))) > 0) {
        k->said.n--;
        spot_buf_add(&k->said, block, (size_t)got);
        spot_buf_add(&k->said, "", 1);
    }
    k->is_ended = !got || errno != EAGAIN;
}

/* Until the server has said `text`, or hung up: NULL. */
static inline void client_hear(struct client *k, const char *text)
{
    for (int i = 0; !k->is_ended && (!text || !strstr(client_text(k), text)); i++) {
        ck_assert_msg(i < RIG_TURNS, "no %s after: %s", text ? text : "end", client_text(k));
        rig_turn();
        client_read(k);
    }
    ck_assert_msg(!text || strstr(client_text(k), text), "hung up without %s after: %s", text,
                  client_text(k));
}

static inline void client_close(struct client *k)
{
    close(k->fd);
    spot_buf_release(&k->said);
}

/* `headers`: lines that end in \r\n. */
static inline void client_ask(struct client *k, const char *method, const char *path,
                              const char *headers, const char *body)
{
    char head[1024];
    const int n = snprintf(head, sizeof(head),
                           "%s %s HTTP/1.1\r\nHost: localhost\r\n%sContent-Length: %zu\r\n\r\n",
                           method, path, headers, strlen(body));

    ck_assert_int_lt(n, (int)sizeof(head));
    client_open(k);
    client_send(k, head, (size_t)n);
    client_send(k, body, strlen(body));
}

static inline int client_status(const struct client *k)
{
    return strncmp(client_text(k), "HTTP/1.1 ", 9) ? 0 : atoi(client_text(k) + 9);
}

/* The answer to a whole question on a connection of its own. */
static inline void client_once(struct client *k, const char *method, const char *path,
                               const char *headers, const char *body)
{
    char both[512];

    snprintf(both, sizeof(both), "%sConnection: close\r\n", headers);
    client_ask(k, method, path, both, body);
    client_hear(k, NULL);
}

static inline const char *client_body(const struct client *k)
{
    const char *const at = strstr(client_text(k), "\r\n\r\n");

    ck_assert_ptr_nonnull(at);
    return at + 4;
}

/* The chunks of a stream so far, one behind the other; to be released. */
static inline struct spot_buf client_stream(const struct client *k)
{
    const char *at = client_body(k), *const end = client_text(k) + k->said.n - 1;
    struct spot_buf out = { 0 };

    while (at < end) {
        char *data;
        const size_t n = strtoul(at, &data, 16);

        if (!n || strncmp(data, "\r\n", 2) != 0 || (size_t)(end - data) < n + 4)
            break;
        spot_buf_add(&out, data + 2, n);
        at = data + 2 + n + 2;
    }
    spot_buf_add(&out, "", 1);
    return out;
}

/* Somebody else is answered. */
static inline void rig_check_served(void)
{
    struct client k;

    client_once(&k, "GET", "/health", "", "");
    ck_assert_int_eq(client_status(&k), 200);
    client_close(&k);
}

/* A question is taken by the server: its completion. */
static inline struct spot_completion *rig_take(struct client *k, const char *body)
{
    const size_t n = rig.n;

    client_ask(k, "POST", "/v1/completions", "", body);
    for (int i = 0; rig.n == n; i++) {
        ck_assert_int_lt(i, RIG_TURNS);
        rig_turn();
    }
    return rig.c[n];
}

static inline TCase *rig_case(Suite *s, const char *name, void (*begin)(void), void (*end)(void))
{
    TCase *const tc = tcase_create(name);

    tcase_set_timeout(tc, 120);
    if (begin)
        tcase_add_checked_fixture(tc, begin, end);
    suite_add_tcase(s, tc);
    return tc;
}

static inline int rig_run(Suite *s)
{
    SRunner *const runner = srunner_create(s);
    int n_failed;

    srunner_set_tap(runner, "-");
    srunner_run_all(runner, CK_SILENT);
    n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

#endif /* SPOT_TESTS_FRONT_RIG_H */
