/* SPDX-License-Identifier: MIT */
/* Goal: who speaks to a pipe or terminal that is not read goes on, as does who shares it; what is
 * read is in order and whole lines, and says what was left out; an end of waiting is never without
 * a limit, and a reader that is gone is told of. */
#define _GNU_SOURCE /* NOLINT(bugprone-reserved-identifier) */
#include "common/outlet.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "suite.h"

enum { ROOM = 1 << 16, PATIENCE_S = 60 };

static struct spot_err err;
static int in, out; /* what is put goes in at `out`, and comes out at `in` */

static struct spot_outlet *open_pipe(bool tells)
{
    struct spot_outlet *o;
    int fd[2];

    ck_assert_int_eq(pipe2(fd, O_CLOEXEC), 0);
    in = fd[0];
    out = fd[1];
    o = spot_outlet_new(out, ROOM, tells, &err);
    ck_assert_msg(o, "%s", err.msg);
    return o;
}

static struct spot_outlet *open_terminal(void)
{
    struct spot_outlet *o;

    in = posix_openpt(O_RDWR | O_NOCTTY);
    ck_assert(in >= 0 && !grantpt(in) && !unlockpt(in));
    out = open(ptsname(in), O_RDWR | O_NOCTTY | O_CLOEXEC);
    ck_assert_int_ge(out, 0);
    o = spot_outlet_new(out, ROOM, true, &err);
    ck_assert_msg(o, "%s", err.msg);
    return o;
}

static void close_both(void)
{
    if (in >= 0)
        close(in);
    close(out);
}

/* Numbered lines, more than any pipe and the room hold. Returns how many. */
static int fill(struct spot_outlet *o, int first)
{
    char line[32];
    int i;

    for (i = first; i < first + 40000; i++)
        ck_assert_int_eq(
            spot_outlet_put(o, line, (size_t)snprintf(line, sizeof(line), "line %d\n", i)), 0);
    return i;
}

/* The next line; the terminal puts a carriage return at its end. */
static void next_line(char *line, size_t n)
{
    size_t i = 0;
    struct pollfd set = { .fd = in, .events = POLLIN };

    do {
        ck_assert_int_lt(i, n);
        ck_assert_int_eq(poll(&set, 1, 1000 * PATIENCE_S), 1);
        ck_assert_int_eq(read(in, line + i, 1), 1);
        if (line[i] == '\r')
            i--;
    } while (line[i++] != '\n');
    line[i] = '\0';
}

/* So many lines, from `first` on, and what was left out of them is told. Returns what comes next.
 */
static int read_lines(int first, int n, bool tells)
{
    char line[64], expected[64];
    int lost, i = first;

    for (; n--; i++) {
        next_line(line, sizeof(line));
        if (sscanf(line, "[%d lines left out]", &lost) == 1) {
            i += lost;
            next_line(line, sizeof(line));
        } else if (!tells) {
            ck_assert_int_eq(sscanf(line, "line %d", &lost), 1);
            i = lost > i ? lost : i;
        }
        snprintf(expected, sizeof(expected), "line %d\n", i);
        ck_assert_str_eq(line, expected);
    }
    return i;
}

static void stand_still_then_be_read(struct spot_outlet *o)
{
    const int n = fill(o, 0);
    int next;

    ck_assert(!spot_outlet_wait(o, 0, 0.05));
    ck_assert(!spot_outlet_wait(o, 0, 1e9)); /* it is known to stand still */
    ck_assert_uint_gt(spot_outlet_lost(o), 0);
    next = read_lines(0, n - (int)spot_outlet_lost(o), true);
    ck_assert_int_eq(spot_outlet_put(o, "line 40000\n", 11), 0);
    ck_assert_int_eq(read_lines(next, 1, true), n + 1);
    ck_assert_uint_eq(spot_outlet_free(o, PATIENCE_S), 0);
    close_both();
}

START_TEST(a_pipe_that_is_not_read_loses_whole_lines_and_is_told_how_many)
{
    stand_still_then_be_read(open_pipe(true));
}
END_TEST

START_TEST(a_terminal_that_is_not_read_loses_whole_lines_and_is_told_how_many)
{
    stand_still_then_be_read(open_terminal());
}
END_TEST

START_TEST(a_terminal_that_was_stopped_holds_nobody_up)
{
    struct spot_outlet *const o = open_terminal();

    ck_assert_int_eq(tcflow(out, TCOOFF), 0);
    (void)fill(o, 0);
    ck_assert(!spot_outlet_wait(o, 0, 0.05));
    ck_assert_uint_gt(spot_outlet_free(o, 0.05), 0);
    close_both();
}
END_TEST

START_TEST(one_that_is_read_loses_nothing)
{
    struct spot_outlet *const o = open_pipe(true);
    char line[32];

    for (int i = 0; i < 20000; i++) {
        ck_assert_int_eq(
            spot_outlet_put(o, line, (size_t)snprintf(line, sizeof(line), "line %d\n", i)), 0);
        if (i % 1000 == 999)
            (void)read_lines(i - 999, 1000, true);
    }
    ck_assert_uint_eq(spot_outlet_lost(o), 0);
    ck_assert_uint_eq(spot_outlet_free(o, PATIENCE_S), 0);
    close_both();
}
END_TEST

START_TEST(documents_are_not_mixed_with_notes)
{
    struct spot_outlet *const o = open_pipe(false);
    const int n = fill(o, 0), next = read_lines(0, n - (int)spot_outlet_lost(o), false);

    ck_assert_uint_gt(spot_outlet_lost(o), 0);
    ck_assert_int_le(next, n);
    ck_assert(spot_outlet_wait(o, 0, PATIENCE_S));
    ck_assert_int_eq(spot_outlet_put(o, "line 40000\n", 11), 0);
    ck_assert_int_eq(read_lines(next, 1, false), n + 1);
    ck_assert_uint_eq(spot_outlet_free(o, PATIENCE_S), 0);
    close_both();
}
END_TEST

START_TEST(a_reader_that_is_gone_is_told_of)
{
    struct spot_outlet *const o = open_pipe(true);

    close(in);
    in = -1;
    ck_assert_int_eq(spot_outlet_put(o, "x\n", 2), 0);
    ck_assert(!spot_outlet_wait(o, 0, PATIENCE_S));
    ck_assert_int_eq(spot_outlet_put(o, "x\n", 2), -1);
    ck_assert_int_eq(errno, EPIPE);
    ck_assert_uint_eq(spot_outlet_free(o, PATIENCE_S), 2);
    close_both();
}
END_TEST

START_TEST(who_shares_the_descriptor_finds_it_as_it_was)
{
    struct spot_outlet *const o = open_pipe(true);

    ck_assert_int_eq(spot_outlet_put(o, "line 0\n", 7), 0);
    ck_assert_int_eq(read_lines(0, 1, true), 1);
    ck_assert_int_eq(fcntl(out, F_GETFL) & O_NONBLOCK, 0);
    ck_assert_uint_eq(spot_outlet_free(o, PATIENCE_S), 0);
    ck_assert_int_eq(write(out, "line 1\n", 7), 7);
    ck_assert_int_eq(read_lines(1, 1, true), 2);
    close_both();
}
END_TEST

START_TEST(one_that_somebody_made_nonblocking_is_waited_for)
{
    struct spot_outlet *const o = open_pipe(true);
    int n;

    ck_assert_int_eq(fcntl(out, F_SETFL, O_NONBLOCK), 0);
    n = fill(o, 0);
    (void)read_lines(0, n - (int)spot_outlet_lost(o), true);
    ck_assert_uint_eq(spot_outlet_free(o, PATIENCE_S), 0);
    close_both();
}
END_TEST

int main(void)
{
    return run_suite("outlet", add_tests(tcase_create("outlet")));
}
