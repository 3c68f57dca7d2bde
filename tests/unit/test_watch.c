/* SPDX-License-Identifier: MIT */
#include "comm/watch.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "suite.h"

/* Goal: what is told is what poll() would tell of the descriptors that are open now, each by its
 * number, and an owner is found only while it has that number: whoever is closed, replaced or
 * inherited by a child meanwhile. */

struct end {
    int fd[2];
    uint32_t watched;
};

static struct spot_watch w;

static void open_end(struct end *e)
{
    ck_assert_int_eq(pipe(e->fd), 0);
    ck_assert_int_eq(fcntl(e->fd[0], F_SETFD, FD_CLOEXEC), 0);
    e->watched = 0;
    spot_watch_own(&w, e->fd[0], e);
}

static void close_end(struct end *e)
{
    spot_watch_disown(&w, e->fd[0], e);
    close(e->fd[0]);
    close(e->fd[1]);
}

/* The events of fd that come now, 0: none. */
static uint32_t told(int fd)
{
    const int n = spot_watch_wait(&w, 0);
    uint32_t events = 0;

    for (int i = 0; i < n; i++)
        if (w.event[i].data.fd == fd)
            events |= w.event[i].events;
    return events;
}

START_TEST(what_is_readable_is_told_until_it_is_read)
{
    struct end e;
    char byte;

    open_end(&e);
    spot_watch_set(&w, e.fd[0], EPOLLIN, &e.watched);
    ck_assert_uint_eq(told(e.fd[0]), 0);
    ck_assert_int_eq(write(e.fd[1], "x", 1), 1);
    ck_assert_uint_eq(told(e.fd[0]), EPOLLIN);
    ck_assert_uint_eq(told(e.fd[0]), EPOLLIN); /* again: it was not read */
    spot_watch_set(&w, e.fd[0], SPOT_WATCH_NONE, &e.watched);
    ck_assert_uint_eq(told(e.fd[0]), 0);
    spot_watch_set(&w, e.fd[0], EPOLLIN, &e.watched);
    ck_assert_uint_eq(told(e.fd[0]), EPOLLIN);
    ck_assert_int_eq(read(e.fd[0], &byte, 1), 1);
    ck_assert_uint_eq(told(e.fd[0]), 0);
    close_end(&e);
}
END_TEST

START_TEST(a_closed_one_is_not_told_and_its_number_is_the_next_ones)
{
    struct end e, next;

    open_end(&e);
    spot_watch_set(&w, e.fd[0], EPOLLIN, &e.watched);
    ck_assert_int_eq(write(e.fd[1], "x", 1), 1);
    close(e.fd[0]);
    ck_assert_uint_eq(told(e.fd[0]), 0);
    ck_assert_ptr_eq(spot_watch_owner(&w, e.fd[0]), &e); /* it has not gone yet */
    open_end(&next);
    ck_assert_int_eq(next.fd[0], e.fd[0]);
    spot_watch_disown(&w, e.fd[0], &e); /* too late for the next one to be forgotten */
    ck_assert_ptr_eq(spot_watch_owner(&w, next.fd[0]), &next);
    spot_watch_set(&w, next.fd[0], EPOLLIN, &next.watched);
    ck_assert_uint_eq(told(next.fd[0]), 0);
    ck_assert_int_eq(write(next.fd[1], "y", 1), 1);
    ck_assert_uint_eq(told(next.fd[0]), EPOLLIN);
    close(e.fd[1]);
    close_end(&next);
    ck_assert_ptr_null(spot_watch_owner(&w, next.fd[0]));
    ck_assert_ptr_null(spot_watch_owner(&w, -1));
    ck_assert_ptr_null(spot_watch_owner(&w, 1000000));
}
END_TEST

/* epoll watches what lies behind a descriptor, which a child has still. */
START_TEST(a_closed_one_that_a_child_holds_gives_way_to_the_next)
{
    struct end e, next;
    pid_t child;

    open_end(&e);
    spot_watch_set(&w, e.fd[0], EPOLLIN, &e.watched);
    child = fork();
    if (!child) {
        pause();
        leave(0);
    }
    close(e.fd[0]);
    open_end(&next);
    ck_assert_int_eq(next.fd[0], e.fd[0]);
    spot_watch_set(&w, next.fd[0], EPOLLIN, &next.watched);
    ck_assert_int_eq(write(next.fd[1], "y", 1), 1);
    ck_assert_uint_ne(told(next.fd[0]) & EPOLLIN, 0);
    kill(child, SIGKILL);
    ck_assert_int_eq(waitpid(child, NULL, 0), child);
    close(e.fd[1]);
    close_end(&next);
}
END_TEST

START_TEST(of_many_all_that_are_ready_are_told_in_turns)
{
    enum { MANY = 300 };
    static struct end e[MANY];
    bool has_told[MANY] = { false };
    int n_told = 0;

    for (int i = 0; i < MANY; i++) {
        open_end(&e[i]);
        spot_watch_set(&w, e[i].fd[0], EPOLLIN, &e[i].watched);
        ck_assert_int_eq(write(e[i].fd[1], "x", 1), 1);
    }
    for (int turn = 0; turn < 10; turn++) {
        const int n = spot_watch_wait(&w, 0);

        ck_assert_int_gt(n, 0);
        for (int k = 0; k < n; k++) {
            const struct end *const of = spot_watch_owner(&w, w.event[k].data.fd);

            ck_assert_ptr_nonnull(of);
            n_told += !has_told[of - e];
            has_told[of - e] = true;
        }
    }
    ck_assert_int_eq(n_told, MANY);
    for (int i = 0; i < MANY; i++)
        close_end(&e[i]);
}
END_TEST

static void begin(void)
{
    ck_assert_int_eq(spot_watch_open(&w, NULL), 0);
}

static void end(void)
{
    spot_watch_close(&w);
    spot_watch_close(&w); /* twice is nothing */
}

int main(void)
{
    TCase *tc = tcase_create("core");

    tcase_add_checked_fixture(tc, begin, end);
    tcase_add_test(tc, what_is_readable_is_told_until_it_is_read);
    tcase_add_test(tc, a_closed_one_is_not_told_and_its_number_is_the_next_ones);
    tcase_add_test(tc, a_closed_one_that_a_child_holds_gives_way_to_the_next);
    tcase_add_test(tc, of_many_all_that_are_ready_are_told_in_turns);
    return run_suite("watch", tc);
}
