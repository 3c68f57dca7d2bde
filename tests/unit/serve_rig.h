/* SPDX-License-Identifier: MIT */
/* serve_rig.h - a whole server on processes of this program: workers that take their time while the
 * test says so, and clients. */
#ifndef SPOT_TESTS_SERVE_RIG_H
#define SPOT_TESTS_SERVE_RIG_H

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#include "cluster/client.h"
#include "cluster/private_dir.h"
#include "comm/endpoint.h"
#include "common/buf.h"
#include "common/json.h"
#include "serve/replica.h"
#include "serve/serve_protocol.h"
#include "serve/server.h"
#include "serve_model_rig.h"

enum { WORKERS = 8 };

/* --- pace --- */

/* Milliseconds that it takes a worker to tell its next tokens; NULL: this process is none. */
static volatile int *pace_ms;
static _Thread_local bool owes_rest;

ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
    const uint8_t *const header = message->msg_iov[0].iov_base;

    owes_rest |=
        pace_ms && message->msg_iov[0].iov_len == SPOT_FRAME_HEADER && header[4] == SPOT_MSG_TOKENS;
    return (ssize_t)syscall(SYS_sendmsg, fd, message, flags);
}

/* Whoever sends has a lock; it rests once others may have that, or orders would not be read. */
int pthread_mutex_unlock(pthread_mutex_t *mutex)
{
    static int (*real)(pthread_mutex_t *);
    struct timespec left = { 0, owes_rest ? *pace_ms * 1000000L : 0 };
    int rc;

    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "pthread_mutex_unlock");
    rc = real(mutex);
    owes_rest = false;
    while (left.tv_nsec && nanosleep(&left, &left) && errno == EINTR)
        ;
    return rc;
}

static inline volatile int *open_pace(const char *path)
{
    const int fd = open(path, O_RDWR | O_CREAT, 0600);
    void *at;

    if (fd < 0 || ftruncate(fd, sizeof(int)))
        exit(77);
    at = mmap(NULL, sizeof(int), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    return at;
}

/* From now on, for all workers. */
static inline void set_pace(int ms)
{
    volatile int *const pace = open_pace(in_dir("pace"));

    *pace = ms;
    munmap((void *)(uintptr_t)pace, sizeof(int));
}

/* --- processes --- */

static inline void on_notice(int number)
{
    (void)number;
    spot_agent_notice();
}

/* Called first by main: does not return where this program is a worker. */
static inline void be_worker(int argc, char **argv)
{
    struct sigaction action = { .sa_handler = on_notice, .sa_flags = SA_RESTART };
    struct spot_replica_options o = { .n_thread = 1 };
    struct spot_err err = { 0 };
    int rc;

    if (argc < 4 || strcmp(argv[0], "test-replica") != 0)
        return;
    memcpy(dir, argv[1], sizeof(dir));
    pace_ms = open_pace(in_dir("pace"));
    o.agent = (struct spot_agent_options){ .join = argv[2],
                                           .name = argv[3],
                                           .domain = argc > 4 ? argv[4] : NULL,
                                           .join_timeout_s = 60,
                                           .warn = warn };
    o.private_dir = getenv(SPOT_PRIVATE_DIR_ENV);
    o.agent.is_private = o.private_dir != NULL;
    sigaction(SIGTERM, &action, NULL);
    rc = spot_replica_run(&o, NULL, &err);
    if (rc && err.code != SPOT_EPREEMPTED)
        warn("worker %s ends: %s", argv[3], err.msg);
    leave(rc ? spot_err_exit_status(&err) : 0);
}

struct outcome {
    int rc;
    struct spot_err err;
};

static struct {
    pid_t server, worker[WORKERS];
    int end[2];
    struct spot_server_options o;
} rig;

static inline void become_worker(void *user, uint64_t index, const char *address)
{
    char name[24];

    (void)user;
    snprintf(name, sizeof(name), "local-%d", (int)index);
    execl("/proc/self/exe", "test-replica", dir, address, name, (char *)NULL);
}

/* Worker i; its domain follows. */
static inline void start_worker(int i)
{
    char name[16], domain[16];

    snprintf(name, sizeof(name), "w%d", i);
    snprintf(domain, sizeof(domain), "z%d", i % 2);
    rig.worker[i] = fork();
    if (rig.worker[i])
        return;
    execl("/proc/self/exe", "test-replica", dir, at_dir("join"), name, domain, (char *)NULL);
    _exit(127);
}

/* Returns its exit status, or minus the signal that killed it. */
static inline int end_of(pid_t *pid)
{
    int status;

    ck_assert_int_eq(waitpid(*pid, &status, 0), *pid);
    *pid = 0;
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

static inline int strike(int i, int signal)
{
    kill(rig.worker[i], signal);
    return end_of(&rig.worker[i]);
}

static inline void on_signal(int number)
{
    if (number == SIGHUP)
        spot_group_reload();
    else
        spot_group_stop();
}

/* Fresh names for what a test writes. */
static inline struct spot_server_options serving(void)
{
    unlink(in_dir("warnings"));
    set_pace(0);
    return (struct spot_server_options){ .group = { .name = "test-serve",
                                                    .listen = at_dir("join"),
                                                    .lease_s = 30,
                                                    .stall_s = 60,
                                                    .warn = warn },
                                         .model = in_dir("model"),
                                         .P = 1,
                                         .M = 1,
                                         .n_sequence = 4,
                                         .n_queue = 64,
                                         .linger_s = 0,
                                         .http = at_dir("http") };
}

static inline void start_server(const struct spot_server_options *o)
{
    struct sigaction action = { .sa_handler = on_signal };
    struct outcome told = { 0 };

    rig.o = *o;
    ck_assert_int_eq(pipe(rig.end), 0);
    rig.server = fork();
    if (rig.server)
        return;
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
    signal(SIGPIPE, SIG_IGN);
    told.rc = spot_server_run(o, &told.err);
    if (told.rc)
        warn("the server ends: %s", told.err.msg);
    leave(write(rig.end[1], &told, sizeof(told)) != (ssize_t)sizeof(told));
}

/* It is waited for; SIGKILL: nothing comes of it. */
static inline struct outcome end_server(int signal)
{
    struct outcome got = { .rc = -2 };

    if (signal)
        kill(rig.server, signal);
    close(rig.end[1]);
    if (signal != SIGKILL)
        ck_assert_int_eq(read(rig.end[0], &got, sizeof(got)), sizeof(got));
    ck_assert_int_eq(end_of(&rig.server), signal == SIGKILL ? -SIGKILL : 0);
    close(rig.end[0]);
    return got;
}

/* What a test that failed has left, too. */
static inline void end_all(void)
{
    for (int i = 0; i < WORKERS; i++)
        if (rig.worker[i])
            strike(i, SIGKILL);
    if (rig.server)
        end_server(SIGKILL);
}

/* --- clients --- */

struct talk {
    int fd;
    struct spot_buf said; /* with a NUL */
};

static inline bool talk_try(struct talk *k)
{
    struct spot_endpoint at;

    *k = (struct talk){ 0 };
    ck_assert_int_eq(spot_endpoint_parse(rig.o.http, &at, NULL), 0);
    k->fd = spot_endpoint_connect(&at, NULL);
    if (k->fd < 0)
        return false;
    ck_assert_int_eq(fcntl(k->fd, F_SETFL, 0), 0); /* it blocks */
    setsockopt(k->fd, SOL_SOCKET, SO_RCVTIMEO, &(struct timeval){ .tv_sec = 60 },
               sizeof(struct timeval));
    spot_buf_add(&k->said, "", 1);
    return true;
}

static inline const char *talk_text(const struct talk *k)
{
    return (const char *)k->said.data;
}

/* Until the server has said `text`; NULL: all. */
static inline void talk_hear(struct talk *k, const char *text)
{
    char block[4096];
    ssize_t got = 1;

    while (got > 0 && (!text || !strstr(talk_text(k), text))) {
        got = read(k->fd, block, sizeof(block));
        ck_assert_msg(got >= 0, "no more than: %s; %s", talk_text(k), why());
        k->said.n--;
        spot_buf_add(&k->said, block, (size_t)got);
        spot_buf_add(&k->said, "", 1);
    }
    ck_assert_msg(!text || strstr(talk_text(k), text), "no '%s' in: %s; %s", text, talk_text(k),
                  why());
}

/* `headers`: lines that end in \r\n. */
static inline void talk_ask(struct talk *k, const char *method, const char *path,
                            const char *headers, const char *body)
{
    struct spot_buf out = { 0 };
    char head[512];
    const int n = snprintf(head, sizeof(head),
                           "%s %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n%sContent-Length: "
                           "%zu\r\n\r\n",
                           method, path, headers, strlen(body));

    UNTIL(talk_try(k));
    spot_buf_add(&out, head, (size_t)n);
    spot_buf_add(&out, body, strlen(body));
    ck_assert_int_eq(send(k->fd, out.data, out.n, MSG_NOSIGNAL), (ssize_t)out.n);
    spot_buf_release(&out);
}

static inline void talk_close(struct talk *k)
{
    close(k->fd);
    spot_buf_release(&k->said);
}

static inline int talk_status(const struct talk *k)
{
    return strncmp(talk_text(k), "HTTP/1.1 ", 9) ? 0 : atoi(talk_text(k) + 9);
}

static inline const char *talk_body(const struct talk *k)
{
    const char *const at = strstr(talk_text(k), "\r\n\r\n");

    return at ? at + 4 : "";
}

/* A whole answer, until the next one is asked for. */
static inline const struct talk *ask(const char *method, const char *path, const char *body)
{
    static struct talk k;

    spot_buf_release(&k.said);
    talk_ask(&k, method, path, "", body);
    talk_hear(&k, NULL);
    close(k.fd);
    return &k;
}

/* Of a document: the value at a path of keys and indices, "choices.0.text"; a copy of its text. */
static inline const struct spot_json_value *find_value(const struct spot_json_value *v,
                                                       const char *path)
{
    char key[64];
    int n;

    for (; v && sscanf(path, "%63[^.]%n", key, &n) == 1; path += n + (path[n] == '.'))
        v = spot_json_is_array(v) ? spot_json_entry(v, strtoul(key, NULL, 10))
                                  : spot_json_get(v, key);
    return v;
}

static inline char *text_in(const char *document, const char *path)
{
    struct spot_json_doc doc;
    struct spot_err err = { 0 };
    const char *text;
    char *copy;

    ck_assert_msg(!spot_json_parse(&doc, document, strlen(document), "answer", &err), "%s in: %s",
                  err.msg, document);
    text = spot_json_text(find_value(doc.root, path));
    copy = text ? spot_xstrdup(text) : NULL;
    spot_json_release(&doc);
    return copy;
}

static inline double number_in(const char *document, const char *path)
{
    struct spot_json_doc doc;
    const struct spot_json_value *v;
    double x;

    if (spot_json_parse(&doc, document, strlen(document), "answer", NULL))
        return NAN;
    v = find_value(doc.root, path);
    x = spot_json_is_number(v) ? spot_json_number(v) : NAN;
    spot_json_release(&doc);
    return x;
}

#define EXPECT_TEXT(document, path, want)                                           \
    do {                                                                            \
        char *const got_ = text_in(document, path);                                 \
        const char *const want_ = want;                                             \
        ck_assert_msg(got_ && !strcmp(got_, want_), "%s: '%s', not '%s'; %s", path, \
                      got_ ? got_ : "(nothing)", want_, why());                     \
        free(got_);                                                                 \
    } while (0)

/* A stream so far without its chunks, and what its events say of a choice at `key`, one behind the
 * other; both in a text of their own. */
static inline char *stream_of(const struct talk *k)
{
    const char *at = talk_body(k), *const end = talk_text(k) + k->said.n - 1;
    char *const text = spot_xcalloc(k->said.n, 1);
    size_t n_text = 0;

    while (at < end) {
        char *data;
        const size_t n = strtoul(at, &data, 16);

        if (!n || strncmp(data, "\r\n", 2) != 0 || (size_t)(end - data) < n + 4)
            break;
        memcpy(text + n_text, data + 2, n);
        n_text += n;
        at = data + 2 + n + 2;
    }
    return text;
}

static inline char *streamed(const struct talk *k, int index, const char *key)
{
    char *const stream = stream_of(k), *const text = spot_xcalloc(strlen(stream) + 1, 1);

    for (const char *at = strstr(stream, "data: {"); at; at = strstr(at + 1, "data: {")) {
        char *const line = strndup(at + 6, strcspn(at + 6, "\n"));
        char path[64];

        snprintf(path, sizeof(path), "choices.0.%s", key);
        if (number_in(line, "choices.0.index") == index) {
            char *const piece = text_in(line, path);

            strcat(text, piece ? piece : "");
            free(piece);
        }
        free(line);
    }
    free(stream);
    return text;
}

/* Of the request that is streamed. */
static inline char *stream_id(const struct talk *k)
{
    char *const stream = stream_of(k), *const at = strstr(stream, "data: {");
    char *id;

    ck_assert_msg(at, "no event in: %s", stream);
    at[6 + strcspn(at + 6, "\n")] = '\0';
    id = text_in(at + 6, "id");
    free(stream);
    return id;
}

/* --- what it says of itself --- */

static inline double metric(const char *name)
{
    const struct talk *const k = ask("GET", "/metrics", "");
    char line[96];
    const char *at;

    snprintf(line, sizeof(line), "\n%s ", name);
    at = strstr(talk_body(k), line);
    return at ? strtod(at + strlen(line), NULL) : -1;
}

/* Of spot.status/1, as a text of its own; NULL: nobody answers. */
static inline char *status(void)
{
    struct spot_buf answer = { 0 };
    struct spot_err err;

    if (spot_client_ask(at_dir("join"), NULL, 0, SPOT_MSG_STATUS, NULL, 0, &answer, &err)) {
        spot_buf_release(&answer);
        return NULL;
    }
    spot_buf_add(&answer, "", 1);
    return (char *)answer.data;
}

static inline bool is_member(int i)
{
    char *const text = status();
    char want[16], path[32];
    bool is_there = false;

    snprintf(want, sizeof(want), "w%d", i);
    for (int k = 0; text && !is_there && k < 2 * WORKERS; k++) {
        char *name;

        snprintf(path, sizeof(path), "members.%d.name", k);
        name = text_in(text, path);
        is_there = name && !strcmp(name, want);
        free(name);
    }
    free(text);
    return is_there;
}

static inline double status_number(const char *path)
{
    char *const text = status();
    const double x = text ? number_in(text, path) : NAN;

    free(text);
    return x;
}

/* So many replicas run, and all workers that they are made of. */
static inline void start_workers(int n, int n_replica)
{
    for (int i = 0; i < n; i++)
        start_worker(i);
    UNTIL(metric("spot_serve_replicas") == n_replica);
}

/* The server has let it go. */
static inline void dismissed(int i)
{
    const int status = end_of(&rig.worker[i]);

    ck_assert_msg(!status, "worker %d ended with %d; %s", i, status, why());
}

/* Drained, with nothing left; its workers are dismissed: those of a coordinator that was killed may
 * have found the next one only now, and whoever finds none fails. */
static inline void end_well(void)
{
    struct outcome got;

    for (int i = 0; i < WORKERS; i++)
        if (rig.worker[i])
            UNTIL(is_member(i));
    got = end_server(SIGTERM);
    ck_assert_msg(!got.rc, "%s", got.err.msg);
    for (int i = 0; i < WORKERS; i++)
        if (rig.worker[i])
            dismissed(i);
}

/* --- several answers at once --- */

enum { ASKED = 4, LONG = 250 };

static const char *const question[ASKED] = { "It was a dark night, and the storm went on and on",
                                             "Whoever asks first need not wait for all the others",
                                             "Four of them are more than one worker has room for",
                                             "1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 377" };
static struct talk asked[ASKED];

/* Greedy ones of so many words, streamed where that is said. */
static inline void ask_all(const char *more)
{
    char body[256];

    for (int i = 0; i < ASKED; i++) {
        snprintf(body, sizeof(body),
                 "{\"model\": \"model\", \"prompt\": \"%s\", \"max_tokens\": %d, "
                 "\"temperature\": 0%s}",
                 question[i], LONG, more);
        talk_ask(&asked[i], "POST", "/v1/completions", "", body);
    }
}

/* They are those of one engine with the model. */
static inline void expect_all(const char *model)
{
    for (int i = 0; i < ASKED; i++) {
        char *const want = wanted(model, question[i], LONG);

        talk_hear(&asked[i], NULL);
        EXPECT_TEXT(talk_body(&asked[i]), "choices.0.text", want);
        talk_close(&asked[i]);
        free(want);
    }
}

/* All are under way, and none comes to its end until the pace is 0 again. */
static inline void ask_in_the_middle(const char *more)
{
    set_pace(50);
    ask_all(more);
    UNTIL(metric("spot_serve_tokens_total") >= 20);
    UNTIL(metric("spot_serve_choices_queued") == 0);
    set_pace(30);
}

/* --- a program --- */

static inline void make_dir(void)
{
    if (!mkdtemp(dir))
        exit(77);
    make_model("model", 1);
    make_model("other", 2);
}

static inline int run_server_suite(const char *name, TCase *tc)
{
    char command[64];
    int rc;

    tcase_add_checked_fixture(tc, NULL, end_all);
    rc = run_suite(name, tc);
    snprintf(command, sizeof(command), "rm -r '%s'", dir);
    return system(command) ? EXIT_FAILURE : rc;
}

#endif /* SPOT_TESTS_SERVE_RIG_H */
