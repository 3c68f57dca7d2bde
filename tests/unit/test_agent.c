/* SPDX-License-Identifier: MIT */
#define _XOPEN_SOURCE 700 /* mkdtemp */
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cluster/agent.h"
#include "cluster/protocol.h"
#include "common/clock.h"
#include "suite.h"

/* Goal: a worker that its coordinator let go has ended as it was told, also where the coordinator
 * was gone before it heard what the worker had to say; one that was told nothing looks for it. */

static char dir[] = "/tmp/spot-agent-XXXXXX", join[64];
static int listener;

enum { WORK = 51 };

/* Takes one worker in, says a last word, 0: none, and is gone without hearing any answer. */
static void *coordinate(void *last_word)
{
    struct spot_err err = { 0 };
    struct spot_frame_list in = { NULL, NULL };
    struct spot_buf welcome = { 0 };
    struct spot_link link;
    uint32_t type = *(uint32_t *)last_word;

    poll(&(struct pollfd){ .fd = listener, .events = POLLIN }, 1, 60000);
    spot_link_init(&link, spot_endpoint_accept(listener), 1 << 20);
    while (!in.head && !spot_link_read(&link, &in, &err))
        poll(&(struct pollfd){ .fd = link.fd, .events = POLLIN }, 1, 100);
    ck_assert_uint_eq(in.head->type, SPOT_MSG_HELLO);
    spot_frame_list_release(&in);
    spot_put_u32(&welcome, 7);
    spot_put_u64(&welcome, 4711);
    spot_put_f64(&welcome, 10);
    spot_link_send(&link, SPOT_MSG_WELCOME, 0, 0, welcome.data, welcome.n, &err);
    spot_link_send(&link, WORK, 0, 0, NULL, 0, &err);
    if (type)
        spot_link_send(&link, type, 0, 0, NULL, 0, &err);
    close(listener);
    unlink(join + 5);
    spot_link_release(&link);
    spot_buf_release(&welcome);
    return NULL;
}

/* What it was told to do is done when nobody is there to hear so. */
static int order(void *agent, const struct spot_frame *frame, struct spot_err *err)
{
    struct spot_agent *const a = agent;
    struct spot_buf nothing = { 0 };

    ck_assert_uint_eq(frame->type, WORK);
    for (int i = 0; !spot_mesh_is_orphan(a->mesh); i++) {
        ck_assert_int_lt(i, 20000);
        spot_clock_sleep(0.001);
    }
    return spot_agent_send(a, SPOT_MSG_VOTE, 0, &nothing, err);
}

static int work_for(uint32_t last_word, struct spot_err *err)
{
    static const struct spot_agent_workload workload = { .order = order };
    const struct spot_agent_options options = { .join = join, .join_timeout_s = 0 };
    struct spot_agent a = { .options = &options, .workload = &workload, .job = &a };
    struct spot_endpoint at;
    pthread_t thread;
    int rc;

    ck_assert_int_eq(spot_endpoint_parse(join, &at, NULL), 0);
    listener = spot_endpoint_listen(&at, NULL);
    ck_assert_int_ge(listener, 0);
    ck_assert_int_eq(pthread_create(&thread, NULL, coordinate, &last_word), 0);
    rc = spot_agent_run(&a, err);
    pthread_join(thread, NULL);
    ck_assert(a.has_joined);
    return rc;
}

START_TEST(who_was_told_that_the_job_is_done_has_ended_well)
{
    struct spot_err err = { 0 };

    ck_assert_msg(!work_for(SPOT_MSG_FINISH, &err), "%s", err.msg);
}
END_TEST

START_TEST(who_was_told_to_leave_has_left)
{
    struct spot_err err = { 0 };

    ck_assert_int_eq(work_for(SPOT_MSG_LEAVE, &err), -1);
    ck_assert_int_eq(err.code, SPOT_EPREEMPTED);
    ck_assert_str_eq(err.msg, "left: the job was stopped, its state is safe");
}
END_TEST

START_TEST(who_was_told_nothing_looks_for_the_coordinator)
{
    struct spot_err err = { 0 };

    ck_assert_int_eq(work_for(0, &err), -1);
    ck_assert_int_eq(err.code, SPOT_ESYS);
    ck_assert_msg(strstr(err.msg, "cannot connect"), "%s", err.msg);
}
END_TEST

int main(void)
{
    TCase *const tc = tcase_create("agent");
    int rc;

    if (!mkdtemp(dir))
        return 77;
    snprintf(join, sizeof(join), "unix:%s/join", dir);
    add_tests(tc);
    rc = run_suite("agent", tc);
    rmdir(dir);
    return rc;
}
