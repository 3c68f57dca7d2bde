/* SPDX-License-Identifier: MIT */
/* Goal: a question goes to the address that was named and nowhere else; whatever comes back, in
 * bounded time and memory there is one answer, or one reason why there is none. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "comm/endpoint.h"
#include "comm/http_client.h"
#include "common/clock.h"
#include "suite.h"

/* A server of one connection: it reads a question, says `said`, and goes on as told. */
static struct server {
    const char *said;
    size_t n_said, n_more; /* then so many blanks, */
    bool stays;            /* and then it hangs up, or does not */
    int listener, n_connection;
    char question[4096];
    pthread_t thread;
    char url[64];
} s;

static struct answer {
    int n;
    long status;
    char why[128], body[256], etag[64];
    bool is_refused;
    size_t n_byte;
    bool has_etag;
} got;

static void send_all(int fd, const char *data, size_t n)
{
    while (n) {
        const ssize_t some = write(fd, data, n);

        if (some < 0 && errno == EAGAIN) {
            poll(&(struct pollfd){ .fd = fd, .events = POLLOUT }, 1, 1000);
            continue;
        }
        if (some <= 0)
            return;
        data += some;
        n -= (size_t)some;
    }
}

static void *serve(void *arg)
{
    size_t n = 0;
    int fd;

    (void)arg;
    poll(&(struct pollfd){ .fd = s.listener, .events = POLLIN }, 1, 60000);
    fd = spot_endpoint_accept(s.listener);
    if (fd < 0)
        return NULL;
    s.n_connection++;
    while (!strstr(s.question, "\r\n\r\n")) {
        ssize_t some;

        if (poll(&(struct pollfd){ .fd = fd, .events = POLLIN }, 1, 60000) != 1)
            break;
        some = read(fd, s.question + n, sizeof(s.question) - 1 - n);
        if (some <= 0)
            break;
        n += (size_t)some;
    }
    send_all(fd, s.said, s.n_said);
    for (; s.n_more; s.n_more--)
        send_all(fd, " ", 1);
    if (s.stays) /* until the client hangs up */
        poll(&(struct pollfd){ .fd = fd, .events = POLLIN }, 1, 60000);
    close(fd);
    return NULL;
}

static void begin(const char *said)
{
    struct spot_endpoint at;

    s = (struct server){ .said = said, .n_said = strlen(said) };
    got = (struct answer){ .n = 0 };
    ck_assert_int_eq(spot_endpoint_parse("127.0.0.1:0", &at, NULL), 0);
    s.listener = spot_endpoint_listen(&at, NULL);
    ck_assert_int_ge(s.listener, 0);
    snprintf(s.url, sizeof(s.url), "http://127.0.0.1:%d", at.port);
}

static void done(void *user, const struct spot_http_reply *reply)
{
    ck_assert_ptr_eq(user, &got);
    got.n++;
    got.status = reply->status;
    got.is_refused = reply->is_refused;
    snprintf(got.why, sizeof(got.why), "%s", reply->why ? reply->why : "");
    snprintf(got.body, sizeof(got.body), "%.200s", reply->body);
    got.n_byte = reply->n_byte;
    got.has_etag = spot_http_reply_header(reply, "etag", got.etag, sizeof(got.etag));
}

static void await_answer(double limit_s)
{
    char url[128];
    const struct spot_http_ask question = {
        .method = "GET", .url = url, .header = { "X-Mine: yes" }, .connect_s = 5, .limit_s = limit_s
    };
    struct spot_http_client *client = spot_http_client_new(NULL);
    const double until_s = spot_clock_s() + 60;

    ck_assert_ptr_nonnull(client);
    snprintf(url, sizeof(url), "%s/a?b=c", s.url);
    ck_assert_int_eq(spot_http_client_ask(client, &question, done, &got, NULL), 0);
    while (!got.n && spot_clock_s() < until_s)
        ck_assert_int_eq(spot_http_client_wait(client, NULL, 0, 1, NULL), 0);
    ck_assert_int_eq(got.n, 1);
    spot_http_client_free(client);
}

static void ask(double limit_s)
{
    pthread_create(&s.thread, NULL, serve, NULL);
    await_answer(limit_s);
    pthread_join(s.thread, NULL);
    close(s.listener);
    ck_assert_int_eq(s.n_connection, 1);
}

START_TEST(an_answer_is_status_headers_and_body_and_no_proxy_is_asked)
{
    setenv("http_proxy", "http://127.0.0.1:1", 1);
    setenv("all_proxy", "http://127.0.0.1:1", 1);
    setenv("ALL_PROXY", "socks5://127.0.0.1:1", 1);
    begin("HTTP/1.1 200 OK\r\nEtag: \t e1 \r\nContent-Length: 5\r\n\r\nhello");
    ask(20);
    ck_assert_int_eq(got.status, 200);
    ck_assert_str_eq(got.body, "hello");
    ck_assert_uint_eq(got.n_byte, 5);
    ck_assert(got.has_etag);
    ck_assert_str_eq(got.etag, "e1");
    ck_assert_ptr_eq(strstr(s.question, "GET /a?b=c HTTP/1.1\r\n"), s.question);
    ck_assert_ptr_nonnull(strstr(s.question, "\r\nX-Mine: yes\r\n"));
    unsetenv("http_proxy");
    unsetenv("all_proxy");
    unsetenv("ALL_PROXY");
}
END_TEST

START_TEST(a_redirect_is_not_followed)
{
    begin("HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/x\r\nContent-Length: 0\r\n\r\n");
    ask(20);
    ck_assert_int_eq(got.status, 302);
}
END_TEST

START_TEST(a_body_beyond_the_limit_is_a_failure)
{
    begin("HTTP/1.1 200 OK\r\n\r\n");
    s.n_more = SPOT_HTTP_ANSWER_MAX;
    ask(60);
    ck_assert_int_eq(got.status, 200);
    ck_assert_uint_eq(got.n_byte, SPOT_HTTP_ANSWER_MAX);
    begin("HTTP/1.1 200 OK\r\n\r\n");
    s.n_more = SPOT_HTTP_ANSWER_MAX + 1;
    ask(60);
    ck_assert_int_eq(got.status, 0);
    ck_assert_str_eq(got.why, "the answer is too large");
}
END_TEST

START_TEST(headers_without_an_end_are_a_failure)
{
    static char said[SPOT_HTTP_HEAD_MAX + 4096];
    size_t n = (size_t)snprintf(said, sizeof(said), "HTTP/1.1 200 OK\r\n");

    while (n < SPOT_HTTP_HEAD_MAX + 100)
        n += (size_t)snprintf(said + n, sizeof(said) - n, "X-%zu: y\r\n", n);
    begin(said);
    s.stays = true;
    ask(20);
    ck_assert_int_eq(got.status, 0);
    ck_assert_str_eq(got.why, "the answer is too large");
}
END_TEST

START_TEST(what_does_not_come_in_time_is_not_waited_for)
{
    static const char *const said[] = { "", "HTTP/1.1 200 OK\r\n",
                                        "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf",
                                        "HTTP/1.1 100 Continue\r\n\r\n" };

    begin(said[_i]);
    s.stays = true;
    ask(0.3);
    ck_assert_int_eq(got.status, 0);
    ck_assert_str_eq(got.why, "no complete answer in time");
}
END_TEST

START_TEST(what_is_cut_or_no_http_is_a_failure_with_a_reason)
{
    static const char *const said[] = {
        "", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", "SSH-2.0-OpenSSH_9.2\r\n", "TRUE",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"
    };

    begin(said[_i]);
    ask(20);
    ck_assert_int_eq(got.status, 0);
    ck_assert_uint_gt(strlen(got.why), 0);
    ck_assert(!got.is_refused);
}
END_TEST

START_TEST(where_nobody_listens_a_connection_is_refused)
{
    begin("");
    close(s.listener);
    await_answer(20);
    ck_assert_int_eq(got.status, 0);
    ck_assert_uint_gt(strlen(got.why), 0);
    ck_assert(got.is_refused);
}
END_TEST

START_TEST(a_client_that_goes_gives_up_what_it_asked)
{
    struct spot_http_client *client = spot_http_client_new(NULL);
    const struct spot_http_ask question = {
        .method = "PUT", .url = s.url, .connect_s = 5, .limit_s = 20
    };

    begin("");
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(spot_http_client_ask(client, &question, done, &got, NULL), 0);
    ck_assert_int_eq(spot_http_client_wait(client, NULL, 0, 0.01, NULL), 0);
    spot_http_client_free(client);
    spot_http_client_free(NULL);
    ck_assert_int_eq(got.n, 0);
    close(s.listener);
}
END_TEST

START_TEST(a_descriptor_ends_the_wait)
{
    struct spot_http_client *client = spot_http_client_new(NULL);
    const double from_s = spot_clock_s();
    int end[2];

    ck_assert_int_eq(spot_endpoint_pipe(end), 0);
    ck_assert_int_eq(write(end[1], "x", 1), 1);
    ck_assert_int_eq(spot_http_client_wait(client, end, 1, 1000, NULL), 0);
    ck_assert(spot_clock_s() - from_s < 900);
    close(end[0]);
    close(end[1]);
    spot_http_client_free(client);
}
END_TEST

static const struct url_case {
    const char *text;
    bool is_taken;
} urls[] = {
    { "http://127.0.0.1", true },
    { "http://127.0.0.1:65535", true },
    { "http://169.254.169.254", true },
    { "http://169.254.0.1:80", true },
    { "http://[::1]:8080", true },
    { "http://[fd00:ec2::254]", true },
    { "http://[fe80::1]", true },
    { "https://127.0.0.1", false },
    { "127.0.0.1", false },
    { "http://127.0.0.2", false },
    { "http://10.0.0.1", false },
    { "http://169.255.169.254", false },
    { "http://0.0.0.0", false },
    { "http://[fd00:ec2::255]", false },
    { "http://[::]", false },
    { "http://[::1", false },
    { "http://[::1]x", false },
    { "http://::1", false },
    { "http://localhost", false },
    { "http://metadata.google.internal", false },
    { "http://127.0.0.1:", false },
    { "http://127.0.0.1:0", false },
    { "http://127.0.0.1:65536", false },
    { "http://127.0.0.1:1x", false },
    { "http://127.0.0.1/", false },
    { "http://127.0.0.1@example.org", false },
    { "http://user@127.0.0.1", false },
    { "http://127.0.0.1:80@10.0.0.1", false },
    { "http://0x7f.0.0.1", false },
    { "file:///etc/passwd", false },
    { "", false },
};

START_TEST(only_numbers_of_this_machine_and_its_link_are_taken)
{
    struct spot_err err;

    ck_assert_msg((spot_http_url_check(urls[_i].text, &err) == 0) == urls[_i].is_taken, "%s",
                  urls[_i].text);
    ck_assert(urls[_i].is_taken || err.code == SPOT_EUSAGE);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    tcase_add_loop_test(tc, what_does_not_come_in_time_is_not_waited_for, 0, 4);
    tcase_add_loop_test(tc, what_is_cut_or_no_http_is_a_failure_with_a_reason, 0, 5);
    tcase_add_loop_test(tc, only_numbers_of_this_machine_and_its_link_are_taken, 0,
                        sizeof(urls) / sizeof(urls[0]));
    add_tests(tc);
    return run_suite("http_client", tc);
}
