/* SPDX-License-Identifier: MIT */
/* live_rig.h - a job that runs until it is told to stop, what is asked of it meanwhile, and workers
 * that come and go. */
#ifndef SPOT_TESTS_LIVE_RIG_H
#define SPOT_TESTS_LIVE_RIG_H

#include <inttypes.h>

#include "cluster/client.h"
#include "comm/endpoint.h"
#include "common/clock.h"
#include "job_rig.h"
#include "train/train_protocol.h"

struct running {
    pid_t pid;
    int end[2];
    char join[160];
};

static inline void begin_running(struct running *r, struct spot_trainer_options *o,
                                 const char *socket)
{
    snprintf(r->join, sizeof(r->join), "unix:%s/%s", dir, socket);
    o->listen = r->join;
    if (o->durable_every_s < 0.2)
        o->durable_every_s = 0.2;
    o->config.n_step = 20000; /* a job that nobody stops ends all the same */
    ck_assert_int_eq(pipe(r->end), 0);
    r->pid = start_job(o, r->end[1]);
}

/* As soon as somebody listens there. */
static inline int connect_soon(const char *address)
{
    struct spot_endpoint at;
    int fd = -1;

    ck_assert_int_eq(spot_endpoint_parse(address, &at, NULL), 0);
    for (int k = 0; fd < 0 && k < 12000; k++) {
        fd = spot_endpoint_connect(&at, NULL);
        if (fd < 0)
            spot_clock_sleep(0.005);
    }
    ck_assert_int_ge(fd, 0);
    return fd;
}

static inline int ask(const struct running *r, enum spot_message type, const char *text,
                      char *answer, size_t n)
{
    struct spot_buf got = { 0 };
    struct spot_err err = { 0 };
    const int rc =
        spot_client_ask(r->join, NULL, 60, type, text, text ? strlen(text) : 0, &got, &err);

    ck_assert_msg(rc >= 0, "%s", err.msg);
    snprintf(answer, n, "%.*s", (int)got.n, (const char *)got.data);
    spot_buf_release(&got);
    return rc;
}

static inline void wait_for(const struct running *r, const char *what)
{
    static char answer[1 << 16];

    for (int k = 0; k < 6000; k++) {
        ask(r, SPOT_MSG_STATUS, NULL, answer, sizeof(answer));
        if (strstr(answer, what))
            return;
        spot_clock_sleep(0.01);
    }
    ck_abort_msg("no '%s' in: %s", what, answer);
}

static const char plan_text[] = "{\"schema\":\"spot.plan/1\",\"job\":\"\",\"time_s\":%.0f,"
                                "\"next\":{\"D\":%d,\"P\":%d,\"M\":1,\"B\":1},\"spares\":0,"
                                "\"expected\":{\"samples_per_s\":1,\"loss_prob\":0},\"why\":[]}";

static inline int give_plan(const struct running *r, enum spot_message type, double time_s, int D,
                            int P, char *answer, size_t n)
{
    char text[512];

    snprintf(text, sizeof(text), plan_text, time_s, D, P);
    return ask(r, type, text, answer, n);
}

static inline struct outcome stop_running(struct running *r)
{
    char answer[1024];
    struct outcome got;

    ck_assert_int_eq(ask(r, SPOT_MSG_STOP, NULL, answer, sizeof(answer)), 0);
    got = end_job(r->pid, r->end);
    ck_assert_int_eq(got.rc, -1);
    ck_assert_int_eq(got.err.code, SPOT_EPREEMPTED);
    return got;
}

/* Its first steps by the same job with fewer, on one worker, have the same bits. */
static inline void expect_same_bits(struct spot_trainer_options *o)
{
    struct outcome got;

    o->listen = NULL;
    o->resume = true;
    o->plan = NULL;
    o->metrics = NULL;
    o->grid = (struct spot_grid){ 1, 1, 1 };
    o->config.n_step = 1;
    o->n_local = 1;
    got = run_job(o); /* more are done, as a rule: it tells how many */
    if (got.rc)
        ck_assert_msg(
            sscanf(got.err.msg, "--steps 1 is less than the %" SCNd64, &o->config.n_step) == 1,
            "%s", got.err.msg);
    got = run_job(o); /* nothing is left to do */
    ck_assert_msg(!got.rc, "%s", got.err.msg);
    o->state = o->state_command = o->events = NULL;
    o->change = NULL;
    o->resume = false;
    expect_state(o, got.result.state_hex);
}

/* A job with a state and a log. */
static inline struct outcome expect_stopped(struct running *r, struct spot_trainer_options *o)
{
    const struct outcome got = stop_running(r);

    expect_same_bits(o);
    return got;
}

static inline pid_t start_worker(const struct running *r, uint64_t index)
{
    const struct spot_trainer_options o = { .n_thread = 1 };
    const pid_t pid = fork();

    if (!pid)
        become_worker(&o, index, r->join, "cpu");
    return pid;
}

/* Gone by a signal, and waited for. */
static inline void end_worker(pid_t pid, int number)
{
    int status;

    ck_assert_int_eq(kill(pid, number), 0);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    if (number == SIGTERM)
        ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 75, "status %x",
                      (unsigned)status);
}

#endif /* SPOT_TESTS_LIVE_RIG_H */
