/* SPDX-License-Identifier: MIT */
/* Goal: a worker that fails each time is started again ever more rarely and then no more, one that
 * others kill is at once; what it said last comes to who started it, and to nobody else. */
#define _XOPEN_SOURCE 700 /* setenv */
#include "cluster/restart.h"

#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "suite.h"

enum { FAILED = 4 << 8, KILLED = SIGKILL, CRASHED = SIGSEGV, WELL = 0 };

START_TEST(who_fails_each_time_is_started_ever_more_rarely_and_then_no_more)
{
    static const double want_s[SPOT_RESTARTS_MAX] = { 0, 1, 2, 4, 8, 16, 32, 32, 32, 32, 32, 32 };
    static const struct {
        double lived_s;
        int status;
    } how[] = { { 0.2, FAILED }, { 0.2, KILLED }, { 0.2, WELL }, { 1.7, FAILED },
                { 30, FAILED },  { 30, CRASHED }, { 5, KILLED } };

    for (size_t k = 0; k < sizeof(how) / sizeof(how[0]); k++) {
        struct spot_restart r = { 0 };

        for (int i = 0; i < SPOT_RESTARTS_MAX; i++)
            ck_assert_double_eq(spot_restart_after_s(&r, how[k].lived_s, how[k].status), want_s[i]);
        ck_assert(isinf(spot_restart_after_s(&r, how[k].lived_s, how[k].status)));
    }
}
END_TEST

START_TEST(who_was_of_use_is_started_at_once)
{
    static const struct {
        double lived_s;
        int status;
    } how[] = { { 61, FAILED }, { 61, CRASHED }, { 11, KILLED }, { 2, WELL } };

    for (size_t k = 0; k < sizeof(how) / sizeof(how[0]); k++) {
        struct spot_restart r = { 5 };

        ck_assert_double_eq(spot_restart_after_s(&r, how[k].lived_s, how[k].status), 0);
        ck_assert_int_eq(r.n_failed, 0);
    }
}
END_TEST

/* A child that is given the socket, or not, hears the first message and says something; what its
 * parent reads. */
static void hear(char text[SPOT_LAST_WORDS], bool is_passed)
{
    int fd[2];
    pid_t pid;

    ck_assert_int_eq(spot_last_words_pair(fd, "begin", NULL), 0);
    pid = fork();
    if (!pid) {
        struct spot_err why = { .msg = "no such\nfile" };

        if (is_passed)
            spot_last_words_pass(fd[1]);
        spot_last_words_take();
        if (strcmp(spot_first_words(), is_passed ? "begin" : "") != 0)
            _exit(2);
        if (getenv("SPOT_LAST_WORDS") || (fcntl(fd[1], F_GETFD) & FD_CLOEXEC) == 0)
            _exit(1); /* its own children would have it */
        spot_last_words_report(&why);
        _exit(0);
    }
    ck_assert_int_eq(waitpid(pid, &(int){ 0 }, 0), pid);
    spot_last_words_read(fd[0], text);
    close(fd[0]);
    close(fd[1]);
}

START_TEST(last_words_come_to_the_parent_as_plain_text)
{
    char text[SPOT_LAST_WORDS];

    hear(text, true);
    ck_assert_str_eq(text, "no such?file");
    hear(text, false);
    ck_assert_str_eq(text, "");
}
END_TEST

/* A shell between the two, or a user who keeps the variable, makes no worker of this parent. */
START_TEST(only_a_child_of_the_process_that_made_the_sockets_takes_one)
{
    int fd[2], status;
    pid_t pid;

    ck_assert_int_eq(spot_last_words_pair(fd, "begin", NULL), 0);
    pid = fork();
    if (!pid) {
        spot_last_words_pass(fd[1]);
        pid = fork();
        if (pid)
            _exit(waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : 9);
        spot_last_words_take();
        _exit(*spot_first_words() ? 1 : 0);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    close(fd[0]);
    close(fd[1]);
}
END_TEST

START_TEST(a_variable_that_names_something_else_is_not_written_to)
{
    char path[] = "/tmp/spot-words-XXXXXX";
    const int fd = mkstemp(path);
    char number[16];
    struct spot_err why = { .msg = "x" };

    unlink(path);
    snprintf(number, sizeof(number), "%d", fd);
    setenv("SPOT_LAST_WORDS", number, 1);
    spot_last_words_take();
    spot_last_words_report(&why);
    ck_assert_int_eq(lseek(fd, 0, SEEK_END), 0);
    close(fd);
}
END_TEST

int main(void)
{
    return run_suite("restart", add_tests(tcase_create("restart")));
}
