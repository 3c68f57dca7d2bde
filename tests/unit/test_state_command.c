/* SPDX-License-Identifier: MIT */
/* Goal: what a state command said, and how it ended, is told as it was. Oracle: the commands, which
 * are written here. */
#include <signal.h>
#include <string.h>

#include "checkpoint/state_command.h"
#include "common/clock.h"
#include "suite.h"

static void expect(const char *text, const char *command)
{
    const struct spot_state_command c = { .command = command, .limit_s = 20 };
    struct spot_err err = { 0 };

    ck_assert_int_eq(spot_state_command_run(&c, "delete", "k", NULL, &err), -1);
    ck_assert_int_eq(err.code, SPOT_ESYS);
    ck_assert_str_eq(err.msg, text);
}

START_TEST(the_last_line_tells_from_its_start_on)
{
    char text[256] = "state command: delete k: status 1: ";
    const size_t n = strlen(text);

    expect("state command: delete k: status 1: no end",
           "echo a first line, which is longer >&2; printf 'no end' >&2; exit 1 #");
    expect("state command: delete k: status 2: last",
           "seq 100000 >&2; echo last >&2; echo >&2; exit 2 #");
    expect("state command: delete k: status 1: cat: \u2018x\u2019: no",
           "printf 'cat: \u2018x\u2019: no' >&2; exit 1 #");
    expect("state command: delete k: status 1: a?b", "printf 'a\\033b' >&2; exit 1 #");
    expect("state command: delete k: status 3", "exit 3 #");
    memset(text + n, 'x', 160);
    expect(text, "printf 'x%.0s' $(seq 1000) >&2; exit 1 #");
}
END_TEST

static int take_some(void *user, const void *data, size_t n_byte, struct spot_err *err)
{
    (void)data;
    (void)err;
    *(size_t *)user += n_byte;
    return 0;
}

static int rewind_never(void *user, struct spot_err *err)
{
    return *(size_t *)user ? spot_err_set(err, SPOT_ESYS, "it broke off") : 0;
}

START_TEST(what_broke_off_says_why)
{
    const struct spot_state_command c = { .command = "echo some; echo gone >&2; exit 1 #",
                                          .limit_s = 20 };
    size_t n_byte = 0;
    const struct spot_command_io io = { .rewind = rewind_never,
                                        .take = take_some,
                                        .user = &n_byte };
    struct spot_err err = { 0 };

    ck_assert_int_eq(spot_state_command_run(&c, "get", "k", &io, &err), -1);
    ck_assert_uint_eq(n_byte, strlen("some\n"));
    ck_assert_str_eq(err.msg, "state command: get k: status 1: gone");
}
END_TEST

START_TEST(a_status_that_is_lost_is_no_success)
{
    signal(SIGCHLD, SIG_IGN);
    expect("state command: delete k: no exit status, because SIGCHLD is ignored", "exit 7 #");
    signal(SIGCHLD, SIG_DFL);
}
END_TEST

static bool is_before(void *until_s)
{
    return spot_clock_s() < *(double *)until_s;
}

/* The command fails at once, and the pause before the next try is longer than it goes on. */
START_TEST(given_up_between_tries)
{
    double until_s = spot_clock_s() + 0.15;
    const struct spot_state_command c = {
        .command = "exit 1 #", .limit_s = 20, .goes_on = is_before, .user = &until_s
    };
    struct spot_err err = { 0 };

    ck_assert_int_eq(spot_state_command_run(&c, "delete", "k", NULL, &err), -1);
    ck_assert_int_eq(err.code, SPOT_EPREEMPTED);
}
END_TEST

START_TEST(given_up_before_it_begins)
{
    double past_s = 0;
    const struct spot_state_command c = {
        .command = "echo begun #", .limit_s = 20, .goes_on = is_before, .user = &past_s
    };
    size_t n_byte = 0;
    const struct spot_command_io io = { .take = take_some, .user = &n_byte };
    struct spot_err err = { 0 };

    ck_assert_int_eq(spot_state_command_run(&c, "get", "k", &io, &err), -1);
    ck_assert_int_eq(err.code, SPOT_EPREEMPTED);
    ck_assert_uint_eq(n_byte, 0);
}
END_TEST

/* It dies of the pipe that is closed then. */
START_TEST(who_goes_on_to_write_when_the_command_has_ended_is_not_read_for_ever)
{
    const struct spot_state_command c = { .command = "yes & #", .limit_s = 20 };
    size_t n_byte = 0;
    const struct spot_command_io io = { .take = take_some, .user = &n_byte };
    struct spot_err err = { 0 };

    ck_assert_int_eq(spot_state_command_run(&c, "get", "k", &io, &err), 0);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("state_command");

    tcase_set_timeout(tc, SUITE_TIMEOUT_S);
    add_tests(tc);
    return run_suite("state_command", tc);
}
