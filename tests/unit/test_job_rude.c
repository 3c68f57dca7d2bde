/* SPDX-License-Identifier: MIT */
#define _XOPEN_SOURCE 700
#include <poll.h>
#include <signal.h>
#include <stdlib.h>

#include "cluster/group.h"
#include "comm/endpoint.h"
#include "comm/link.h"
#include "common/version.h"
#include "live_rig.h"
#include "train/state_sources.h"

/* Goal: who does not fit into a job is refused, in words that say why, and the job goes on; local
 * workers that die again and again end it; a wish to stop is heard; and a worker does what its
 * coordinator says of it, and believes no malformed order. */

/* --- a stranger at the coordinator's --- */

static struct spot_link dial(const char *address)
{
    struct spot_link link;

    spot_link_init(&link, connect_soon(address), SPOT_PAYLOAD_MAX);
    return link;
}

/* The next frame of a type; NULL: the connection ended before. */
static struct spot_frame *hear(struct spot_link *link, uint32_t type)
{
    static struct spot_frame_list in;
    struct spot_frame *frame;
    bool is_over = false;

    for (;;) {
        while ((frame = spot_frame_pop(&in))) {
            if (frame->type == type) {
                spot_frame_list_release(&in);
                return frame;
            }
            free(frame);
        }
        if (is_over)
            return NULL;
        ck_assert_int_eq(poll(&(struct pollfd){ .fd = link->fd, .events = POLLIN }, 1, 60000), 1);
        is_over = spot_link_read(link, &in, NULL) != 0;
    }
}

static struct spot_buf hello(uint32_t protocol, const char *version, const char *address,
                             const char *kernels)
{
    struct spot_buf out = { 0 };

    spot_put_u32(&out, protocol);
    spot_put_text(&out, version);
    spot_put_text(&out, "stranger\n");
    if (!address)
        return out;
    spot_put_text(&out, address);
    spot_put_text(&out, "zone");
    spot_put_u64(&out, 0);
    if (!kernels)
        return out;
    spot_put_text(&out, kernels);
    spot_put_text(&out, "");
    spot_put_u64(&out, 0);
    spot_put_u32(&out, 0);
    return out;
}

/* What a hello is refused for. */
static void expect_refusal(const char *join, struct spot_buf hello_take, const char *why)
{
    struct spot_link link = dial(join);
    struct spot_frame *frame;
    struct spot_wire_in in;
    char text[SPOT_WHY_MAX];

    ck_assert_int_eq(
        spot_link_send(&link, SPOT_MSG_HELLO, 0, 0, hello_take.data, hello_take.n, NULL), 0);
    frame = hear(&link, SPOT_MSG_REFUSED);
    ck_assert_ptr_nonnull(frame);
    in = spot_wire_in(frame->data, frame->n_byte);
    spot_get_text(&in, text, sizeof(text));
    ck_assert_msg(strstr(text, why) != NULL, "no '%s' in '%s'", why, text);
    free(frame);
    ck_assert_ptr_null(hear(&link, SPOT_MSG_WELCOME)); /* and the connection ends */
    spot_link_release(&link);
    spot_buf_release(&hello_take);
}

START_TEST(a_worker_that_does_not_fit_is_refused_in_words_and_the_job_goes_on)
{
    struct spot_trainer_options o = job(0, 1, 1, 1);
    struct running r;
    struct spot_link silent;
    struct outcome got;
    pid_t worker;

    o.state = in_dir("", "rude");
    begin_running(&r, &o, "rude.socket");
    expect_refusal(r.join, hello(SPOT_PROTOCOL + 1, spot_version(), NULL, NULL),
                   "worker stranger? is version ");
    expect_refusal(r.join, hello(SPOT_PROTOCOL, "9.9.9", NULL, NULL),
                   "is version 9.9.9 (protocol ");
    expect_refusal(r.join, hello(SPOT_PROTOCOL, spot_version(), NULL, NULL), "malformed HELLO");
    expect_refusal(r.join, hello(SPOT_PROTOCOL, spot_version(), "nowhere", ",portable,"),
                   "malformed HELLO");
    expect_refusal(r.join, hello(SPOT_PROTOCOL, spot_version(), "unix:/tmp/x", ",portable,"),
                   "worker 'stranger?': name and domain must be UTF-8");
    silent = dial(r.join); /* not even a hello: shown the door */
    ck_assert_int_eq(spot_link_send(&silent, SPOT_MSG_VOTE, 0, 0, NULL, 0, NULL), 0);
    ck_assert_ptr_null(hear(&silent, SPOT_MSG_WELCOME));
    spot_link_release(&silent);
    worker = start_worker(&r, 0);
    wait_for(&r, "\"loss\": ");
    got = expect_stopped(&r, &o);
    waitpid(worker, NULL, 0);
    ck_assert_msg(strstr(got.warned, "refused: worker stranger? is version 9.9.9") != NULL, "%s",
                  got.warned);
}
END_TEST

START_TEST(two_workers_of_one_name_have_two)
{
    struct spot_trainer_options o = job(0, 2, 1, 1);
    struct running r;
    struct outcome got;
    pid_t worker[2];

    begin_running(&r, &o, "twice.socket");
    for (int i = 0; i < 2; i++)
        worker[i] = start_worker(&r, 0);
    wait_for(&r, "\"local-0.2\"");
    wait_for(&r, "\"loss\": ");
    got = stop_running(&r);
    for (int i = 0; i < 2; i++)
        waitpid(worker[i], NULL, 0);
    ck_assert_msg(strstr(got.warned, "there is a worker local-0 already: the new one is "
                                     "local-0.2") != NULL,
                  "%s", got.warned);
}
END_TEST

/* --- local workers --- */

static void become_nothing(const struct spot_trainer_options *o, uint64_t index,
                           const char *address, const char *backend)
{
    (void)o, (void)index, (void)address, (void)backend;
    leave(3);
}

static void become_a_victim(const struct spot_trainer_options *o, uint64_t index,
                            const char *address, const char *backend)
{
    (void)o, (void)index, (void)address, (void)backend;
    raise(SIGKILL);
}

START_TEST(a_local_worker_that_dies_again_and_again_ends_the_job)
{
    struct spot_trainer_options o = job(1, 1, 1, 1);
    struct outcome got;

    o.become_worker = become_nothing;
    got = run_job(&o);
    ck_assert_int_eq(got.rc, -1);
    ck_assert_int_eq(got.err.code, SPOT_ESYS);
    ck_assert_str_eq(got.err.msg, "local worker 0 died 3 times in a row before a step was done, "
                                  "the last time with exit status 3");
    o.become_worker = become_a_victim;
    got = run_job(&o);
    ck_assert_msg(strstr(got.err.msg, "the last time by signal 9") != NULL, "%s", got.err.msg);
}
END_TEST

/* --- a wish to stop --- */

static void stop_when_going(const struct spot_progress *progress)
{
    if (progress && progress->knows_loss)
        spot_group_stop();
}

START_TEST(a_wish_to_stop_keeps_the_state_and_says_where)
{
    struct spot_trainer_options o = job(1, 1, 1, 1);
    struct outcome got;

    o.progress = stop_when_going;
    o.state = in_dir("", "stopped");
    o.durable_every_s = 3600;
    o.config.n_step = 100000;
    got = run_job(&o);
    ck_assert_int_eq(got.rc, -1);
    ck_assert_int_eq(got.err.code, SPOT_EPREEMPTED);
    ck_assert_msg(strstr(got.err.msg, "stopped; the state of step ") != NULL, "%s", got.err.msg);
    ck_assert_msg(strstr(got.err.msg, "--state and --resume continue it") != NULL, "%s",
                  got.err.msg);
    o.progress = NULL;
    expect_same_bits(&o);
}
END_TEST

/* Else whoever was cut off would come again, and again, and an epoch of many would be long in
 * coming. */
START_TEST(as_many_as_are_to_come_may_come_at_once_before_they_speak)
{
    enum { COME = 100 };
    struct spot_trainer_options o = job(0, 1, 1, 1);
    struct spot_link come[COME];
    struct running r;

    o.n_first = 40; /* with those 64 that anybody may be */
    begin_running(&r, &o, "come.socket");
    for (int i = 0; i < COME; i++)
        come[i] = dial(r.join);
    wait_for(&r, "spot.status"); /* they have been taken in, and others are answered */
    for (int i = 0; i < COME; i++) {
        ck_assert_int_eq(poll(&(struct pollfd){ .fd = come[i].fd, .events = POLLIN }, 1, 0), 0);
        spot_link_release(&come[i]);
    }
    ck_assert_int_eq(stop_running(&r).err.code, SPOT_EPREEMPTED);
}
END_TEST

enum { WAITERS = 64 };

START_TEST(clients_that_wait_for_the_end_are_not_in_the_way_of_others_and_are_not_too_many)
{
    struct spot_trainer_options o = job(0, 1, 1, 1);
    struct spot_link waits[WAITERS + 1];
    struct spot_frame *frame;
    struct running r;
    pid_t worker;

    o.lease_s = o.stall_s = 100;
    begin_running(&r, &o, "crowd.socket");
    worker = start_worker(&r, 0);
    wait_for(&r, "\"loss\": ");
    kill(worker, SIGSTOP); /* the step does not end, nor does the job */
    for (int i = 0; i <= WAITERS; i++) {
        waits[i] = dial(r.join);
        ck_assert_int_eq(spot_link_send(&waits[i], SPOT_MSG_STOP, 0, 0, NULL, 0, NULL), 0);
        wait_for(&r, "spot.status"); /* it has been read, and others are answered */
    }
    frame = hear(&waits[WAITERS], SPOT_MSG_ANSWER);
    ck_assert_ptr_nonnull(frame);
    ck_assert_uint_eq(frame->tag, 4);
    free(frame);
    kill(worker, SIGCONT);
    for (int i = 0; i < WAITERS; i++) {
        frame = hear(&waits[i], SPOT_MSG_ANSWER);
        ck_assert_ptr_nonnull(frame);
        ck_assert_uint_ne(frame->tag, 4);
        free(frame);
    }
    ck_assert_int_eq(end_job(r.pid, r.end).err.code, SPOT_EPREEMPTED);
    waitpid(worker, NULL, 0);
    for (int i = 0; i <= WAITERS; i++)
        spot_link_release(&waits[i]);
}
END_TEST

/* --- a worker and a coordinator that the test plays --- */

struct fate {
    int rc;
    struct spot_err err;
    bool has_joined, was_dismissed, is_for_serving;
    char warned[512];
};

static struct fate fate;

static void note_fate(const char *fmt, ...) SPOT_PRINTF(1, 2);
static void note_fate(const char *fmt, ...)
{
    const size_t n = strlen(fate.warned);
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(fate.warned + n, sizeof(fate.warned) - n, fmt, ap);
    va_end(ap);
}

struct played {
    int listener, end[2];
    pid_t pid;
    struct spot_link link;
    char join[160];
};

/* A worker that has said hello. */
static void play(struct played *p, const char *socket)
{
    struct spot_endpoint at;
    struct spot_frame *frame;

    snprintf(p->join, sizeof(p->join), "unix:%s/%s", dir, socket);
    ck_assert_int_eq(spot_endpoint_parse(p->join, &at, NULL), 0);
    p->listener = spot_endpoint_listen(&at, NULL);
    ck_assert_int_ge(p->listener, 0);
    ck_assert_int_eq(pipe(p->end), 0);
    p->pid = fork();
    if (!p->pid) {
        const struct spot_worker_options w = { .join = p->join,
                                               .name = "w",
                                               .backend = "cpu",
                                               .n_thread = 1,
                                               .join_timeout_s = 60,
                                               .warn = note_fate };

        close(p->listener);
        fate.rc = spot_worker_run(&w, &fate.err);
        fate.has_joined = spot_worker_has_joined();
        fate.was_dismissed = spot_worker_was_dismissed();
        fate.is_for_serving = spot_worker_is_for_serving();
        leave(write(p->end[1], &fate, sizeof(fate)) != (ssize_t)sizeof(fate));
    }
    ck_assert_int_eq(poll(&(struct pollfd){ .fd = p->listener, .events = POLLIN }, 1, 60000), 1);
    spot_link_init(&p->link, spot_endpoint_accept(p->listener), SPOT_PAYLOAD_MAX);
    frame = hear(&p->link, SPOT_MSG_HELLO);
    ck_assert_ptr_nonnull(frame);
    free(frame);
}

/* Nobody else will listen there. */
static struct fate end_play(struct played *p)
{
    struct fate got;
    int status;

    close(p->end[1]);
    close(p->listener);
    ck_assert_int_eq(waitpid(p->pid, &status, 0), p->pid);
    ck_assert_int_eq(status, 0);
    ck_assert_int_eq(read(p->end[0], &got, sizeof(got)), sizeof(got));
    close(p->end[0]);
    spot_link_release(&p->link);
    return got;
}

static void say(struct played *p, uint32_t type, uint64_t tag, const char *text)
{
    struct spot_buf out = { 0 };

    if (text)
        spot_put_text(&out, text);
    ck_assert_int_eq(spot_link_send(&p->link, type, 0, tag, out.data, out.n, NULL), 0);
    spot_buf_release(&out);
}

static void welcome(struct played *p)
{
    const struct spot_trainer_options o = job(1, 1, 1, 1);
    const struct spot_state_sources none = { .job = 0 };
    struct spot_job_config config = o.config;
    struct spot_buf out = { 0 };

    strcpy(config.kernel, "portable");
    spot_put_u32(&out, 1);
    spot_put_u64(&out, 7);
    spot_put_f64(&out, 10);
    spot_put_u32(&out, 0);
    spot_job_config_put(&out, &config);
    spot_state_sources_put(&out, &none);
    ck_assert_int_eq(spot_link_send(&p->link, SPOT_MSG_WELCOME, 0, 0, out.data, out.n, NULL), 0);
    spot_buf_release(&out);
}

START_TEST(a_worker_that_is_refused_says_why)
{
    struct played p;
    struct fate got;

    play(&p, "refused");
    say(&p, SPOT_MSG_REFUSED, 0, "no \x01room");
    got = end_play(&p);
    ck_assert_int_eq(got.rc, -1);
    ck_assert_int_eq(got.err.code, SPOT_EINFEASIBLE);
    ck_assert_str_eq(got.err.msg, "refused: no ?room");
    ck_assert(!got.has_joined && !got.is_for_serving);
    play(&p, "other");
    say(&p, SPOT_MSG_REFUSED, 1, "serve");
    got = end_play(&p);
    ck_assert_msg(strstr(got.err.msg, "/other is to serve") != NULL, "%s", got.err.msg);
    ck_assert(got.is_for_serving);
}
END_TEST

START_TEST(a_worker_that_is_set_aside_says_so_until_it_is_dismissed)
{
    struct played p;
    struct fate got;

    play(&p, "aside");
    welcome(&p);
    say(&p, SPOT_MSG_ASIDE, 0, "b does not reach it");
    say(&p, SPOT_MSG_ASIDE, 0, "");
    say(&p, SPOT_MSG_DISMISSED, 0, "nor does c");
    got = end_play(&p);
    ck_assert_int_eq(got.rc, -1);
    ck_assert_int_eq(got.err.code, SPOT_ESYS);
    ck_assert_str_eq(got.err.msg, "set aside by the job: nor does c");
    ck_assert_str_eq(got.warned,
                     "set aside by the job: b does not reach itthe job uses this worker again");
    ck_assert(got.has_joined && got.was_dismissed);
}
END_TEST

static const struct {
    uint32_t type;
    const char *text, *message;
} bad_order[] = {
    { SPOT_MSG_REACH, "xxxx", "malformed request to probe members from the coordinator" },
    { SPOT_MSG_PROBE, NULL, "malformed probe from the coordinator" },
    { SPOT_MSG_FORM, "xxxx", "" },
};

START_TEST(a_malformed_order_ends_the_worker)
{
    struct played p;
    struct fate got;

    play(&p, "orders");
    welcome(&p);
    say(&p, bad_order[_i].type, 0, bad_order[_i].text);
    got = end_play(&p);
    ck_assert_int_eq(got.rc, -1);
    ck_assert_msg(strstr(got.err.msg, bad_order[_i].message) != NULL, "%s", got.err.msg);
}
END_TEST

int main(int argc, char **argv)
{
    TCase *tc = tcase_create("core");

    be_worker(argc, argv);
    make_dir();
    tcase_add_test(tc, a_worker_that_does_not_fit_is_refused_in_words_and_the_job_goes_on);
    tcase_add_test(tc, two_workers_of_one_name_have_two);
    tcase_add_test(tc, a_local_worker_that_dies_again_and_again_ends_the_job);
    tcase_add_test(tc, a_wish_to_stop_keeps_the_state_and_says_where);
    tcase_add_test(tc, as_many_as_are_to_come_may_come_at_once_before_they_speak);
    tcase_add_test(tc,
                   clients_that_wait_for_the_end_are_not_in_the_way_of_others_and_are_not_too_many);
    tcase_add_test(tc, a_worker_that_is_refused_says_why);
    tcase_add_test(tc, a_worker_that_is_set_aside_says_so_until_it_is_dismissed);
    tcase_add_loop_test(tc, a_malformed_order_ends_the_worker, 0,
                        sizeof(bad_order) / sizeof(bad_order[0]));
    return run_job_suite("job_rude", tc);
}
