/* SPDX-License-Identifier: MIT */
/* Goal: a rank that asks its agent gets one line, whatever pieces it comes in, or an error that
 * says what is wrong: nobody listens, no answer in time, an agent that goes, an answer without end.
 */
#define _GNU_SOURCE /* accept4. NOLINT(bugprone-reserved-identifier) */
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "comm/endpoint.h"
#include "host/rank_ask.h"
#include "state_rig.h"

static struct spot_err err;
static struct spot_buf answer;
static int listen_fd;

static void set_up(void)
{
    struct spot_endpoint at = { .kind = SPOT_ENDPOINT_UNIX };

    signal(SIGPIPE, SIG_IGN);
    make_root();
    strcpy(at.path, in_root("s"));
    listen_fd = spot_endpoint_listen(&at, &err);
    ck_assert_msg(listen_fd >= 0, "%s", err.msg);
    answer = (struct spot_buf){ 0 };
}

static void tear_down(void)
{
    spot_buf_release(&answer);
    close(listen_fd);
    shell("rm -rf \"$PWD\"");
}

/* The agent: what it does with its connection, in a process of its own. */
static pid_t serve(void (*with)(int fd))
{
    const pid_t pid = fork();
    int fd;

    if (pid)
        return pid;
    do
        fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC);
    while (fd < 0); /* it does not block */
    with(fd);
    leave(0);
}

static void read_line(int fd)
{
    char byte = 0;

    while (read(fd, &byte, 1) == 1 && byte != '\n')
        ;
}

static void say(int fd, const char *text)
{
    if (write(fd, text, strlen(text)) != (ssize_t)strlen(text))
        leave(1);
}

static void answer_in_pieces(int fd)
{
    read_line(fd);
    say(fd, "{\"ok\"");
    say(fd, ":true}\nand more");
}

static void go(int fd)
{
    read_line(fd);
    say(fd, "{\"ok\"");
}

static void say_no_end(int fd)
{
    static char text[4096];

    read_line(fd);
    memset(text, 'x', sizeof(text) - 1);
    for (int i = 0; i < SPOT_RANK_ANSWER_MAX / 4096 + 2; i++)
        if (write(fd, text, sizeof(text) - 1) < 0)
            break;
}

/* Until whoever asks has gone. */
static void be_silent(int fd)
{
    read_line(fd);
    read_line(fd);
}

static int ask(double limit_s)
{
    return spot_rank_ask(in_root("s"), "{}", 2, limit_s, &answer, &err);
}

static void ck_refused(double limit_s, void (*with)(int fd), enum spot_code code, const char *why)
{
    const pid_t pid = serve(with);

    ck_assert_int_eq(ask(limit_s), -1);
    ck_assert_msg(err.code == code && strstr(err.msg, why), "%s", err.msg);
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
}

START_TEST(an_answer_is_a_line_whatever_pieces_it_comes_in)
{
    const pid_t pid = serve(answer_in_pieces);

    ck_assert_msg(!ask(60), "%s", err.msg);
    ck_assert_uint_eq(answer.n, strlen("{\"ok\":true}"));
    ck_assert_mem_eq(answer.data, "{\"ok\":true}", answer.n);
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
}
END_TEST

START_TEST(an_agent_that_goes_is_silent_or_does_not_end_is_an_error)
{
    ck_refused(60, go, SPOT_ESYS, "the agent of this node has ended");
    ck_refused(0.05, be_silent, SPOT_ESYS, "no answer within 0.05 s");
    ck_refused(60, say_no_end, SPOT_EDATA, "the agent's answer is longer than 1048576 bytes");
}
END_TEST

START_TEST(where_nobody_listens_that_is_said)
{
    char path[200];

    ck_assert_int_eq(spot_rank_ask(in_root("nobody"), "{}", 2, 60, &answer, &err), -1);
    ck_assert_int_eq(err.code, SPOT_ESYS);
    memset(path, 'x', sizeof(path));
    path[sizeof(path) - 1] = '\0';
    ck_assert_int_eq(spot_rank_ask(path, "{}", 2, 60, &answer, &err), -1);
    ck_assert_msg(strstr(err.msg, "too long for the name of a socket"), "%s", err.msg);
}
END_TEST

int main(void)
{
    TCase *const tc = tcase_create("rank_ask");

    tcase_add_checked_fixture(tc, set_up, tear_down);
    add_tests(tc);
    return run_suite("rank_ask", tc);
}
