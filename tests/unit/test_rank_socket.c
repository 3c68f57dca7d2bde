/* SPDX-License-Identifier: MIT */
/* Goal: each request is answered by one line in order, at once or later, whatever others do: lines
 * in pieces, several in one, none that is whole, ones too long, no JSON, ops that nobody has; a
 * rank of another round is refused, one that hangs up takes its request along.
 */
#define _POSIX_C_SOURCE 200809L
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "comm/endpoint.h"
#include "common/clock.h"
#include "host/rank_socket.h"
#include "state_rig.h"

static struct spot_err err;
static struct spot_rank_socket *s;
static uint64_t waits; /* ticket of the newest request that waits */
static int n_gone;

static int echo(void *user, const struct spot_rank_request *request, struct spot_jw *answer,
                struct spot_err *why)
{
    ck_assert_ptr_eq(user, &n_gone);
    ck_assert_uint_ne(request->ticket, 0);
    if (request->step == 13)
        return spot_err_set(why, SPOT_EDATA, "not 13");
    spot_jw_int(answer, "step", request->step);
    spot_jw_int(answer, "rank", request->rank);
    return 0;
}

static int later(void *user, const struct spot_rank_request *request, struct spot_jw *answer,
                 struct spot_err *why)
{
    (void)user, (void)answer, (void)why;
    waits = request->ticket;
    return 1;
}

static void gone(void *user, uint64_t ticket)
{
    (void)user;
    ck_assert_uint_ne(ticket, 0);
    n_gone++;
}

static const struct spot_rank_op table[] = { { "echo", echo, NULL, &n_gone },
                                             { "later", later, gone, NULL },
                                             { 0 } };

static void set_up(void)
{
    signal(SIGPIPE, SIG_IGN);
    make_root();
    n_gone = 0;
    waits = 0;
    s = spot_rank_socket_new(in_root("s"), table, &err);
    ck_assert_msg(s != NULL, "%s", err.msg);
    spot_rank_socket_set_round(s, 2);
}

static void tear_down(void)
{
    spot_rank_socket_free(s);
    ck_assert_int_eq(access(in_root("s"), F_OK), -1);
    ck_assert_int_eq(rmdir(root), 0);
}

static int dial(void)
{
    struct spot_endpoint at = { .kind = SPOT_ENDPOINT_UNIX };
    int fd;

    strcpy(at.path, in_root("s"));
    fd = spot_endpoint_connect(&at, &err);
    ck_assert_msg(fd >= 0, "%s", err.msg);
    return fd;
}

static void say(int fd, const char *text)
{
    ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    spot_rank_socket_turn(s);
}

/* What has come, without waiting; good until the next call. */
static const char *heard(int fd)
{
    static char text[1 << 17];
    ssize_t n;

    spot_rank_socket_turn(s);
    n = read(fd, text, sizeof(text) - 1);
    text[n > 0 ? n : 0] = '\0';
    return text;
}

#define ck_heard(fd, want) ck_assert_str_eq(heard(fd), want)

START_TEST(a_request_is_answered_by_a_line)
{
    const int fd = dial();
    struct stat st;

    ck_assert(!stat(in_root("s"), &st) && (st.st_mode & 0777) == 0600);
    say(fd, "{\"op\":\"echo\",\"step\":7,\"rank\":3}\n");
    ck_heard(fd, "{\"ok\":true,\"step\":7,\"rank\":3}\n");
    say(fd, "{\"op\":\"echo\",\"round\":2,\"more\":[{}]}\n");
    ck_heard(fd, "{\"ok\":true,\"step\":-1,\"rank\":-1}\n");
    say(fd, "{\"op\":\"echo\",\"step\":13}\n");
    ck_heard(fd, "{\"error\":\"not 13\"}\n");
    close(fd);
}
END_TEST

START_TEST(lines_in_pieces_and_several_in_one)
{
    const int fd = dial();
    const char *text = "{\"op\":\"echo\",\"step\":1}\n{\"op\":\"echo\",\"step\":2}\n";

    for (; *text; text++) {
        const char one[2] = { *text };

        say(fd, one);
    }
    ck_heard(fd, "{\"ok\":true,\"step\":1,\"rank\":-1}\n{\"ok\":true,\"step\":2,\"rank\":-1}\n");
    say(fd, "{\"op\":\"echo\",\"step\":3}\n{\"op\":\"echo\",\"step\":4}\n{\"op\":");
    ck_heard(fd, "{\"ok\":true,\"step\":3,\"rank\":-1}\n{\"ok\":true,\"step\":4,\"rank\":-1}\n");
    say(fd, "\"echo\"}\n");
    ck_heard(fd, "{\"ok\":true,\"step\":-1,\"rank\":-1}\n");
    close(fd);
}
END_TEST

static void ck_refused(int fd, const char *text, const char *why)
{
    const char *answer;

    say(fd, text);
    answer = heard(fd);
    ck_assert_msg(!strncmp(answer, "{\"error\":\"", 10) && strstr(answer, why), "%s: %s", text,
                  answer);
    ck_assert_ptr_eq(strchr(answer, '\n'), answer + strlen(answer) - 1);
}

START_TEST(what_makes_no_sense_is_refused_and_the_next_line_is_heard)
{
    const int fd = dial();

    ck_refused(fd, "\n", "");
    ck_refused(fd, "7\n", "");
    ck_refused(fd, "{\"op\":\"echo\"\n", "");
    ck_refused(fd, "{\"op\":\"echo\",\"op\":\"echo\"}\n", "");
    ck_refused(fd, "{\"step\":1}\n", "op");
    ck_refused(fd, "{\"op\":\"nothing\"}\n", "there is no 'nothing'");
    ck_refused(fd, "{\"op\":\"echo\",\"step\":-1}\n", "/step");
    ck_refused(fd, "{\"op\":\"echo\",\"step\":1.5}\n", "/step");
    ck_refused(fd, "{\"op\":\"echo\",\"rank\":\"0\"}\n", "/rank");
    ck_refused(fd, "{\"op\":\"echo\",\"step\":99999999999999999999}\n", "");
    say(fd, "{\"op\":\"echo\"}\n");
    ck_heard(fd, "{\"ok\":true,\"step\":-1,\"rank\":-1}\n");
    close(fd);
}
END_TEST

START_TEST(a_line_without_end_ends_its_connection_and_no_other)
{
    static char text[SPOT_RANK_LINE_MAX + 2];
    const int fd = dial(), other = dial();
    char byte;

    memset(text, ' ', SPOT_RANK_LINE_MAX + 1);
    for (size_t at = 0; at <= SPOT_RANK_LINE_MAX;) {
        const ssize_t n = write(fd, text + at, SPOT_RANK_LINE_MAX + 1 - at);

        ck_assert_int_gt(n, 0);
        at += (size_t)n;
        spot_rank_socket_turn(s);
    }
    ck_assert_ptr_nonnull(strstr(heard(fd), "65536"));
    ck_assert_int_eq(read(fd, &byte, 1), 0);
    say(other, "{\"op\":\"echo\"}\n");
    ck_heard(other, "{\"ok\":true,\"step\":-1,\"rank\":-1}\n");
    /* the longest line that is one */
    memset(text, ' ', SPOT_RANK_LINE_MAX);
    memcpy(text, "{\"op\":\"echo\"}", 13);
    text[SPOT_RANK_LINE_MAX] = '\n';
    for (size_t at = 0; at <= SPOT_RANK_LINE_MAX;) {
        const ssize_t n = write(other, text + at, SPOT_RANK_LINE_MAX + 1 - at);

        ck_assert_int_gt(n, 0);
        at += (size_t)n;
        spot_rank_socket_turn(s);
    }
    ck_heard(other, "{\"ok\":true,\"step\":-1,\"rank\":-1}\n");
    close(fd);
    close(other);
}
END_TEST

START_TEST(one_that_waits_keeps_its_order_and_holds_up_nobody)
{
    const int fd = dial(), other = dial();
    struct spot_jw *jw;

    say(fd, "{\"op\":\"later\"}\n{\"op\":\"echo\",\"step\":2}\n");
    ck_heard(fd, "");
    say(other, "{\"op\":\"echo\",\"step\":5}\n");
    ck_heard(other, "{\"ok\":true,\"step\":5,\"rank\":-1}\n");
    jw = spot_rank_socket_begin(s, waits);
    ck_assert_ptr_nonnull(jw);
    spot_jw_int(jw, "step", 1);
    spot_rank_socket_end(s);
    ck_heard(fd, "{\"ok\":true,\"step\":1}\n{\"ok\":true,\"step\":2,\"rank\":-1}\n");
    ck_assert_ptr_null(spot_rank_socket_begin(s, waits)); /* once */
    spot_rank_socket_refuse(s, waits, "again");
    ck_heard(fd, "");
    ck_assert_int_eq(n_gone, 0);
    close(fd);
    close(other);
}
END_TEST

START_TEST(one_that_hangs_up_takes_its_request_along)
{
    int fd = dial();

    say(fd, "{\"op\":\"later\"}\n{\"op\":\"echo\"}\n");
    ck_assert_uint_ne(waits, 0);
    close(fd);
    spot_rank_socket_turn(s);
    ck_assert_int_eq(n_gone, 1);
    ck_assert_ptr_null(spot_rank_socket_begin(s, waits));
    fd = dial(); /* killed in the midst of a line: that is none */
    waits = 0;
    say(fd, "{\"op\":\"later\"}");
    close(fd);
    spot_rank_socket_turn(s);
    ck_assert_uint_eq(waits, 0);
    ck_assert_int_eq(n_gone, 1);
}
END_TEST

START_TEST(one_that_has_said_all_still_gets_its_answer)
{
    const int fd = dial();
    char byte;

    say(fd, "{\"op\":\"later\"}\n");
    ck_assert_int_eq(shutdown(fd, SHUT_WR), 0);
    spot_rank_socket_turn(s);
    ck_assert_int_eq(n_gone, 0);
    spot_rank_socket_refuse(s, waits, "no");
    ck_heard(fd, "{\"error\":\"no\"}\n");
    ck_assert_int_eq(read(fd, &byte, 1), 0);
    close(fd);
}
END_TEST

START_TEST(a_rank_of_another_round_is_refused)
{
    const int fd = dial();

    ck_refused(fd, "{\"op\":\"echo\",\"round\":1}\n", "round 2 is running");
    ck_refused(fd, "{\"op\":\"echo\",\"round\":3}\n", "round 2 is running");
    say(fd, "{\"op\":\"later\",\"round\":2}\n");
    spot_rank_socket_set_round(s, 2); /* it goes on */
    ck_heard(fd, "");
    spot_rank_socket_set_round(s, 3);
    ck_heard(fd, "{\"error\":\"the round is over\"}\n");
    ck_assert_int_eq(n_gone, 1);
    spot_rank_socket_set_round(s, -1);
    ck_refused(fd, "{\"op\":\"echo\"}\n", "no round is running");
    close(fd);
}
END_TEST

START_TEST(one_that_does_not_read_keeps_no_more_than_an_answer)
{
    const char *const text = "{\"op\":\"echo\",\"step\":1}\n";
    const int fd = dial(), other = dial();
    size_t n_sent = 0, n_read = 0, n_line = 0;
    struct pollfd set[1 + SPOT_RANK_CLIENTS_MAX];
    char in[4096];
    ssize_t n;

    while ((n = write(fd, text, strlen(text))) == (ssize_t)strlen(text)) {
        n_sent++;
        spot_rank_socket_turn(s);
        ck_assert_uint_lt(n_sent, 1000000);
    }
    n = n > 0 ? n : 0;
    say(other, text);
    ck_heard(other, "{\"ok\":true,\"step\":1,\"rank\":-1}\n");
    while (n_line < n_sent) { /* then all of them are answered */
        const ssize_t got = read(fd, in, sizeof(in));

        spot_rank_socket_turn(s);
        for (ssize_t i = 0; i < got; i++)
            n_line += in[i] == '\n';
        ck_assert_uint_lt(++n_read, 10000000);
    }
    ck_assert_uint_le(spot_rank_socket_wanted(s, set), 3);
    close(fd);
    close(other);
}
END_TEST

/* A process of another session that connects n times, says this each time, and stays. The last
 * connection reads a line, and passes it on. */
struct other {
    pid_t pid;
    int heard[2];
};

static _Noreturn void be_other(struct other *o, int n, const char *text)
{
    char line[256];
    ssize_t got;
    int fd = -1;

    setsid();
    for (int i = 0; i < n; i++) {
        fd = dial();
        if (write(fd, text, strlen(text)) < 0)
            leave(1);
    }
    if (strchr(text, '\n')) {
        struct pollfd set = { .fd = fd, .events = POLLIN };

        (void)poll(&set, 1, 60000);
        got = read(fd, line, sizeof(line));
        (void)!write(o->heard[1], line, got > 0 ? (size_t)got : 0);
    } else {
        (void)!write(o->heard[1], "dialed\n", 7);
    }
    for (;;)
        (void)pause();
}

static void begin_other(struct other *o, int n, const char *text)
{
    ck_assert_int_eq(spot_endpoint_pipe(o->heard), 0);
    o->pid = fork();
    ck_assert_int_ge(o->pid, 0);
    if (!o->pid)
        be_other(o, n, text);
}

/* What it tells, while requests are served. */
static const char *told(const struct other *o)
{
    static char line[256];
    ssize_t n = -1;

    for (int look = 0; n <= 0 && look < 6000; look++) {
        spot_rank_socket_turn(s);
        n = read(o->heard[0], line, sizeof(line) - 1);
        if (n <= 0)
            spot_clock_sleep(0.002);
    }
    line[n > 0 ? n : 0] = '\0';
    return line;
}

static void end_other(struct other *o)
{
    int status;

    ck_assert_int_eq(kill(o->pid, SIGKILL), 0);
    close(o->heard[0]);
    close(o->heard[1]);
    ck_assert_int_eq(waitpid(o->pid, &status, 0), o->pid);
    ck_assert(WIFSIGNALED(status));
}

START_TEST(half_requests_of_one_rank_hold_up_no_other)
{
    enum { HALVES = SPOT_RANK_CLIENTS_MAX + 88 };
    static int fd[HALVES];
    struct other early, late;

    begin_other(&early, 1, "{\"op\":\"later\"}\n");
    for (int look = 0; !waits && look < 6000; look++) {
        spot_rank_socket_turn(s);
        spot_clock_sleep(0.002);
    }
    ck_assert_uint_ne(waits, 0);
    for (int i = 0; i < HALVES; i++) {
        fd[i] = dial();
        spot_rank_socket_turn(s);
        (void)!write(fd[i], "{\"op\":", 6);
    }
    ck_heard(fd[HALVES - 1],
             "{\"error\":\"this rank has most connections of all, and others wait\"}\n");
    begin_other(&late, 3, "{\"op\":\"echo\"}\n");
    ck_assert_str_eq(told(&late), "{\"ok\":true,\"step\":-1,\"rank\":-1}\n");
    ck_assert_ptr_nonnull(spot_rank_socket_begin(s, waits)); /* who came before is still there */
    spot_rank_socket_end(s);
    ck_assert_str_eq(told(&early), "{\"ok\":true}\n");
    end_other(&early);
    end_other(&late);
    for (int i = 0; i < HALVES; i++)
        close(fd[i]);
}
END_TEST

START_TEST(more_than_can_be_served_wait_and_are_served)
{
    enum { OTHERS = SPOT_RANK_CLIENTS_MAX / SPOT_RANK_SHARE_MAX };
    struct other other[OTHERS];
    struct pollfd set[1 + SPOT_RANK_CLIENTS_MAX];
    int fd;

    for (int i = 0; i < OTHERS; i++) {
        begin_other(&other[i], SPOT_RANK_SHARE_MAX, "{");
        ck_assert_str_eq(told(&other[i]), "dialed\n");
    }
    spot_rank_socket_turn(s);
    ck_assert_uint_eq(spot_rank_socket_wanted(s, set), SPOT_RANK_CLIENTS_MAX);
    fd = dial();
    say(fd, "{\"op\":\"echo\"}\n");
    ck_heard(fd, "");
    end_other(&other[0]);
    spot_rank_socket_turn(s);
    ck_heard(fd, "{\"ok\":true,\"step\":-1,\"rank\":-1}\n");
    for (int i = 1; i < OTHERS; i++)
        end_other(&other[i]);
    close(fd);
}
END_TEST

START_TEST(a_socket_that_was_left_is_replaced_and_a_long_name_is_refused)
{
    char path[300];

    ck_assert_ptr_null(spot_rank_socket_new("/nowhere/at/all", table, &err));
    ck_assert_int_eq(err.code, SPOT_ESYS);
    spot_rank_socket_free(s);
    shell("python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"s\")' 2>/dev/null || :");
    s = spot_rank_socket_new(in_root("s"), table, &err);
    ck_assert_msg(s != NULL, "%s", err.msg);
    memset(path, 'x', sizeof(path));
    path[299] = '\0';
    ck_assert_ptr_null(spot_rank_socket_new(path, table, &err));
    ck_assert_int_eq(err.code, SPOT_EUSAGE);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    tcase_add_checked_fixture(tc, set_up, tear_down);
    add_tests(tc);
    return run_suite("rank_socket", tc);
}
