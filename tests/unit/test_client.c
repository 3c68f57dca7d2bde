/* SPDX-License-Identifier: MIT */
/* Goal: a question to a job takes the time it was given, whoever is at the other side. */
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cluster/client.h"
#include "comm/endpoint.h"
#include "comm/link.h"
#include "common/clock.h"
#include "suite.h"

enum manner { HANGS_UP, TALKS_NONSENSE, SAYS_NOTHING };

/* Who listens: the first n_stranger connections get a stranger of that manner, the next the job. */
struct door {
    char address[64], dir[32];
    enum manner manner;
    int n_stranger, n_seen, listener;
    atomic_bool is_over;
    pthread_t thread;
};

static void answer_as_job(int fd)
{
    struct spot_frame_list in = { NULL, NULL };
    struct spot_link link;
    struct spot_frame *frame = NULL;

    spot_link_init(&link, fd, SPOT_PAYLOAD_MAX);
    while (!frame) {
        struct pollfd p = { .fd = fd, .events = POLLIN };

        ck_assert_int_eq(poll(&p, 1, 60000), 1);
        if (spot_link_read(&link, &in, NULL))
            break;
        frame = spot_frame_pop(&in);
    }
    if (frame)
        spot_link_send(&link, SPOT_MSG_ANSWER, 0, 0, "here", 4, NULL);
    free(frame);
    spot_link_release(&link);
}

static void *keep_door(void *user)
{
    static const char nonsense[64] = "HTTP/1.1 400 Bad Request\r\n";
    struct door *d = user;
    int held[64], n_held = 0;

    while (!d->is_over) {
        struct pollfd p = { .fd = d->listener, .events = POLLIN };
        const int fd = poll(&p, 1, 10) > 0 ? spot_endpoint_accept(d->listener) : -1;

        if (fd < 0)
            continue;
        if (d->n_seen++ >= d->n_stranger) {
            answer_as_job(fd);
            continue;
        }
        if (d->manner == TALKS_NONSENSE)
            (void)!send(fd, nonsense, sizeof(nonsense), MSG_NOSIGNAL);
        if (d->manner == HANGS_UP || n_held == 64)
            close(fd);
        else
            held[n_held++] = fd;
    }
    while (n_held)
        close(held[--n_held]);
    return NULL;
}

static void open_door(struct door *d, enum manner manner, int n_stranger)
{
    struct spot_endpoint at;

    memset(d, 0, sizeof(*d));
    d->manner = manner;
    d->n_stranger = n_stranger;
    strcpy(d->dir, "/tmp/spot-client-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(d->dir));
    snprintf(d->address, sizeof(d->address), "unix:%s/j", d->dir);
    ck_assert_int_eq(spot_endpoint_parse(d->address, &at, NULL), 0);
    d->listener = spot_endpoint_listen(&at, NULL);
    ck_assert_int_ge(d->listener, 0);
    ck_assert_int_eq(pthread_create(&d->thread, NULL, keep_door, d), 0);
}

static void shut_door(struct door *d)
{
    d->is_over = true;
    pthread_join(d->thread, NULL);
    close(d->listener);
    unlink(d->address + strlen("unix:"));
    rmdir(d->dir);
}

START_TEST(strangers_before_the_job_are_passed_by)
{
    struct spot_err err = { 0 };
    struct spot_buf answer = { 0 };
    struct door d;

    open_door(&d, (enum manner)_i, 3);
    ck_assert_msg(!spot_client_ask(d.address, NULL, 60, SPOT_MSG_STATUS, NULL, 0, &answer, &err),
                  "%s", err.msg);
    ck_assert_uint_eq(answer.n, 4);
    shut_door(&d);
    ck_assert_int_eq(d.n_seen, 4);
    spot_buf_release(&answer);
}
END_TEST

START_TEST(a_job_of_which_nothing_arrives_is_given_up)
{
    const double start_s = spot_clock_s();
    struct spot_frame *frame;
    struct spot_err err = { 0 };
    struct door d;

    open_door(&d, SAYS_NOTHING, 1 << 30);
    ck_assert_int_eq(
        spot_client_take(d.address, NULL, 0, 0.2, SPOT_MSG_CLIENT_FIRST, NULL, 0, &frame, &err),
        -1);
    ck_assert_ptr_null(frame);
    ck_assert_int_eq(err.code, SPOT_ESYS);
    ck_assert(spot_clock_s() - start_s < 60); /* without a limit of silence it is 120 s */
    shut_door(&d);
}
END_TEST

START_TEST(strangers_alone_are_given_the_time_that_was_asked_for)
{
    const double start_s = spot_clock_s(), limit_s = 0.4;
    struct spot_err err = { 0 };
    struct spot_buf answer = { 0 };
    struct door d;
    double took_s;

    open_door(&d, (enum manner)_i, 1 << 30);
    ck_assert_int_eq(
        spot_client_ask(d.address, NULL, limit_s, SPOT_MSG_STATUS, NULL, 0, &answer, &err), -1);
    took_s = spot_clock_s() - start_s;
    shut_door(&d);
    ck_assert(took_s >= 0.9 * limit_s);
    ck_assert(took_s < 9); /* a machine that is busy; without a limit an answer has ten seconds */
    ck_assert(err.code == SPOT_ESYS || err.code == SPOT_EDATA);
    spot_buf_release(&answer);
}
END_TEST

/* A listener whose queue is full answers neither yes nor no. */
START_TEST(a_door_where_nobody_is_let_in_takes_no_more_time)
{
    struct spot_err err = { 0 };
    struct spot_buf answer = { 0 };
    struct spot_endpoint at;
    double least_s = INFINITY;
    struct door d;
    int fd[8], n = 0, listener;

    memset(&d, 0, sizeof(d));
    strcpy(d.dir, "/tmp/spot-client-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(d.dir));
    snprintf(d.address, sizeof(d.address), "unix:%s/j", d.dir);
    ck_assert_int_eq(spot_endpoint_parse(d.address, &at, NULL), 0);
    listener = spot_endpoint_listen(&at, NULL);
    ck_assert_int_eq(listen(listener, 0), 0);
    fd[n++] = spot_endpoint_connect(&at, NULL);
    ck_assert_int_ge(fd[0], 0);
    for (int k = 0; k < 20 && least_s >= 4.5; k++) { /* of a busy machine one is quick */
        const double start_s = spot_clock_s();

        ck_assert_int_eq(
            spot_client_ask(d.address, NULL, 0.3, SPOT_MSG_STATUS, NULL, 0, &answer, &err), -1);
        ck_assert_ptr_nonnull(strstr(err.msg, "cannot connect"));
        least_s = fmin(least_s, spot_clock_s() - start_s);
    }
    ck_assert(least_s < 4.5); /* what connect() alone would wait is five */
    while (n)
        close(fd[--n]);
    close(listener);
    unlink(at.path);
    rmdir(d.dir);
    spot_buf_release(&answer);
}
END_TEST

START_TEST(a_plan_that_was_sent_is_not_sent_again_but_to_who_is_no_job)
{
    struct spot_err err = { 0 };
    struct spot_buf answer = { 0 };
    struct door d;

    open_door(&d, HANGS_UP, 3);
    ck_assert_int_eq(spot_client_ask(d.address, NULL, 60, SPOT_MSG_REPLAN, "{}", 2, &answer, &err),
                     -1);
    shut_door(&d);
    ck_assert_int_eq(d.n_seen, 1);
    open_door(&d, TALKS_NONSENSE, 3);
    ck_assert_int_eq(spot_client_ask(d.address, NULL, 60, SPOT_MSG_REPLAN, "{}", 2, &answer, &err),
                     0);
    shut_door(&d);
    ck_assert_int_eq(d.n_seen, 4);
    spot_buf_release(&answer);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    signal(SIGPIPE, SIG_IGN);
    tcase_add_loop_test(tc, strangers_before_the_job_are_passed_by, HANGS_UP, SAYS_NOTHING);
    tcase_add_loop_test(tc, strangers_alone_are_given_the_time_that_was_asked_for, HANGS_UP,
                        SAYS_NOTHING + 1);
    tcase_add_test(tc, a_job_of_which_nothing_arrives_is_given_up);
    tcase_add_test(tc, a_door_where_nobody_is_let_in_takes_no_more_time);
    tcase_add_test(tc, a_plan_that_was_sent_is_not_sent_again_but_to_who_is_no_job);
    return run_suite("client", tc);
}
