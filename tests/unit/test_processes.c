/* SPDX-License-Identifier: MIT */
/* Goal: instances are real processes here. Each is told who it is; its whole group gets the signal
 * and goes with it; nothing that was started outlives us, and what we did not start is left alone.
 */
#define _GNU_SOURCE /* NOLINT(bugprone-reserved-identifier) */
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sim/processes.h"
#include "suite.h"

#define TEXT(literal) ((char *)(uintptr_t)(literal)) /* nobody writes to it */

enum { PATIENCE = 6000 }; /* looks, 10 ms apart */

static const struct spot_host *const host = &spot_processes_host;
static char dir[64];

static char *in_dir(const char *name)
{
    static char path[4][96];
    static int at;
    char *const here = path[at++ % 4];

    snprintf(here, sizeof(path[0]), "%s/%s", dir, name);
    return here;
}

static void make_dir(void)
{
    strcpy(dir, "/tmp/spot-processes-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
}

static void drop_dir(void)
{
    char command[128];

    snprintf(command, sizeof(command), "rm -r '%s'", dir);
    ck_assert_int_eq(system(command), 0);
}

/* The command's words are "sh -c SCRIPT sh FILE {node} {zone}". */
static void begin(struct spot_processes *p, const char *script, const char *file)
{
    static char *command[8];

    command[0] = TEXT("sh");
    command[1] = TEXT("-c");
    command[2] = TEXT(script);
    command[3] = TEXT("sh");
    command[4] = in_dir(file);
    command[5] = TEXT("{node}");
    command[6] = TEXT("at {zone}/{node}{nod}");
    ck_assert_int_eq(spot_processes_init(p, command, 2, NULL), 0);
}

static pid_t spawn(struct spot_processes *p)
{
    const struct spot_instance m = { .name = TEXT("n7"), .zone = "z1", .instance_type = "gpu.8x" };
    const pid_t pid = host->spawn(p, &m, NULL);

    ck_assert_int_gt(pid, 0);
    return pid;
}

/* The one that ends next. */
static pid_t reap(struct spot_processes *p, int *status)
{
    for (int k = 0; k < PATIENCE; k++) {
        const pid_t pid = host->reap(p, status);

        if (pid)
            return pid;
        host->wait(p, 0.01);
    }
    return 0;
}

/* A line that a child writes by a rename, so that it is whole or not there. */
static void read_line(const char *file, char line[128])
{
    FILE *in = NULL;

    for (int k = 0; k < PATIENCE && !in; k++) {
        in = fopen(in_dir(file), "re");
        if (!in)
            usleep(10000);
    }
    ck_assert_msg(in, "'%s' was never written", file);
    ck_assert_ptr_nonnull(fgets(line, 128, in));
    line[strcspn(line, "\n")] = '\0';
    fclose(in);
}

static pid_t read_pid(const char *file)
{
    char line[128];

    read_line(file, line);
    return (pid_t)strtol(line, NULL, 10);
}

/* A process whose parent went is ours; it is gone once it is reaped. */
static bool goes(struct spot_processes *p, pid_t pid)
{
    int status;

    for (int k = 0; k < PATIENCE; k++) {
        if (p)
            host->reap(p, &status);
        if (kill(pid, 0) && errno == ESRCH)
            return true;
        usleep(10000);
    }
    return false;
}

START_TEST(a_process_is_told_who_it_is)
{
    struct spot_processes p;
    char line[128];
    int status = -1;
    pid_t pid;

    make_dir();
    begin(&p,
          "echo \"$SPOT_NODE|$SPOT_ZONE|$SPOT_INSTANCE_TYPE|$2|$3\" >$1.new; mv $1.new $1; exit 3",
          "who");
    pid = spawn(&p);
    ck_assert_int_eq(reap(&p, &status), pid);
    ck_assert(WIFEXITED(status));
    ck_assert_int_eq(WEXITSTATUS(status), 3);
    ck_assert_int_eq(host->reap(&p, &status), 0);
    read_line("who", line);
    ck_assert_str_eq(line, "n7|z1|gpu.8x|n7|at z1/n7{nod}");
    spot_processes_release(&p);
    drop_dir();
}
END_TEST

START_TEST(a_command_that_is_not_there_is_named_and_takes_no_seat)
{
    char *command[] = { TEXT("/nowhere/trainer"), NULL };
    const struct spot_instance m = { .name = TEXT("n"), .zone = "z", .instance_type = "t" };
    struct spot_processes p;
    int status;

    ck_assert_int_eq(spot_processes_init(&p, command, 1, NULL), 0);
    for (int k = 0; k < 3; k++) {
        struct spot_err err = { 0 };

        ck_assert_int_eq(host->spawn(&p, &m, &err), -1);
        ck_assert_int_eq(err.code, SPOT_ESYS);
        ck_assert_ptr_nonnull(strstr(err.msg, "cannot run '/nowhere/trainer'"));
        ck_assert_ptr_nonnull(strstr(err.msg, strerror(ENOENT)));
        ck_assert_int_eq(p.guard.group[0], 0);
    }
    ck_assert_int_eq(host->reap(&p, &status), 0);
    spot_processes_release(&p);
}
END_TEST

START_TEST(what_a_process_leaves_behind_in_its_group_goes_with_it)
{
    struct spot_processes p;
    int status = -1;
    pid_t pid, left;

    make_dir();
    begin(&p, "sleep 1000 & echo $! >$1.new; mv $1.new $1", "left");
    pid = spawn(&p);
    ck_assert_int_eq(reap(&p, &status), pid);
    left = read_pid("left");
    ck_assert_int_ne(left, pid);
    ck_assert(goes(&p, left));
    spot_processes_release(&p);
    drop_dir();
}
END_TEST

/* The leader goes only when the other has, which nobody but the signal ends. */
START_TEST(a_signal_reaches_the_whole_group)
{
    struct spot_processes p;
    int status = -1;
    pid_t pid;

    make_dir();
    begin(&p,
          "exec 2>/dev/null; trap : TERM; (trap 'exit 0' TERM; : >$1; while :; do sleep 0.05; "
          "done) & "
          "wait; wait; exit 5",
          "ready");
    pid = spawn(&p);
    for (int k = 0; k < PATIENCE && access(in_dir("ready"), F_OK); k++)
        usleep(10000);
    host->signal(&p, pid, SIGTERM);
    ck_assert_int_eq(reap(&p, &status), pid);
    ck_assert(WIFEXITED(status));
    ck_assert_int_eq(WEXITSTATUS(status), 5);
    spot_processes_release(&p);
    drop_dir();
}
END_TEST

START_TEST(a_wait_ends_by_time_by_a_child_or_by_a_signal_for_us)
{
    struct spot_processes p;
    int status, got = 0;
    pid_t pid;

    make_dir();
    begin(&p, "exit 0", "none");
    ck_assert_int_eq(host->wait(&p, 0), 0);
    ck_assert_int_eq(host->wait(&p, -5), 0);
    pid = spawn(&p);
    ck_assert_int_eq(host->wait(&p, 3000), SIGCHLD);
    ck_assert_int_eq(reap(&p, &status), pid);
    kill(getpid(), SIGTERM);
    for (int k = 0; k < 3 && got != SIGTERM; k++) /* the guard may have a SIGCHLD of its own */
        got = host->wait(&p, 3000);
    ck_assert_int_eq(got, SIGTERM);
    ck_assert_double_ge(host->now_s(&p), 0);
    spot_processes_release(&p);
    drop_dir();
}
END_TEST

/* One in its group and one that left it with a session of its own. */
START_TEST(a_release_ends_all_that_was_started)
{
    struct spot_processes p;
    pid_t pid, away;

    make_dir();
    begin(&p,
          "trap '' TERM; setsid sh -c 'echo $$ >$0.new; mv $0.new $0; exec sleep 1000' $1 & "
          "sleep 1000",
          "away");
    pid = spawn(&p);
    away = read_pid("away");
    ck_assert_int_ne(getpgid(away), pid);
    spot_processes_release(&p);
    ck_assert(goes(NULL, pid));
    ck_assert(goes(NULL, away));
    drop_dir();
}
END_TEST

START_TEST(a_child_that_was_there_before_us_is_left_alone)
{
    struct spot_processes p;
    const pid_t before = fork();
    int status;

    if (!before)
        for (;;)
            pause();
    make_dir();
    begin(&p, "sleep 1000", "none");
    ck_assert(p.has_foreign);
    spawn(&p);
    spot_processes_release(&p);
    ck_assert_int_eq(waitpid(before, &status, WNOHANG), 0);
    kill(before, SIGKILL);
    ck_assert_int_eq(waitpid(before, &status, 0), before);
    drop_dir();
}
END_TEST

START_TEST(a_seat_that_was_left_is_taken_again)
{
    struct spot_processes p;
    int status;

    make_dir();
    begin(&p, "exit 0", "none");
    for (int k = 0; k < 6; k++) { /* two seats */
        const pid_t pid = spawn(&p);

        ck_assert(p.guard.group[0] == pid || p.guard.group[1] == pid);
        ck_assert_int_eq(reap(&p, &status), pid);
        ck_assert_int_eq(p.guard.group[0], 0);
        ck_assert_int_eq(p.guard.group[1], 0);
    }
    spot_processes_release(&p);
    drop_dir();
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("processes");

    tcase_set_timeout(tc, 120);
    setenv("CK_FORK", "yes", 1); /* signals and children are a process's: each test has its own */
    add_tests(tc);
    return run_case("processes", tc);
}
