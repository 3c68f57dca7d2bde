/* SPDX-License-Identifier: MIT */
/* Goal: ranks are real processes here. How each ends is told by its rank; when a round is stopped
 * nothing of it is left, whatever it does against that, and neither when we or the guard die; what
 * it wrote is there, to the byte.
 */
#define _GNU_SOURCE /* NOLINT(bugprone-reserved-identifier) */
#include <fcntl.h>
#include <stdarg.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include "rank_rig.h"

static const struct spot_rank_env env = { .restart_count = 7,
                                          .group_rank = 1,
                                          .group_world = 3,
                                          .first_rank = 4,
                                          .world = 12,
                                          .local_world = 2,
                                          .master_port = 29500,
                                          .master_address = "127.0.0.1",
                                          .run_id = "r" };

static struct spot_ranks *begin_with(struct spot_ranks_options o, const char *script)
{
    static char *command[4];
    struct spot_ranks *r;

    command[0] = TEXT("sh");
    command[1] = TEXT("-c");
    command[2] = TEXT(script);
    o.command = command;
    r = spot_ranks_new(&o, &err);
    ck_assert_msg(r, "%s", err.msg);
    ck_assert_msg(!spot_ranks_start(r, &env, &err), "%s", err.msg);
    return r;
}

static struct spot_ranks *begin(uint32_t n, double stop_s, const char *script)
{
    return begin_with(
        (struct spot_ranks_options){
            .n = n, .stop_s = stop_s, .out_fd = -1, .err_fd = -1, .log_dir = dir },
        script);
}

static struct spot_rank_event next(struct spot_ranks *r)
{
    struct spot_rank_event event;

    for (int look = 0; look < PATIENCE; look++) {
        const int rc = spot_ranks_next(r, 0.01, &event, &err);

        ck_assert_msg(rc >= 0, "%s", err.msg);
        if (rc)
            return event;
    }
    ck_abort_msg("no event");
}

/* Ends of ranks up to SPOT_RANK_STOPPED, into status[n]. */
static void stop(struct spot_ranks *r, int *status)
{
    struct spot_rank_event event;

    ck_assert_int_eq(spot_ranks_stop(r, &err), 0);
    while ((event = next(r)).kind != SPOT_RANK_STOPPED) {
        ck_assert_int_eq(event.kind, SPOT_RANK_EXITED);
        status[event.local] = event.status;
    }
}

START_TEST(each_end_is_told_by_its_rank)
{
    struct spot_ranks *const r =
        begin(4, 5,
              "case $LOCAL_RANK in 0) exit 0;; 1) exit 42;; 2) kill -SEGV $$;; "
              "3) while [ ! -e $D/go ]; do sleep 0.01; done; exit 3;; esac");
    int status[4] = { -1, -1, -1, -1 };

    for (int i = 0; i < 3; i++) {
        const struct spot_rank_event event = next(r);

        ck_assert_int_eq(event.kind, SPOT_RANK_EXITED);
        ck_assert_uint_eq(event.round, 7);
        ck_assert_uint_lt(event.local, 3); /* the last one waits */
        status[event.local] = event.status;
    }
    fclose(fopen(in_dir("go"), "w"));
    status[3] = next(r).status;
    ck_assert(WIFEXITED(status[0]) && WEXITSTATUS(status[0]) == 0);
    ck_assert(WIFEXITED(status[1]) && WEXITSTATUS(status[1]) == 42);
    ck_assert(WIFSIGNALED(status[2]) && WTERMSIG(status[2]) == SIGSEGV);
    ck_assert(WIFEXITED(status[3]) && WEXITSTATUS(status[3]) == 3);
    stop(r, status); /* nothing runs: it comes at once */
    spot_ranks_free(r);
}
END_TEST

START_TEST(a_command_that_is_not_there_is_127)
{
    static char nowhere[] = "/nowhere/at-all";
    char *const command[] = { nowhere, NULL };
    const struct spot_ranks_options o = {
        .command = command, .n = 1, .stop_s = 1, .out_fd = -1, .err_fd = -1, .log_dir = dir
    };
    struct spot_ranks *const r = spot_ranks_new(&o, &err);
    struct spot_rank_event event;

    ck_assert_int_eq(spot_ranks_start(r, &env, &err), 0);
    event = next(r);
    ck_assert(WIFEXITED(event.status) && WEXITSTATUS(event.status) == 127);
    spot_ranks_free(r);
    ck_assert_str_eq(text_of("7/4.err"),
                     "cannot run '/nowhere/at-all': No such file or directory\n");
}
END_TEST

START_TEST(who_ignores_sigterm_is_killed)
{
    struct spot_ranks *const r =
        begin(2, 0.2,
              "[ $LOCAL_RANK = 1 ] || trap '' TERM; echo $$ >$D/pid.$LOCAL_RANK; "
              "while :; do sleep 0.05; done");
    int status[2] = { 0, 0 };

    (void)pid_in("pid.0");
    (void)pid_in("pid.1");
    stop(r, status);
    ck_assert(WIFSIGNALED(status[0]) && WTERMSIG(status[0]) == SIGKILL);
    ck_assert(WIFSIGNALED(status[1]) && WTERMSIG(status[1]) == SIGTERM);
    spot_ranks_free(r);
}
END_TEST

START_TEST(who_stands_still_hears_sigterm)
{
    struct spot_ranks *const r = begin(1, 60, "echo $$ >$D/pid; while :; do sleep 0.05; done");
    const pid_t pid = pid_in("pid");
    int status = 0;

    ck_assert_int_eq(kill(pid, SIGSTOP), 0);
    stop(r, &status); /* with a limit that the test would not bear */
    ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
    spot_ranks_free(r);
}
END_TEST

/* Ignores SIGTERM, in a session of its own, and its parent is gone; another one below it. */
#define FORKS_AWAY                                                                            \
    "setsid sh -c 'trap \"\" TERM; setsid sh -c \"echo \\$\\$ >$D/deep; exec sleep 1000\" & " \
    "echo $$ >$D/stray; while :; do sleep 0.05; done' & "

START_TEST(what_forked_away_goes_when_the_round_is_stopped)
{
    struct spot_ranks *const r =
        begin(1, 60, FORKS_AWAY "while [ ! -s $D/deep ]; do sleep 0.01; done; exit 0");
    const struct spot_rank_event event = next(r);
    const pid_t stray = pid_in("stray"), deep = pid_in("deep");
    int status;

    ck_assert(WIFEXITED(event.status) && !WEXITSTATUS(event.status));
    ck_assert(!is_gone(stray) && !is_gone(deep));
    stop(r, &status);
    ck_assert(is_gone(stray) && is_gone(deep));
    spot_ranks_free(r);
}
END_TEST

START_TEST(a_group_goes_with_its_rank)
{
    struct spot_ranks *const r = begin(1, 60, "sleep 1000 & echo $! >$D/child; exit 5");
    const struct spot_rank_event event = next(r);

    ck_assert(WIFEXITED(event.status) && WEXITSTATUS(event.status) == 5);
    until_gone(pid_in("child"));
    spot_ranks_free(r);
}
END_TEST

START_TEST(who_closes_its_descriptors_is_watched_all_the_same)
{
    struct spot_ranks *const r =
        begin(1, 60, "exec <&- >&- 2>&-; echo $$ >$D/pid; [ -e $D/again ] && exit 9; sleep 1000");
    int status = 0;

    (void)pid_in("pid");
    stop(r, &status);
    ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
    fclose(fopen(in_dir("again"), "w"));
    ck_assert_int_eq(spot_ranks_start(r, &env, &err), 0); /* and may be started again */
    status = next(r).status;
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 9);
    spot_ranks_free(r);
}
END_TEST

START_TEST(all_goes_when_we_are_killed)
{
    const pid_t child = fork();
    pid_t rank, stray, deep;

    if (!child) {
        (void)begin(1, 60,
                    "trap '' TERM; echo $$ >$D/rank; " FORKS_AWAY "while :; do sleep 1; done");
        for (;;)
            pause();
    }
    rank = pid_in("rank");
    stray = pid_in("stray");
    deep = pid_in("deep");
    ck_assert_int_eq(kill(child, SIGKILL), 0);
    ck_assert_int_eq(waitpid(child, NULL, 0), child);
    until_gone(rank);
    until_gone(stray);
    until_gone(deep);
}
END_TEST

START_TEST(all_goes_when_the_guard_is_killed)
{
    struct spot_ranks *const r = begin(
        1, 60, "echo $PPID >$D/guard; echo $$ >$D/rank; " FORKS_AWAY "while :; do sleep 1; done");
    const pid_t rank = pid_in("rank"), stray = pid_in("stray"), deep = pid_in("deep");
    struct spot_rank_event event;
    int rc = 0;

    ck_assert_int_eq(kill(pid_in("guard"), SIGKILL), 0);
    for (int look = 0; look < PATIENCE && !rc; look++)
        rc = spot_ranks_next(r, 0.01, &event, &err);
    ck_assert_int_eq(rc, -1);
    ck_assert_int_eq(err.code, SPOT_ESYS);
    ck_assert_int_eq(spot_ranks_start(r, &env, &err), -1);
    spot_ranks_free(r);
    ck_assert(is_gone(rank) && is_gone(stray) && is_gone(deep));
}
END_TEST

START_TEST(freeing_stops_what_runs)
{
    struct spot_ranks *const r =
        begin(1, 60,
              "trap 'echo saved >$D/saved; exit 0' TERM; echo $$ >$D/rank; "
              "while :; do sleep 0.05; done");
    const pid_t rank = pid_in("rank");

    spot_ranks_free(r);
    ck_assert(is_gone(rank));
    ck_assert_str_eq(text_of("saved"), "saved\n");
}
END_TEST

/* --- what they write ------------------------------------------------------------- */

static int terminal(const char *name)
{
    return open(in_dir(name), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

START_TEST(each_line_has_its_rank_and_files_are_exact)
{
    const struct spot_ranks_options o = { .n = 2,
                                          .stop_s = 60,
                                          .out_fd = terminal("out"),
                                          .err_fd = terminal("err"),
                                          .log_dir = in_dir("logs") };
    struct spot_ranks *const r = begin_with(
        o, "if [ $LOCAL_RANK = 0 ]; then printf 'one\\n\\ntwo'; else printf 'bad\\n' >&2; fi");
    struct spot_rank_env second = env;

    (void)next(r);
    (void)next(r);
    second.restart_count = 8;
    second.first_rank = 0;
    ck_assert_int_eq(spot_ranks_start(r, &second, &err), 0); /* nothing was left of the first */
    (void)next(r);
    (void)next(r);
    spot_ranks_free(r);
    ck_assert_str_eq(text_of("out"), "[4] one\n[4] \n[4] two\n[0] one\n[0] \n[0] two\n");
    ck_assert_str_eq(text_of("err"), "[5] bad\n[1] bad\n");
    ck_assert_str_eq(text_of("logs/7/4.out"), "one\n\ntwo");
    ck_assert_str_eq(text_of("logs/7/4.err"), "");
    ck_assert_str_eq(text_of("logs/8/1.err"), "bad\n");
    close(o.out_fd);
    close(o.err_fd);
}
END_TEST

/* A pipe or a terminal, of which nothing is read. */
static void write_to_nobody(int reader, int writer)
{
    const struct spot_ranks_options o = {
        .n = 1, .stop_s = 60, .out_fd = writer, .err_fd = -1, .log_dir = in_dir("logs")
    };
    struct spot_ranks *const r = begin_with(o, "seq 1 100000; exit 6");
    struct spot_rank_env second = env;
    const int status = next(r).status;

    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 6);
    second.restart_count = 8;
    ck_assert_int_eq(spot_ranks_start(r, &second, &err), 0);
    ck_assert_int_eq(WEXITSTATUS(next(r).status), 6);
    spot_ranks_free(r);
    close(reader);
    close(writer);
    ck_assert_int_eq(system("seq 1 100000 | cmp - $D/logs/7/4.out"), 0);
    ck_assert_int_eq(system("seq 1 100000 | cmp - $D/logs/8/4.out"), 0);
}

START_TEST(nobody_waits_for_a_pipe_that_is_not_read)
{
    int full[2];

    ck_assert_int_eq(pipe2(full, O_CLOEXEC), 0);
    write_to_nobody(full[0], full[1]);
}
END_TEST

START_TEST(nobody_waits_for_a_terminal_that_is_not_read)
{
    const int reader = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);

    ck_assert(reader >= 0 && !grantpt(reader) && !unlockpt(reader));
    write_to_nobody(reader, open(ptsname(reader), O_RDWR | O_NOCTTY | O_CLOEXEC));
}
END_TEST

static char warned[512];
static int n_warned;

static void warn(const char *format, ...) SPOT_PRINTF(1, 2);
static void warn(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(warned, sizeof(warned), format, args);
    va_end(args);
    n_warned++;
}

START_TEST(a_log_that_cannot_be_written_is_told_of_once_and_stops_no_rank)
{
    struct spot_ranks_options o = {
        .n = 2, .stop_s = 60, .out_fd = -1, .err_fd = -1, .log_dir = in_dir("file"), .warn = warn
    };
    struct spot_ranks *r;

    n_warned = 0;
    fclose(fopen(o.log_dir, "w"));
    r = begin_with(o, "echo out; echo err >&2");
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(next(r).status, 0);
    spot_ranks_free(r);
    ck_assert_msg(n_warned == 1, "%d: %s", n_warned, warned);
    ck_assert_msg(strstr(warned, "cannot write the logs of ranks to '") && strstr(warned, "/file"),
                  "%s", warned);
}
END_TEST

/* --- what does not end --------------------------------------------------------------- */

/* Who traces a process is to wait for it first: until then its parent cannot, and it is there after
 * SIGKILL as one is that waits in the kernel. Returns false where nothing may be traced. */
static bool hold(pid_t pid)
{
    return !ptrace(PTRACE_SEIZE, pid, NULL, NULL);
}

static struct spot_ranks *begin_stuck(const char *script)
{
    const struct spot_ranks_options o = {
        .n = 2, .stop_s = 0, .stuck_s = 0.3, .out_fd = -1, .err_fd = -1, .warn = warn
    };

    n_warned = 0;
    return begin_with(o, script);
}

/* What spot_ranks_next says in the end. */
static void until_given_up(struct spot_ranks *r)
{
    struct spot_rank_event event;
    int rc = 0;

    for (int look = 0; rc >= 0 && look < PATIENCE; look++)
        rc = spot_ranks_next(r, 0.01, &event, &err);
    ck_assert_int_eq(rc, -1);
    ck_assert_int_eq(err.code, SPOT_ESYS);
    ck_assert(spot_ranks_are_stuck(r));
}

START_TEST(a_rank_that_does_not_end_is_given_up_and_named)
{
    struct spot_ranks *const r =
        begin_stuck("echo $$ >$D/pid.$LOCAL_RANK; while :; do sleep 0.05; done");
    const pid_t other = pid_in("pid.0"), pid = pid_in("pid.1");
    char named[64];

    if (hold(pid)) {
        ck_assert_int_eq(spot_ranks_stop(r, &err), 0);
        until_given_up(r);
        snprintf(named, sizeof(named), "process %ld, rank 5, has not ended 0.3 s after SIGKILL",
                 (long)pid);
        ck_assert_msg(strstr(err.msg, named), "%s", err.msg);
    }
    spot_ranks_free(r);
    ck_assert(is_gone(other));
    ck_assert_int_eq(n_warned, 0); /* it was told of */
    ck_assert(is_gone(pid));       /* we traced it, and adopted it */
}
END_TEST

START_TEST(one_that_left_its_group_and_does_not_end_is_given_up_too)
{
    struct spot_ranks *const r = begin_stuck(
        "[ $LOCAL_RANK = 1 ] || setsid sh -c 'echo $$ >$D/pid; while :; do sleep 0.05; done'");
    const pid_t pid = pid_in("pid");

    if (hold(pid)) {
        ck_assert_int_eq(spot_ranks_stop(r, &err), 0);
        until_given_up(r);
        ck_assert_msg(strstr(err.msg, "has not ended 0.3 s after SIGKILL"), "%s", err.msg);
    }
    spot_ranks_free(r);
    ck_assert(is_gone(pid)); /* we traced it, and adopted it */
}
END_TEST

START_TEST(who_leaves_does_not_wait_for_one_that_does_not_end_and_says_so)
{
    struct spot_ranks *const r =
        begin_stuck("echo $$ >$D/pid.$LOCAL_RANK; while :; do sleep 0.05; done");
    const bool is_held = hold(pid_in("pid.0"));

    spot_ranks_free(r);
    ck_assert_int_eq(n_warned, is_held);
    ck_assert_msg(!is_held || strstr(warned, "has not ended 0.3 s after SIGKILL"), "%s", warned);
}
END_TEST

/* --- before a new round ------------------------------------------------------------ */

START_TEST(who_catches_sigusr1_is_told_and_waited_for)
{
    struct spot_ranks *const r =
        begin(2, 60,
              "if [ $LOCAL_RANK = 0 ]; then trap 'echo saved >$D/saved; exit 0' USR1; fi; "
              "echo $$ >$D/pid.$LOCAL_RANK; while :; do sleep 0.05; done");
    struct spot_rank_event event;
    int status[2] = { -1, -1 };

    (void)pid_in("pid.0");
    (void)pid_in("pid.1");
    ck_assert_int_eq(spot_ranks_save(r, &err), 0);
    event = next(r);
    ck_assert_int_eq(event.kind, SPOT_RANK_EXITED); /* before it is told that all is saved */
    ck_assert_uint_eq(event.local, 0);
    ck_assert_int_eq(next(r).kind, SPOT_RANK_SAVED);
    ck_assert_str_eq(text_of("saved"), "saved\n");
    stop(r, status); /* the other one lives: the signal would have ended it */
    ck_assert(WIFSIGNALED(status[1]) && WTERMSIG(status[1]) == SIGTERM);
    spot_ranks_free(r);
}
END_TEST

START_TEST(a_trainer_below_a_shell_is_told)
{
    struct spot_ranks *const r =
        begin(1, 60,
              "sh -c 'trap \"echo saved >$D/saved; exit 0\" USR1; echo $$ >$D/pid; "
              "while :; do sleep 0.05; done'; exit 4");
    struct spot_rank_event event;

    (void)pid_in("pid");
    ck_assert_int_eq(spot_ranks_save(r, &err), 0);
    event = next(r);
    ck_assert(event.kind == SPOT_RANK_EXITED && WEXITSTATUS(event.status) == 4);
    ck_assert_int_eq(next(r).kind, SPOT_RANK_SAVED);
    ck_assert_str_eq(text_of("saved"), "saved\n");
    spot_ranks_free(r);
}
END_TEST

int main(void)
{
    TCase *const tc = tcase_create("ranks");

    tcase_add_checked_fixture(tc, set_up, tear_down);
    add_tests(tc);
    return run_suite("ranks", tc);
}
