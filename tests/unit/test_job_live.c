/* SPDX-License-Identifier: MIT */
#define _XOPEN_SOURCE 700
#include <poll.h>
#include <stdlib.h>

#include "common/clock.h"
#include "live_rig.h"

/* Goal: what is asked of a running job is done and answered, and changes no bit: plans, a stop, a
 * coordinator that dies, a notice; and a measurement sees each step. */

START_TEST(plans_change_the_grid_and_no_bit)
{
    struct spot_trainer_options o = job(4, 2, 2, 1);
    struct running r;
    char answer[4096];
    struct spot_buf none = { 0 };
    const double now = 4e9;

    o.state = in_dir("", "asked");
    o.events = in_dir("", "asked.log");
    begin_running(&r, &o, "asked.socket");
    wait_for(&r, "\"phase\": \"run\"");
    ck_assert_int_eq(ask(&r, SPOT_MSG_REPLAN, "{\"schema\":", answer, sizeof(answer)), 3);
    ck_assert_int_eq(give_plan(&r, SPOT_MSG_REPLAN, now, 4, 1, answer, sizeof(answer)), 0);
    wait_for(&r, "\"D\": 4,\n  \"P\": 1,\n  \"M\": 1,\n  \"want");
    ck_assert_int_ne(give_plan(&r, SPOT_MSG_REPLAN, 1, 1, 2, answer, sizeof(answer)), 0);
    ck_assert_int_eq(give_plan(&r, SPOT_MSG_REPLAN_FORCE, now, 1, 2, answer, sizeof(answer)), 0);
    wait_for(&r, "\"D\": 1,\n  \"P\": 2,\n  \"M\": 1,\n  \"want");
    ck_assert_int_eq(give_plan(&r, SPOT_MSG_REPLAN, now + 1, 0, 0, answer, sizeof(answer)), 0);
    wait_for(&r, "\"suspended\": true");
    ck_assert_int_eq(give_plan(&r, SPOT_MSG_REPLAN, now + 2, 1, 4, answer, sizeof(answer)), 0);
    wait_for(&r, "\"D\": 1,\n  \"P\": 4,\n  \"M\": 1,\n  \"want");
    ck_assert_int_eq(spot_client_ask(r.join, NULL, 0, 105, NULL, 0, &none, NULL), 2);
    spot_buf_release(&none);
    expect_stopped(&r, &o);
}
END_TEST

/* Workers outlive a coordinator that is killed, and bring what they hold to the next one. */
START_TEST(a_coordinator_that_dies_and_a_worker_that_leaves_cost_no_bit)
{
    struct spot_trainer_options o = job(0, 2, 1, 1);
    struct running r;
    pid_t worker[3];
    int status;

    o.state = in_dir("", "storm");
    o.events = in_dir("", "storm.log");
    begin_running(&r, &o, "storm.socket");
    for (uint64_t i = 0; i < 2; i++)
        worker[i] = start_worker(&r, i);
    wait_for(&r, "\"durable_step\": ");
    kill(r.pid, SIGKILL);
    waitpid(r.pid, &status, 0);
    o.resume = true;
    r.pid = start_job(&o, r.end[1]);
    wait_for(&r, "\"D\": 2");
    worker[2] = start_worker(&r, 2);
    wait_for(&r, "local-2");
    kill(worker[0], SIGTERM);
    waitpid(worker[0], &status, 0);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 75, "status %x", (unsigned)status);
    wait_for(&r, "\"D\": 2");
    expect_stopped(&r, &o);
    for (size_t i = 1; i < 3; i++)
        waitpid(worker[i], &status, 0);
}
END_TEST

/* --- measurements --- */

static struct {
    int n, n_probe, n_wide;
    size_t n_p2p;
} seen;

static void on_step(void *user, const struct spot_step_seen *s, struct spot_wish *wish)
{
    (void)user;
    ck_assert_int_eq(s->step, ++seen.n);
    seen.n_wide += s->grid.D == 2;
    if (s->step == 3)
        *wish = (struct spot_wish){ .probe_byte = 1000, .probe_rounds = 3 };
    else if (s->step == 5)
        wish->grid = (struct spot_grid){ 2, 1, 1 };
    else if (s->step == 8)
        wish->local_leaves = 2;
    else
        wish->is_enough = s->step == 11;
}

static void on_probe(void *user, const struct spot_probe_seen *s)
{
    (void)user;
    seen.n_probe++;
    seen.n_p2p = s->n_p2p;
    ck_assert_uint_eq(s->n_byte, 1000);
    for (size_t i = 0; i < s->n_p2p; i++)
        ck_assert(s->p2p_s[i] > 0 && s->p2p_s[i] < 60);
}

/* --- a worker that is not yet one --- */

static int
    late[2]; /* a byte: the worker that takes the place of the one that left has been forked */
static pid_t test_pid;

static void become_late(const struct spot_trainer_options *o, uint64_t index, const char *address,
                        const char *backend)
{
    if (seen.n >= 3 && write(late[1], "", 1) == 1)
        spot_clock_sleep(5);
    become_worker(o, index, address, backend);
}

static void on_step_until_late(void *user, const struct spot_step_seen *s, struct spot_wish *wish)
{
    struct pollfd ready = { .fd = late[0], .events = POLLIN };

    (void)user;
    seen.n = (int)s->step;
    if (s->step == 3)
        wish->local_leaves = 2;
    wish->is_enough = poll(&ready, 1, 1) == 1;
}

static void end_the_test(int number)
{
    (void)number;
    kill(test_pid, SIGKILL);
}

START_TEST(a_worker_that_ends_before_it_is_one_does_not_act_for_its_parent)
{
    const struct spot_observer observer = { .committed = on_step_until_late, .probed = on_probe };
    const struct sigaction action = { .sa_handler = end_the_test };
    struct sigaction before;
    struct spot_trainer_options o = job(2, 1, 1, 1);
    struct spot_trainer_result result;
    struct spot_err err = { 0 };

    memset(&seen, 0, sizeof(seen));
    o.observer = &observer;
    o.become_worker = become_late;
    o.config.n_step = 5000;
    test_pid = getpid();
    ck_assert_int_eq(pipe(late), 0);
    sigaction(SIGTERM, &action, &before);
    ck_assert_msg(!spot_trainer_run(&o, &result, &err), "%s", err.msg);
    ck_assert_int_lt(result.step, 5000);
    sigaction(SIGTERM, &before, NULL);
}
END_TEST

START_TEST(a_measurement_sees_each_step_and_gets_its_wishes)
{
    const struct spot_observer observer = { .committed = on_step, .probed = on_probe };
    struct spot_trainer_options o = job(2, 1, 2, 1);
    struct spot_trainer_result result;
    struct spot_err err = { 0 };

    memset(&seen, 0, sizeof(seen));
    o.observer = &observer;
    o.config.n_step = 100;
    ck_assert_msg(!spot_trainer_run(&o, &result, &err), "%s", err.msg);
    ck_assert_int_eq(seen.n, 11);
    ck_assert_int_eq(result.step, 11);
    ck_assert_int_eq(seen.n_probe, 1);
    ck_assert_uint_eq(seen.n_p2p, 3);
    ck_assert_int_ge(seen.n_wide, 2);
}
END_TEST

int main(int argc, char **argv)
{
    TCase *tc = tcase_create("core");

    be_worker(argc, argv);
    make_dir();
    tcase_add_test(tc, plans_change_the_grid_and_no_bit);
    tcase_add_test(tc, a_coordinator_that_dies_and_a_worker_that_leaves_cost_no_bit);
    tcase_add_test(tc, a_worker_that_ends_before_it_is_one_does_not_act_for_its_parent);
    tcase_add_test(tc, a_measurement_sees_each_step_and_gets_its_wishes);
    return run_job_suite("job_live", tc);
}
