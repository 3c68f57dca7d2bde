/* SPDX-License-Identifier: MIT */
/* Goal: each line of a command is a notice, and so is that it ends well without one; SIGTERM is one
 * too, and the end. A hook knows all of its notice and nothing of another, is waited for, and what
 * went wrong with it is told. Nothing that was started goes on beyond the watch but hooks. */
#define _XOPEN_SOURCE 700
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "notice_rig.h"

static char dir[64];

static void make_dir(void)
{
    strcpy(dir, "/tmp/spot-notice-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    ck_assert_int_eq(setenv("DIR", dir, 1), 0); /* for what is run */
}

static void drop_dir(void)
{
    char command[128];

    snprintf(command, sizeof(command), "rm -r '%s'", dir);
    ck_assert_int_eq(system(command), 0);
}

/* Of a file in the directory; "" where it is not there. */
static const char *content(const char *name)
{
    static char text[4096];
    char path[128];
    FILE *in;
    size_t n = 0;

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    in = fopen(path, "r");
    if (in) {
        n = fread(text, 1, sizeof(text) - 1, in);
        fclose(in);
    }
    text[n] = '\0';
    return text;
}

static void await(const char *name)
{
    for (int k = 0; k < 12000 && !*content(name); k++)
        spot_clock_sleep(0.005);
    ck_assert_msg(*content(name), "there is no %s", name);
}

/* One that nobody has waited for yet is over. */
static bool is_alive(const char *name)
{
    const long pid = strtol(content(name), NULL, 10);
    char path[64], state = 'Z';
    FILE *in;

    snprintf(path, sizeof(path), "/proc/%ld/stat", pid);
    in = fopen(path, "r");
    if (!in)
        return false;
    ck_assert_int_eq(fscanf(in, "%*d (%*[^)]) %c", &state), 1);
    fclose(in);
    return state != 'Z';
}

static void await_end(const char *name)
{
    for (int k = 0; k < 12000 && is_alive(name); k++)
        spot_clock_sleep(0.005);
    ck_assert_msg(!is_alive(name), "%s goes on", name);
}

static void stop(void)
{
    spot_notice_stop(seen.watch);
}

/* --- a command --- */

static void until_five(void)
{
    if (seen.n_told == 5)
        stop();
}

START_TEST(each_line_of_a_command_is_a_notice)
{
    watch(
        (struct spot_notice_options){
            .from = "cmd:printf 'preempt 90s\\nrebalance\\n\\nmaintenance 24h x\\n"
                    "preempt 10s\\na\\0b c'; exec >&-; sleep 100" },
        until_five);
    ck_assert_int_eq(seen.n_told, 5);
    expect_told(0, SPOT_NOTICE_PREEMPT, SPOT_NOTICE_NEW, "cmd");
    expect_left(0, 90);
    expect_told(1, SPOT_NOTICE_REBALANCE, SPOT_NOTICE_NEW, "cmd");
    ck_assert(isnan(seen.told[1].deadline_s));
    expect_told(2, SPOT_NOTICE_MAINTENANCE, SPOT_NOTICE_NEW, "x");
    expect_left(2, 86400);
    expect_told(3, SPOT_NOTICE_PREEMPT, SPOT_NOTICE_EARLIER, "cmd"); /* the first of its kind */
    expect_left(3, 10);
    expect_told(4, SPOT_NOTICE_PREEMPT, SPOT_NOTICE_NEW, "a?b c"); /* its line does not end */
    for (int i = 0; i < 5; i++) {
        ck_assert_str_eq(seen.told[i].source, "cmd");
        ck_assert_str_eq(seen.told[i].action, "line");
    }
    ck_assert_int_eq(seen.n_warned, 0);
}
END_TEST

static void stop_when_told(void)
{
    if (seen.n_told)
        stop();
}

/* Three tries fail in their own ways, the fourth ends well. */
START_TEST(a_command_that_fails_is_started_again_and_one_that_ends_well_is_a_notice)
{
    watch(
        (struct spot_notice_options){
            .from = "cmd:echo x >>$DIR/tries; case $(wc -l <$DIR/tries) in "
                    "1) exit 3;; 2) kill -9 $$;; 3) exit 5;; *) exit 0;; esac",
            .lead_s = 40 },
        stop_when_told);
    ck_assert_str_eq(content("tries"), "x\nx\nx\nx\n");
    ck_assert_int_eq(seen.n_warned, 1); /* of the third in a row */
    expect_warned(0, "notices of cmd: the command ended with status 5; retrying");
    ck_assert_int_eq(seen.n_told, 1); /* that it ended well, without a line */
    expect_told(0, SPOT_NOTICE_PREEMPT, SPOT_NOTICE_NEW, "exit");
    ck_assert(seen.told[0].is_memory_lost);
    expect_left(0, 40);
}
END_TEST

static void stop_when_there(void)
{
    await("child");
    stop();
}

START_TEST(a_command_does_not_outlive_the_watch)
{
    watch(
        (struct spot_notice_options){
            .from = "cmd:sleep 100 & echo $! >$DIR/child; echo preempt; wait" },
        stop_when_there);
    await_end("child");
    ck_assert_int_eq(seen.n_told, 1);
    ck_assert(isnan(seen.told[0].left_s));
}
END_TEST

/* Nobody reads lines of a megabyte. */
START_TEST(a_line_without_an_end_is_cut)
{
    watch(
        (struct spot_notice_options){
            .from = "cmd:head -c 300000 /dev/zero | tr '\\0' a; echo; sleep 100" },
        stop);
    ck_assert_int_eq(seen.n_told, 1);
    ck_assert_uint_eq(strlen(seen.told[0].id), SPOT_NOTICE_ID_MAX - 1);
}
END_TEST

/* --- hooks --- */

/* The deadline is a date: what is left is told by the clock of this machine. */
START_TEST(a_hook_knows_its_notice_and_no_other)
{
    char want[512];

    ck_assert_int_eq(setenv("SPOT_NOTICE_DEADLINE", "of another", 1), 0);
    ck_assert_int_eq(setenv("SPOT_NOTICE_OTHER", "of another", 1), 0);
    watch(
        (struct spot_notice_options){
            .from = "cmd:date -u -d +1day +%FT%TZ >$DIR/date; "
                    "echo maintenance $(cat $DIR/date) some event; sleep 100",
            .hook = "env | grep ^SPOT_NOTICE_ | grep -v -e _AT= -e LEFT_S= | sort >$DIR/hooked" },
        stop);
    snprintf(want, sizeof(want),
             "SPOT_NOTICE_ACTION=line\n"
             "SPOT_NOTICE_DEADLINE=%.19s.000Z\n"
             "SPOT_NOTICE_ID=some event\n"
             "SPOT_NOTICE_KIND=maintenance\n"
             "SPOT_NOTICE_MEMORY_LOST=0\n"
             "SPOT_NOTICE_SOURCE=cmd\n"
             "SPOT_NOTICE_STATE=new\n",
             content("date"));
    ck_assert_str_eq(content("hooked"), want);
    expect_left(0, 86400);
    ck_assert_int_eq(seen.n_warned, 0);
}
END_TEST

/* Nor is a deadline that is years ahead. */
START_TEST(what_is_not_known_is_empty_whatever_it_was_before)
{
    ck_assert_int_eq(setenv("SPOT_NOTICE_LEFT_S", "5", 1), 0);
    watch(
        (struct spot_notice_options){
            .from = "cmd:echo preempt 2999-01-01; sleep 100",
            .hook = "echo \"$SPOT_NOTICE_DEADLINE,$SPOT_NOTICE_LEFT_S,$SPOT_NOTICE_AT\" "
                    ">$DIR/hooked" },
        stop_when_told);
    ck_assert_int_eq(strncmp(content("hooked"), ",,20", 4), 0);
    expect_warned(0, "notices of cmd: the deadline is ");
}
END_TEST

static void until_two_warnings(void)
{
    if (seen.n_warned == 2)
        stop();
}

START_TEST(a_hook_that_fails_is_told)
{
    watch(
        (struct spot_notice_options){ .from = "cmd:echo preempt 1h a; echo preempt 1h b; sleep 100",
                                      .hook = "[ $SPOT_NOTICE_ID = a ] && exit 7; kill -9 $$" },
        until_two_warnings);
    ck_assert_msg(strstr(seen.warned[0], "the hook ended with ") != NULL, "%s", seen.warned[0]);
    for (int i = 0; i < 2; i++)
        expect_warned(i, strstr(seen.warned[i], "status") ? "status 7" : "signal 9");
}
END_TEST

static void release_hooks(void)
{
    char path[128];

    if (seen.n_warned != 2)
        return;
    snprintf(path, sizeof(path), "%s/go", dir);
    ck_assert_int_eq(mkdir(path, 0700), 0);
    stop(); /* sixteen hooks are waited for */
}

START_TEST(no_more_than_sixteen_hooks_run_at_a_time)
{
    watch(
        (struct spot_notice_options){
            .from = "cmd:for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18; do "
                    "echo preempt 1h $i; done; sleep 100",
            .hook = "until [ -d $DIR/go ]; do sleep 0.02; done; echo x >>$DIR/hooked" },
        release_hooks);
    ck_assert_int_eq(seen.n_told, 18);
    ck_assert_int_eq(seen.n_warned, 2);
    expect_warned(0, "16 hooks are running: none was started for a notice of cmd");
    ck_assert_uint_eq(strlen(content("hooked")), 32);
}
END_TEST

/* --- signals --- */

START_TEST(sigterm_is_a_notice_and_the_end_and_its_hook_is_waited_for)
{
    struct spot_err err = { 0 };

    open_watch((struct spot_notice_options){ .from = "sigterm",
                                             .lead_s = 30,
                                             .hook = "sleep 0.1; echo x >$DIR/hooked" },
               NULL);
    spot_notice_terminate(seen.watch);
    ck_assert_int_eq(spot_notice_run(seen.watch, &err), 0);
    spot_notice_free(seen.watch);
    ck_assert_int_eq(seen.n_told, 1);
    ck_assert_str_eq(seen.told[0].source, "sigterm");
    expect_told(0, SPOT_NOTICE_PREEMPT, SPOT_NOTICE_NEW, "SIGTERM");
    expect_left(0, 30);
    ck_assert_str_eq(content("hooked"), "x\n");
}
END_TEST

START_TEST(a_stop_alone_is_no_notice)
{
    struct spot_err err = { 0 };

    open_watch((struct spot_notice_options){ .from = "sigterm" }, NULL);
    spot_notice_stop(seen.watch);
    spot_notice_terminate(seen.watch); /* too late */
    ck_assert_int_eq(spot_notice_run(seen.watch, &err), 0);
    spot_notice_free(seen.watch);
    ck_assert_int_eq(seen.n_told, 0);
}
END_TEST

START_TEST(a_second_stop_leaves_hooks_behind)
{
    struct spot_err err = { 0 };

    open_watch((struct spot_notice_options){ .from = "sigterm",
                                             .hook = "echo $$ >$DIR/hook; exec sleep 100" },
               NULL);
    spot_notice_terminate(seen.watch);
    spot_notice_stop(seen.watch);
    ck_assert_int_eq(spot_notice_run(seen.watch, &err), 0);
    spot_notice_free(seen.watch);
    await("hook");
    ck_assert(is_alive("hook"));
    kill((pid_t)strtol(content("hook"), NULL, 10), SIGKILL);
    while (waitpid(-1, NULL, 0) > 0)
        ;
}
END_TEST

START_TEST(a_watch_in_a_thread_ends_when_it_is_freed)
{
    struct spot_err err = { 0 };

    open_watch(
        (struct spot_notice_options){ .from =
                                          "cmd:echo preempt; echo $$ >$DIR/child; exec sleep 100" },
        NULL);
    ck_assert_msg(!spot_notice_start(seen.watch, &err), "%s", err.msg);
    await("child");
    spot_notice_free(seen.watch);
    ck_assert_int_eq(seen.n_told, 1);
    await_end("child");
    spot_notice_free(NULL);
}
END_TEST

/* --- what cannot be --- */

static const struct {
    const char *from, *endpoint;
    bool is_once;
    const char *message;
} bad[] = {
    { "ibm", NULL, false, "expected aws, gcp, azure, auto, sigterm or cmd:COMMAND, got 'ibm'" },
    { "", NULL, false, "got ''" },
    { "cmd:", NULL, false, "got 'cmd:'" },
    { "cmd:  ", NULL, false, "got 'cmd:  '" },
    { "aws", "http://example.org", false, "expected http://ADDRESS" },
    { "aws", "https://127.0.0.1", false, "expected http://ADDRESS" },
    { "cmd:true", NULL, true, "only a metadata service can be asked once" },
    { "sigterm", NULL, true, "only a metadata service can be asked once" },
};

START_TEST(what_cannot_be_asked_is_named)
{
    const struct spot_notice_options o = { .from = bad[_i].from,
                                           .endpoint = bad[_i].endpoint,
                                           .is_once = bad[_i].is_once };
    struct spot_err err = { 0 };

    ck_assert_ptr_null(spot_notice_new(&o, &err));
    ck_assert_int_eq(err.code, SPOT_EUSAGE);
    ck_assert_msg(strstr(err.msg, bad[_i].message) != NULL, "%s", err.msg);
}
END_TEST

START_TEST(a_notice_is_a_document_on_one_line)
{
    struct spot_notice n = { .source = "gcp",
                             .kind = SPOT_NOTICE_MAINTENANCE,
                             .state = SPOT_NOTICE_LATER,
                             .action = "MIGRATE",
                             .id = "i",
                             .at_s = 0.5,
                             .deadline_s = 30.75,
                             .left_s = 30.2504 };
    FILE *const full = fopen("/dev/full", "w");
    struct spot_err err = { 0 };
    char *text = NULL;
    size_t n_text = 0;
    FILE *out = open_memstream(&text, &n_text);

    ck_assert_int_eq(spot_notice_write(&n, out, &err), 0);
    n.deadline_s = NAN;
    ck_assert_int_eq(spot_notice_write(&n, out, &err), 0);
    fclose(out);
    ck_assert_str_eq(
        text, "{\"schema\":\"spot.notice/1\",\"source\":\"gcp\",\"kind\":\"maintenance\","
              "\"state\":\"later\",\"action\":\"MIGRATE\",\"memory_lost\":false,"
              "\"at\":\"1970-01-01T00:00:00.500Z\",\"deadline\":\"1970-01-01T00:00:30.750Z\","
              "\"left_s\":30.25,\"id\":\"i\"}\n"
              "{\"schema\":\"spot.notice/1\",\"source\":\"gcp\",\"kind\":\"maintenance\","
              "\"state\":\"later\",\"action\":\"MIGRATE\",\"memory_lost\":false,"
              "\"at\":\"1970-01-01T00:00:00.500Z\",\"id\":\"i\"}\n");
    free(text);
    ck_assert_ptr_nonnull(full);
    ck_assert_int_eq(spot_notice_write(&n, full, &err), -1);
    ck_assert_int_eq(err.code, SPOT_ESYS);
    fclose(full);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    tcase_add_checked_fixture(tc, make_dir, drop_dir);
    tcase_add_loop_test(tc, what_cannot_be_asked_is_named, 0, sizeof(bad) / sizeof(bad[0]));
    add_tests(tc);
    return run_suite("notice_command", tc);
}
