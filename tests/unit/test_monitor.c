/* SPDX-License-Identifier: MIT */
#define _XOPEN_SOURCE 700 /* mkdtemp */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include "comm/endpoint.h"
#include "comm/monitor.h"
#include "common/clock.h"
#include "suite.h"

/* Goal: who looks on sees what was told last, whole; whoever asks for something else, sends
 * nonsense, too much or nothing, or does not read, gets a refusal or nothing, and neither the job
 * nor another client waits for him. */

enum { ANSWER_MAX = 1 << 16, LARGE = 8 << 20, CROWD = 200, TRIES = 12000 };

static const unsigned char page[] = "<style nonce=\"@NONCE@\"></style><script nonce=\"@NONCE@\">";
static char dir[32], address[64];
static struct spot_monitor *monitor;
static struct spot_buf doc[SPOT_MONITOR_DOCS];

static void open_at(const char *at)
{
    const struct spot_monitor_options options = { .address = at,
                                                  .page = page,
                                                  .page_byte = sizeof(page) - 1 };
    struct spot_err err = { 0 };

    monitor = spot_monitor_new(&options, &err);
    ck_assert_msg(monitor != NULL, "%s", err.msg);
}

static void setup(void)
{
    ck_assert_ptr_nonnull(mkdtemp(strcpy(dir, "/tmp/spot-mon-XXXXXX")));
    snprintf(address, sizeof(address), "unix:%s/s", dir);
}

static void teardown(void)
{
    spot_monitor_free(monitor);
    for (int i = 0; i < SPOT_MONITOR_DOCS; i++)
        spot_buf_release(&doc[i]);
    ck_assert_int_eq(rmdir(dir), 0);
}

/* Whatever the thread does: it does it soon. */
static void publish(const char *metrics, const char *status, const char *history)
{
    const char *const text[] = { metrics, status, history };

    for (int i = 0; i < SPOT_MONITOR_DOCS; i++) {
        doc[i].n = 0;
        spot_buf_add(&doc[i], text[i], strlen(text[i]));
    }
    for (int i = 0; i < TRIES; i++) {
        if (spot_monitor_publish(monitor, doc, spot_clock_s()))
            return;
        spot_clock_sleep(1e-3);
    }
    ck_abort_msg("the documents are never taken");
}

/* --- a client ----------------------------------------------------------------------- */

static int dial(void)
{
    const struct timeval limit = { .tv_sec = 60 };
    const char *url = spot_monitor_url(monitor);
    struct spot_endpoint at;
    char text[128];
    int fd;

    if (!strncmp(url, "http://", 7))
        url += 7;
    snprintf(text, sizeof(text), "%s", url);
    if (strncmp(text, "unix:", 5) != 0)
        text[strlen(text) - 1] = '\0'; /* the slash */
    ck_assert_int_eq(spot_endpoint_parse(text, &at, NULL), 0);
    fd = spot_endpoint_connect(&at, NULL);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(fcntl(fd, F_SETFL, 0), 0); /* a read may wait */
    ck_assert_int_eq(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)), 0);
    return fd;
}

/* All that comes until the connection ends. */
static const char *hear(int fd)
{
    static char text[ANSWER_MAX];
    size_t n = 0;
    ssize_t got = 1;

    while (got > 0 && n + 1 < sizeof(text)) {
        got = read(fd, text + n, sizeof(text) - 1 - n);
        if (got < 0 && errno == EINTR)
            got = 1;
        else if (got > 0)
            n += (size_t)got;
    }
    ck_assert_msg(got >= 0 || errno == ECONNRESET, "no answer for long");
    text[n] = '\0';
    close(fd);
    return text;
}

static const char *ask(const char *request)
{
    const int fd = dial();

    (void)!send(fd, request, strlen(request), MSG_NOSIGNAL); /* one too many is hung up on */
    return hear(fd);
}

static const char *get(const char *path)
{
    char request[256];

    snprintf(request, sizeof(request),
             "GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", path);
    return ask(request);
}

static void expect(const char *answer, const char *status, const char *part)
{
    ck_assert_msg(!strncmp(answer, status, strlen(status)) && strstr(answer, part),
                  "expected %s and '%s', got: %s", status, part, answer);
}

/* --- what is answered ------------------------------------------------------------------ */

START_TEST(each_path_has_its_document_and_none_before_it_is_told)
{
    open_at(address);
    expect(get("/metrics"), "HTTP/1.1 503", "not begun");
    expect(get("/status.json"), "HTTP/1.1 503", "not begun");
    publish("a 1\n", "{\"b\":2}", "{\"c\":3}");
    expect(get("/metrics"), "HTTP/1.1 200", "\r\n\r\na 1\n");
    expect(get("/metrics"), "HTTP/1.1 200", "text/plain; version=0.0.4");
    expect(get("/metrics?x=y"), "HTTP/1.1 200", "\r\n\r\na 1\n");
    expect(get("/status.json"), "HTTP/1.1 200", "\r\n\r\n{\"b\":2}");
    expect(get("/history.json"), "HTTP/1.1 200", "\r\n\r\n{\"c\":3}");
    expect(get("/history.json"), "HTTP/1.1 200", "application/json");
    publish("a 2\n", "{}", "{}");
    expect(get("/metrics"), "HTTP/1.1 200", "\r\n\r\na 2\n");
    expect(get("/metrics/"), "HTTP/1.1 404", "/status.json");
    expect(get("/../etc/passwd"), "HTTP/1.1 404", "/status.json");
    expect(ask("HEAD /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"), "HTTP/1.1 200",
           "Content-Length: 4\r\n");
}
END_TEST

START_TEST(the_page_lets_nothing_from_elsewhere_in)
{
    const char *answer, *nonce;
    char number[33], element[64];

    open_at(address);
    answer = get("/");
    expect(answer, "HTTP/1.1 200", "default-src 'none'; script-src 'nonce-");
    nonce = strstr(answer, "script-src 'nonce-") + strlen("script-src 'nonce-");
    snprintf(number, sizeof(number), "%s", nonce);
    ck_assert_uint_eq(strspn(number, "0123456789abcdef"), 32);
    snprintf(element, sizeof(element), "<script nonce=\"%s\">", number);
    expect(answer, "HTTP/1.1 200", element);
    ck_assert_ptr_null(strstr(answer, "@NONCE@"));
    ck_assert_ptr_null(strstr(get("/"), number)); /* another one each time */
}
END_TEST

static const struct {
    const char *request, *status, *part;
} refused[] = {
    { "POST /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
      "HTTP/1.1 405", "Allow: GET, HEAD\r\n" },
    { "DELETE / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", "HTTP/1.1 405", "GET" },
    { "GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9999\r\nConnection: close\r\n\r\n",
      "HTTP/1.1 413", "too large" },
    { "GET / HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n", "HTTP/1.1 403", "Host" },
    { "GET / HTTP/1.1\r\nHost: 127.0.0.1.evil.example:80\r\nConnection: close\r\n\r\n",
      "HTTP/1.1 403", "Host" },
    { "GET / HTTP/1.1\r\nHost: localhost.evil.example\r\nConnection: close\r\n\r\n", "HTTP/1.1 403",
      "Host" },
    { "GET / HTTP/1.1\r\nHost: [evil.example]\r\nConnection: close\r\n\r\n", "HTTP/1.1 400",
      "Host" },
    { "GET / HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n", "HTTP/1.1 400", "Host" },
    { "GET http://evil.example/metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
      "HTTP/1.1 403", "Host" },
    { "GET /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length : 5\r\n\r\nhello", "HTTP/1.1 400",
      "NAME: VALUE" },
    { "GET http://localhost/ HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n",
      "HTTP/1.1 200", "" },
    { "GET / HTTP/1.1\r\nHost: \r\nConnection: close\r\n\r\n", "HTTP/1.1 403", "Host" },
    { "GET / HTTP/1.1\r\nHost: 127.0.0.1:80\r\nConnection: close\r\n\r\n", "HTTP/1.1 200", "" },
    { "GET / HTTP/1.1\r\nHost: [::1]:80\r\nConnection: close\r\n\r\n", "HTTP/1.1 200", "" },
    { "GET / HTTP/1.1\r\nHost: localhost:80\r\nConnection: close\r\n\r\n", "HTTP/1.1 200", "" },
    { "GET / HTTP/1.0\r\n\r\n", "HTTP/1.", "200 OK" },
};

START_TEST(others_methods_bodies_and_names_are_refused)
{
    open_at("127.0.0.1:0");
    expect(ask(refused[_i].request), refused[_i].status, refused[_i].part);
}
END_TEST

static const char *const broken[] = {
    "GET\r\n\r\n",
    "\x16\x03\x01\x02\x01\x01\x03\x03\r\n\r\n",
    "GET / HTTP/9.9\r\nHost: localhost\r\n\r\n",
    "GET / HTTP/1.1\r\nHost\r\nConnection: close\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
};

START_TEST(nonsense_harms_nobody)
{
    const int fd = (open_at(address), dial());

    publish("a 1\n", "{}", "{}");
    (void)!send(fd, broken[_i], strlen(broken[_i]), MSG_NOSIGNAL);
    shutdown(fd, SHUT_WR);
    hear(fd);
    expect(get("/metrics"), "HTTP/1.1 200", "a 1\n");
}
END_TEST

START_TEST(huge_headers_are_refused)
{
    static char request[256 << 10];
    const int n = snprintf(request, sizeof(request), "GET / HTTP/1.1\r\nHost: localhost\r\nX: ");
    int fd;

    open_at(address);
    publish("a 1\n", "{}", "{}");
    memset(request + n, 'x', sizeof(request) - (size_t)n);
    fd = dial();
    (void)!send(fd, request, sizeof(request), MSG_NOSIGNAL);
    ck_assert_ptr_null(strstr(hear(fd), "HTTP/1.1 200"));
    expect(get("/metrics"), "HTTP/1.1 200", "a 1\n");
}
END_TEST

/* --- nobody waits ------------------------------------------------------------------------- */

START_TEST(who_does_not_read_keeps_nobody_waiting)
{
    static char large[LARGE];
    static const char request[] = "GET /status.json HTTP/1.1\r\nHost: localhost\r\n\r\n";
    int fd[8];

    open_at(address);
    memset(large, ' ', sizeof(large) - 1);
    publish("a 1\n", large, "{}");
    for (int i = 0; i < 8; i++) {
        fd[i] = dial();
        ck_assert_int_gt(send(fd[i], request, sizeof(request) - 1, MSG_NOSIGNAL), 0);
    }
    for (int i = 2; i < 20; i++) {
        char text[32];

        snprintf(text, sizeof(text), "a %d\n", i);
        publish(text, "{}", "{}");
        expect(get("/metrics"), "HTTP/1.1 200", text);
    }
    for (int i = 0; i < 8; i++)
        close(fd[i]);
}
END_TEST

START_TEST(a_crowd_that_says_nothing_is_bounded_and_forgotten)
{
    int fd[CROWD];

    open_at(address);
    publish("a 1\n", "{}", "{}");
    for (int i = 0; i < CROWD; i++)
        fd[i] = dial();
    publish("a 2\n", "{}", "{}"); /* the job is not delayed */
    for (int i = 0; i < CROWD; i++)
        close(fd[i]);
    for (int i = 0; i < TRIES && !strstr(get("/metrics"), "a 2\n"); i++)
        spot_clock_sleep(5e-3); /* those that have gone are still counted for a moment */
    expect(get("/metrics"), "HTTP/1.1 200", "a 2\n");
}
END_TEST

START_TEST(documents_are_due_at_once_and_then_after_a_while)
{
    open_at(address);
    ck_assert(spot_monitor_is_due(monitor));
    publish("a 1\n", "{}", "{}");
    for (int i = 0; i < 100; i++) { /* what took an hour to make is not made again for days */
        (void)spot_monitor_publish(monitor, doc, spot_clock_s() - 3600);
        ck_assert(!spot_monitor_is_due(monitor));
    }
}
END_TEST

START_TEST(a_document_that_is_not_made_anew_stays_and_who_asks_for_it_is_known)
{
    open_at(address);
    publish("a 1\n", "{}", "{\"h\":1}");
    ck_assert(!spot_monitor_is_watched(monitor));
    publish("a 2\n", "{}", "");
    expect(get("/metrics"), "HTTP/1.1 200", "a 2\n");
    ck_assert(!spot_monitor_is_watched(monitor));
    expect(get("/history.json"), "HTTP/1.1 200", "{\"h\":1}");
    ck_assert(spot_monitor_is_watched(monitor));
}
END_TEST

/* --- where ------------------------------------------------------------------------------- */

static const struct {
    const char *address, *says;
} unfit[] = {
    { "0.0.0.0:0", "0.0.0.0:0" },
    { "[::]:0", "proxy" },
    { "192.0.2.1:9100", "192.0.2.1:9100" },
    { "example.org:80", "example.org" },
    { "127.0.0.1", "127.0.0.1" },
    { "127.0.0.1:65536", "65535" },
    { "unix:/nowhere/at/all", "/nowhere/at/all" },
};

START_TEST(a_place_that_others_reach_or_that_is_none_is_refused_by_name)
{
    const struct spot_monitor_options options = { .address = unfit[_i].address,
                                                  .page = page,
                                                  .page_byte = sizeof(page) - 1 };
    struct spot_err err = { 0 };

    monitor = spot_monitor_new(&options, &err);
    ck_assert_ptr_null(monitor);
    ck_assert_msg(strstr(err.msg, unfit[_i].says) != NULL, "%s", err.msg);
}
END_TEST

int main(void)
{
    TCase *const c = tcase_create("monitor");

    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_loop_test(c, others_methods_bodies_and_names_are_refused, 0,
                        sizeof(refused) / sizeof(*refused));
    tcase_add_loop_test(c, nonsense_harms_nobody, 0, sizeof(broken) / sizeof(*broken));
    tcase_add_loop_test(c, a_place_that_others_reach_or_that_is_none_is_refused_by_name, 0,
                        sizeof(unfit) / sizeof(*unfit));
    add_tests(c);
    return run_suite("monitor", c);
}
