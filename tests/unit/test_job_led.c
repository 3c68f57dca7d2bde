/* SPDX-License-Identifier: MIT */
#define _XOPEN_SOURCE 700
#include <stdlib.h>

#include "cluster/find_leader.h"
#include "etcd_rig.h"
#include "live_rig.h"

/* Goal: of several coordinators of a job that share a store one leads, and the next goes on from
 * what it left: with the same workers, the same bits, the same end. One that overslept its lead
 * ends and says who leads; the job of another, and one that cannot be told where to come, are
 * refused. */

static char url[320];

static void up(void)
{
    etcd_up();
    etcd_url(url, sizeof(url));
}

static struct spot_trainer_options led(void)
{
    struct spot_trainer_options o = job(0, 2, 1, 1);

    o.store = url;
    o.store_lease_s = 1;
    o.state = in_dir("", "led");
    o.note = NULL;
    return o;
}

/* Begin one of several: it stands by, or leads. */
static void begin(struct running *r, struct spot_trainer_options *o, const char *name)
{
    char log[64];

    snprintf(log, sizeof(log), "%s.log", name);
    o->events = in_dir("", log);
    begin_running(r, o, name);
}

static struct outcome end(struct running *r)
{
    return end_job(r->pid, r->end);
}

static struct spot_trainer_options again(const char *name)
{
    struct spot_trainer_options o = led();

    o.listen = in_dir("unix:", name);
    o.resume = true;
    o.n_local = 1;
    o.grid = (struct spot_grid){ 1, 1, 1 };
    return o;
}

/* One whose address ends so. */
static void await_leader(const char *end_of_address)
{
    char at[SPOT_ADDRESS_MAX + 8] = "";

    for (int k = 0; k < 3000; k++) {
        if (spot_leader_find(url, at, NULL) && strstr(at, end_of_address))
            return;
        spot_clock_sleep(0.02);
    }
    ck_abort_msg("%s leads", at);
}

START_TEST(one_leads_and_the_next_goes_on_and_the_last_tells_the_end)
{
    struct spot_trainer_options o[2] = { led(), led() };
    static const char stopped[] = "the job was stopped at step ";
    struct running r[2], store = { .pid = 0 };
    struct outcome got;
    pid_t worker[2];
    int64_t step;
    char hex[40];

    snprintf(store.join, sizeof(store.join), "%.150s", url);
    begin(&r[0], &o[0], "a");
    for (uint64_t i = 0; i < 2; i++)
        worker[i] = start_worker(&store, i);
    wait_for(&r[0], "\"durable_step\": ");
    begin(&r[1], &o[1], "b"); /* it stands by */
    ck_assert_int_eq(kill(r[0].pid, SIGSTOP), 0);
    await_leader("/b");
    ck_assert_int_eq(kill(r[0].pid, SIGCONT), 0); /* and lets go of the state */
    got = end(&r[0]);
    ck_assert_int_eq(got.rc, -1);
    ck_assert_int_eq(got.err.code, SPOT_EPREEMPTED);
    ck_assert_msg(strstr(got.err.msg, "another coordinator leads the job now") != NULL, "%s",
                  got.err.msg);
    wait_for(&r[1], "\"D\": 2");
    wait_for(&r[1], "\"phase\": \"run\"");
    stop_running(&r[1]);
    for (int i = 0; i < 2; i++)
        waitpid(worker[i], NULL, 0);

    o[0] = again("c");
    o[0].resume = false; /* it was stopped, not left */
    o[0].config.n_step = 20000;
    got = run_job(&o[0]);
    ck_assert_int_eq(got.rc, -1);
    ck_assert_int_eq(got.err.code, SPOT_EINFEASIBLE);
    ck_assert_int_eq(strncmp(got.err.msg, stopped, strlen(stopped)), 0);
    step = strtoll(got.err.msg + strlen(stopped), NULL, 10);
    o[0].resume = true;
    o[0].config.n_step = step + 2;
    got = run_job(&o[0]);
    ck_assert_msg(!got.rc, "%s", got.err.msg);
    memcpy(hex, got.result.state_hex, sizeof(hex));
    /* one that comes when all is done needs neither a worker nor the state */
    o[0].n_local = 0;
    o[0].state = in_dir("", "none");
    o[0].save = in_dir("", "none.safetensors");
    o[0].resume = false;
    got = run_job(&o[0]);
    ck_assert_msg(!got.rc, "%s", got.err.msg);
    ck_assert_str_eq(got.result.state_hex, hex);
    ck_assert_int_eq(got.result.step, step + 2);
    ck_assert(got.result.knows_loss);
    ck_assert_msg(strstr(got.warned, "the previous leader has written the weights to its "
                                     "own --save") != NULL,
                  "%s", got.warned);
    o[1] = job(1, 1, 1, 1);
    o[1].config.n_step = step + 2;
    expect_state(&o[1], hex);
}
END_TEST

static const struct spot_tuning slower = { .lr = 2e-4, .weight_decay = 0.1 };

START_TEST(a_job_that_cannot_be_led_is_refused)
{
    struct spot_trainer_options o = again("d");
    struct outcome got;

    o.listen = NULL;
    got = run_job(&o);
    ck_assert_int_eq(got.err.code, SPOT_EUSAGE);
    ck_assert_msg(strstr(got.err.msg, "--store needs --listen") != NULL, "%s", got.err.msg);
    o.listen = "127.0.0.1:0";
    got = run_job(&o);
    ck_assert_int_eq(got.err.code, SPOT_EUSAGE);
    ck_assert_msg(strstr(got.err.msg, "--listen must be one address and port") != NULL, "%s",
                  got.err.msg);
    o = again("e");
    o.resume = false;
    o.state = in_dir("", "other");
    o.config.n_step = 2;
    got = run_job(&o);
    ck_assert_msg(!got.rc, "%s", got.err.msg);
    o.resume = true;
    o.config.n_step = 4;
    o.change = &slower;
    got = run_job(&o);
    ck_assert_msg(!got.rc, "%s", got.err.msg);
    o.change = NULL; /* this one does not know of it */
    o.config.n_step = 6;
    got = run_job(&o);
    ck_assert_int_eq(got.rc, -1);
    ck_assert_msg(strstr(got.err.msg, "the learning rate was changed after step 2") != NULL, "%s",
                  got.err.msg);
    o.config.seed = 2;
    got = run_job(&o);
    ck_assert_int_eq(got.rc, -1);
    ck_assert_int_eq(got.err.code, SPOT_EUSAGE);
    ck_assert_msg(strstr(got.err.msg, "the prefix belongs to another job") != NULL, "%s",
                  got.err.msg);
}
END_TEST

int main(int argc, char **argv)
{
    TCase *tc;

    be_worker(argc, argv);
    if (!etcd_is_there()) {
        puts("1..0 # SKIP no etcd (Debian: etcd-server)");
        return 0;
    }
    tc = tcase_create("core");
    make_dir();
    tcase_add_checked_fixture(tc, up, etcd_down);
    tcase_add_test(tc, one_leads_and_the_next_goes_on_and_the_last_tells_the_end);
    tcase_add_test(tc, a_job_that_cannot_be_led_is_refused);
    return run_job_suite("job_led", tc);
}
