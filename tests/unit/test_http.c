/* SPDX-License-Identifier: MIT */
#define _XOPEN_SOURCE 700 /* mkdtemp */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "comm/endpoint.h"
#include "comm/http.h"
#include "suite.h"

/* Goal: whoever runs the server when its descriptor is readable, and only then, loses nothing and
 * waits for nothing; bodies are bounded whether they tell their length or not; a client that goes
 * while its call waits is noticed. */

enum { BODY_MAX = 1 << 20, CHUNKS = 500, WAIT_MS = 10000 };

static char dir[] = "/tmp/spot-http-XXXXXX";
static char address[64];
static struct spot_http *http;
static struct spot_http_call *waiting;
static size_t n_called, n_gone, n_body, n_pulled, n_there;

static ssize_t pull(void *user, struct spot_http_call *call, char *data, size_t n)
{
    (void)user;
    (void)call;
    if (n_pulled == CHUNKS)
        return -1;
    if (n_pulled == n_there)
        return 0;
    ck_assert_uint_ge(n, 1);
    *data = 'c';
    n_pulled++;
    return 1;
}

static void called(void *user, struct spot_http_call *call)
{
    (void)user;
    n_called++;
    n_body = spot_http_body(call)->n;
    waiting = call;
    if (!strcmp(spot_http_path(call), "/stream"))
        spot_http_stream(call, "text/plain", pull);
    else if (strcmp(spot_http_path(call), "/wait") != 0)
        spot_http_answer(call, 200, "text/plain", "whole", 5);
}

static void gone(void *user, struct spot_http_call *call)
{
    (void)user;
    (void)call;
    n_gone++;
}

static void setup(void)
{
    const struct spot_http_options options = { .address = address,
                                               .body_max_byte = BODY_MAX,
                                               .bodies_max_byte = 2 * BODY_MAX,
                                               .n_connection_max = 16,
                                               .idle_s = 60,
                                               .called = called,
                                               .gone = gone };

    n_called = n_gone = n_body = n_pulled = n_there = 0;
    ck_assert_ptr_nonnull(mkdtemp(strcpy(dir, "/tmp/spot-http-XXXXXX")));
    snprintf(address, sizeof(address), "unix:%s/s", dir);
    http = spot_http_new(&options, NULL);
    ck_assert_ptr_nonnull(http);
}

static void teardown(void)
{
    spot_http_free(http);
    rmdir(dir);
}

static int dial(const char *said)
{
    struct spot_endpoint at;
    int fd;

    ck_assert_int_eq(spot_endpoint_parse(address, &at, NULL), 0);
    fd = spot_endpoint_connect(&at, NULL);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    ck_assert_int_eq(write(fd, said, strlen(said)), (ssize_t)strlen(said));
    return fd;
}

/* Run when there is something to do; false: there is nothing for long. */
static bool turn(int wait_ms)
{
    struct pollfd set = { .fd = spot_http_fd(http), .events = POLLIN };

    if (poll(&set, 1, wait_ms) != 1)
        return false;
    spot_http_run(http);
    return true;
}

/* All that is answered until `end`, or until the connection ends. */
static size_t hear(int fd, char *text, size_t cap, const char *end)
{
    size_t n = 0;

    for (;;) {
        const ssize_t got = read(fd, text + n, cap - 1 - n);

        n += got > 0 ? (size_t)got : 0;
        text[n] = '\0';
        if (!got || (got < 0 && errno != EAGAIN) || strstr(text, end))
            return n;
        if (got < 0)
            ck_assert_msg(turn(WAIT_MS), "the descriptor says no more after: %s", text);
    }
}

START_TEST(a_stream_that_is_woken_goes_on_to_its_end)
{
    char text[CHUNKS * 16];
    const int fd = dial("GET /stream HTTP/1.1\r\nHost: x\r\n\r\n");

    hear(fd, text, sizeof(text), "\r\n\r\n");
    while (turn(50))
        ;
    ck_assert_uint_eq(n_pulled, 0);
    n_there = CHUNKS;
    spot_http_wake(waiting);
    hear(fd, text, sizeof(text), "0\r\n\r\n");
    ck_assert_uint_eq(n_pulled, CHUNKS);
    ck_assert_uint_eq(n_gone, 1);
    close(fd);
}
END_TEST

/* Write what the server takes; false: it has hung up. */
static bool push(int fd, const char *data, size_t n)
{
    while (n) {
        const ssize_t put = send(fd, data, n, MSG_NOSIGNAL);

        if (put < 0 && errno != EAGAIN)
            return false;
        if (put < 0)
            ck_assert_msg(turn(WAIT_MS), "the descriptor says nothing with %zu bytes unread", n);
        data += put > 0 ? put : 0;
        n -= put > 0 ? (size_t)put : 0;
    }
    return true;
}

START_TEST(a_body_of_many_reads_comes_in_whole)
{
    static char body[BODY_MAX];
    char head[128], text[1024];
    int fd;

    memset(body, 'b', sizeof(body));
    snprintf(head, sizeof(head), "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n",
             BODY_MAX);
    fd = dial(head);
    ck_assert(push(fd, body, sizeof(body)));
    hear(fd, text, sizeof(text), "whole");
    ck_assert_uint_eq(n_body, BODY_MAX);
    close(fd);
}
END_TEST

START_TEST(a_body_that_tells_a_large_length_is_refused_before_it_comes)
{
    char text[1024];
    const int fd = dial("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 104857600\r\n\r\n");

    hear(fd, text, sizeof(text), "too large");
    ck_assert_ptr_eq(strstr(text, "HTTP/1.1 413"), text);
    ck_assert_uint_eq(n_called, 0);
    close(fd);
}
END_TEST

#define POST "POST / HTTP/1.1\r\nHost: x\r\n"

#define SMUGGLED "GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n"

static const char *const twofold[] = {
    POST "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
    POST "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
    POST "Content-Length: 15\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    POST "transfer-encoding: chunked\r\ncontent-length: 15\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    POST "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
    POST "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nContent-Length: 40\r\n\r\n" SMUGGLED,
    POST "Content-Length : 40\r\n\r\n" SMUGGLED,
    POST "Content-Length: 40, 40\r\n\r\n" SMUGGLED,
    POST "Content-Length: +40\r\n\r\n" SMUGGLED,
    POST "Content-Length: 4\r\n 0\r\n\r\n" SMUGGLED,
    POST "A: b\n\n" SMUGGLED,
    POST "A: b\r\r" SMUGGLED,
    POST "Host: x\r\n\r\n" SMUGGLED,
    "GET / HTTP/1.1\r\n\r\n" SMUGGLED,
    POST "Transfer-Encoding: chunked\r\n\r\n5\nhello\r\n0\r\n\r\n" SMUGGLED,
    POST "Transfer-Encoding: chunked\r\n\r\n5;\nhello\r\n0\r\n\r\n" SMUGGLED,
    POST "Transfer-Encoding: chunked\r\n\r\n+5\r\nhello\r\n0\r\n\r\n" SMUGGLED,
    POST "Transfer-Encoding: chunked\r\n\r\n0\r\nA : b\r\n\r\n" SMUGGLED,
};

START_TEST(a_body_whose_end_can_be_read_in_two_ways_is_refused)
{
    char text[2048];
    const int fd = dial(twofold[_i]);

    hear(fd, text, sizeof(text), "never said"); /* to the end of the connection */
    ck_assert_ptr_eq(strstr(text, "HTTP/1.1 400"), text);
    ck_assert_ptr_null(strstr(text + 1, "HTTP/1.1"));
    ck_assert_uint_eq(n_called, 0);
    close(fd);
}
END_TEST

START_TEST(what_could_be_read_in_one_way_is_answered_in_order)
{
    static const char said[] =
        "\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n" POST
        "Transfer-Encoding: chunked\r\n\r\n2;a=b\r\nhi\r\n0\r\nA: b\r\n\r\n" POST
        "Content-Length: 3\r\n\r\nabcHEAD / HTTP/1.1\r\nHost: x\r\n\r\n"
        "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n" SMUGGLED;
    char text[4096];
    const int fd = dial(said);
    size_t n_head = 0, n_whole = 0;

    hear(fd, text, sizeof(text), "never said");
    for (const char *at = text; (at = strstr(at, "HTTP/1.1 200 OK\r\n")); at++)
        n_head++;
    for (const char *at = text; (at = strstr(at, "whole")); at++)
        n_whole++;
    ck_assert_uint_eq(n_head, 5);
    ck_assert_uint_eq(n_whole, 4);  /* HEAD gets none */
    ck_assert_uint_eq(n_called, 5); /* and nobody is heard behind "close" */
    ck_assert_uint_eq(n_gone, 5);
    close(fd);
}
END_TEST

START_TEST(a_client_that_waits_to_send_its_body_is_told_to)
{
    char text[1024];
    const int fd = dial(POST "Content-Length: 5\r\nExpect: 100-continue\r\n\r\n");

    hear(fd, text, sizeof(text), "\r\n\r\n");
    ck_assert_str_eq(text, "HTTP/1.1 100 Continue\r\n\r\n");
    ck_assert_int_eq(write(fd, "hello", 5), 5);
    hear(fd, text, sizeof(text), "whole");
    ck_assert_uint_eq(n_body, 5);
    close(fd);
}
END_TEST

START_TEST(a_client_of_http_1_0_hears_a_stream_to_the_end_of_its_connection)
{
    char text[CHUNKS + 1024];
    const int fd = dial("GET /stream HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");

    n_there = CHUNKS;
    hear(fd, text, sizeof(text), "never said");
    ck_assert_ptr_null(strstr(text, "chunked"));
    ck_assert_uint_eq(strspn(strstr(text, "\r\n\r\n") + 4, "c"), CHUNKS);
    close(fd);
}
END_TEST

START_TEST(a_refusal_is_heard_by_who_still_sends)
{
    static char body[BODY_MAX / 2];
    char text[1024];
    const int fd = dial(POST "Content-Length: 104857600\r\n\r\n");

    while (turn(50)) /* it is answered, and no more read */
        ;
    for (int i = 0; i < 32;
         i++) /* what is unread would reset the connection; many read only then */
        ck_assert(push(fd, body, sizeof(body)));
    hear(fd, text, sizeof(text), "too large");
    ck_assert_ptr_eq(strstr(text, "HTTP/1.1 413"), text);
    close(fd);
}
END_TEST

START_TEST(an_answer_that_comes_late_is_sent_without_another_event)
{
    char text[1024];
    const int fd = dial("GET /wait HTTP/1.1\r\nHost: x\r\n\r\n");

    while (!n_called)
        ck_assert(turn(WAIT_MS));
    while (turn(50))
        ;
    spot_http_answer(waiting, 200, "text/plain", "late", 4);
    hear(fd, text, sizeof(text), "late");
    ck_assert_uint_eq(n_gone, 1);
    close(fd);
}
END_TEST

START_TEST(a_body_in_chunks_comes_in_whole)
{
    char text[1024];
    const int fd = dial(POST "Transfer-Encoding: Chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n");

    hear(fd, text, sizeof(text), "whole");
    ck_assert_uint_eq(n_body, 5);
    close(fd);
}
END_TEST

START_TEST(a_body_without_a_length_is_bounded)
{
    static char block[8 + 65536 + 2];
    char text[1024];
    static const char head[] = "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
    int fd = dial(head);
    size_t n = 0;

    memset(block, 'b', sizeof(block));
    memcpy(block, "010000\r\n", 8);       /* NOLINT(bugprone-not-null-terminated-result) */
    memcpy(block + 8 + 65536, "\r\n", 2); /* NOLINT(bugprone-not-null-terminated-result) */
    for (size_t i = 0; i < BODY_MAX / 65536 + 1; i++)
        ck_assert(push(fd, block, sizeof(block)));
    ck_assert(push(fd, "0\r\n\r\n", 5));
    hear(fd, text, sizeof(text), "too large"); /* a little too much is answered */
    close(fd);
    fd = dial(head);
    while (n < 100 << 20 && push(fd, block, sizeof(block)))
        n += sizeof(block);
    ck_assert_uint_lt(n, 50 << 20); /* no end in sight: hung up; what the kernel holds is beside */
    ck_assert_uint_eq(n_called, 0);
    close(fd);
}
END_TEST

static void settle(void)
{
    while (turn(50))
        ;
}

START_TEST(bodies_together_are_bounded)
{
    static char body[BODY_MAX];
    char head[128], text[1024];
    int held[2], fd;

    snprintf(head, sizeof(head), "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n",
             BODY_MAX);
    for (int i = 0; i < 2; i++) { /* all but the last byte */
        held[i] = dial(head);
        ck_assert(push(held[i], body, BODY_MAX - 1));
    }
    settle();
    fd = dial(head);
    hear(fd, text, sizeof(text), "request bodies");
    ck_assert_ptr_eq(strstr(text, "HTTP/1.1 503"), text);
    ck_assert_ptr_nonnull(strstr(text, "Retry-After: 1\r\n"));
    close(fd);
    fd = dial("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n080000\r\n");
    ck_assert(push(fd, body, 0x80000));
    ck_assert(push(fd, "\r\n0\r\n\r\n", 7));
    hear(fd, text, sizeof(text), "request bodies");
    ck_assert_ptr_eq(strstr(text, "HTTP/1.1 503"), text);
    close(fd);
    ck_assert_uint_eq(n_called, 0);
    close(held[0]);
    settle();
    fd = dial(head); /* there is room again */
    ck_assert(push(fd, body, BODY_MAX));
    hear(fd, text, sizeof(text), "whole");
    ck_assert(push(held[1], body, 1)); /* who was there before lost nothing */
    hear(held[1], text, sizeof(text), "whole");
    ck_assert_uint_eq(n_body, BODY_MAX);
    close(held[1]);
    close(fd);
}
END_TEST

START_TEST(a_client_that_goes_while_its_call_waits_is_noticed)
{
    const int fd = dial("GET /wait HTTP/1.1\r\nHost: x\r\n\r\n");

    while (!n_called)
        ck_assert(turn(WAIT_MS));
    close(fd);
    while (!n_gone)
        ck_assert(turn(WAIT_MS));
    ck_assert_uint_eq(n_gone, 1);
}
END_TEST

/* A worker that is started holds copies of all connections until its exec. */
START_TEST(a_connection_that_a_child_still_holds_is_over_all_the_same)
{
    const int fd = dial("GET /wait HTTP/1.1\r\nHost: x\r\n\r\n");
    int hold[2], status;
    pid_t child;
    char end;

    while (!n_called)
        ck_assert(turn(WAIT_MS));
    ck_assert_int_eq(pipe(hold), 0);
    child = fork();
    ck_assert_int_ge(child, 0);
    if (!child) {
        close(fd);
        close(hold[1]);
        (void)!read(hold[0], &end, 1);
        _exit(0);
    }
    close(fd);
    while (!n_gone)
        ck_assert(turn(WAIT_MS));
    ck_assert_msg(!turn(50), "a connection that is over is still waited for");
    close(hold[1]);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    close(hold[0]);
}
END_TEST

START_TEST(without_descriptors_new_clients_wait_and_the_server_rests)
{
    const int fd = dial("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    struct rlimit before, none;
    char text[1024];

    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = (struct rlimit){ .rlim_cur = (rlim_t)fd + 1, .rlim_max = before.rlim_max };
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
    ck_assert(turn(WAIT_MS));
    ck_assert(!turn(0)); /* or the loop would spin until one is free */
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
    for (int i = 0; i < 1000 && !n_called; i++) {
        (void)turn(50);
        spot_http_run(http);
    }
    hear(fd, text, sizeof(text), "whole");
    close(fd);
}
END_TEST

int main(void)
{
    TCase *const tc = tcase_create("http");

    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_loop_test(tc, a_body_whose_end_can_be_read_in_two_ways_is_refused, 0,
                        sizeof(twofold) / sizeof(*twofold));
    add_tests(tc);
    return run_suite("http", tc);
}
