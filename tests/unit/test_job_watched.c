/* SPDX-License-Identifier: MIT */
#define _XOPEN_SOURCE 700
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "comm/endpoint.h"
#include "common/json.h"
#include "live_rig.h"
#include "model/report.h"
#include "train/saved_model.h"

/* Goal: what a job tells of itself while it runs - metrics, status, history, its weights - is what
 * its log counts and what its state is; and what cannot be told is refused in words. */

enum { ANSWER_MAX = 1 << 18 };

static char page[ANSWER_MAX];

static int dial(const char *address)
{
    const struct timeval limit = { .tv_sec = 60 };
    const int fd = connect_soon(address);

    ck_assert_int_eq(fcntl(fd, F_SETFL, 0), 0); /* a read may wait */
    ck_assert_int_eq(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)), 0);
    return fd;
}

/* The body of a page of the job's, over its Unix socket. */
static const char *get(const char *address, const char *path)
{
    const int fd = dial(address);
    char question[128];
    const char *body;
    size_t n = 0;
    ssize_t some;

    snprintf(question, sizeof(question), "GET %s HTTP/1.0\r\nHost: j\r\n\r\n", path);
    ck_assert_int_gt(send(fd, question, strlen(question), MSG_NOSIGNAL), 0);
    while ((some = read(fd, page + n, sizeof(page) - 1 - n)) > 0)
        n += (size_t)some;
    close(fd);
    page[n] = '\0';
    body = strstr(page, "\r\n\r\n");
    ck_assert_msg(body != NULL, "'%s'", page);
    return body + 4;
}

/* Of a sample in the text of metrics; -1: there is none. */
static double value(const char *metrics, const char *sample)
{
    const size_t n = strlen(sample);

    for (const char *line = metrics; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (!strncmp(line, sample, n) && line[n] == ' ')
            return strtod(line + n, NULL);
    }
    return -1;
}

static void await_value(const char *address, const char *sample, double at_least)
{
    double is = -1;

    for (int k = 0; k < 6000 && is < at_least; k++) {
        is = value(get(address, "/metrics"), sample);
        if (is < at_least)
            spot_clock_sleep(0.01);
    }
    ck_assert_msg(is >= at_least, "%s is %g, not %g", sample, is, at_least);
}

/* The log is the oracle of what was counted while it was written. */
static void compare_with_log(const char *metrics, const char *log)
{
    static const char *const cause[] = { "notice", "kill", "join", "plan" };
    struct spot_err err = { 0 };
    struct spot_run run;
    char sample[64];
    double median_s, max_s;

    ck_assert_msg(!spot_run_load(&run, log, &err), "%s", err.msg);
    ck_assert_double_eq(value(metrics, "spot_preemptions_total{kind=\"notice\"}"),
                        (double)run.n_notice);
    ck_assert_double_eq(value(metrics, "spot_preemptions_total{kind=\"kill\"}"),
                        (double)run.n_kill);
    ck_assert_double_eq(value(metrics, "spot_joins_total"), (double)run.n_join);
    ck_assert_double_eq(value(metrics, "spot_train_steps_total"), (double)run.n_commit);
    ck_assert_double_eq(value(metrics, "spot_train_tokens_total"), (double)run.n_commit * 4 * 8);
    ck_assert_double_eq(value(metrics, "spot_train_step"),
                        (double)run.commit[run.n_commit - 1].step);
    ck_assert_double_eq_tol(value(metrics, "spot_train_loss"), run.commit[run.n_commit - 1].loss,
                            1e-6);
    ck_assert_double_eq_tol(value(metrics, "spot_train_validation_loss"),
                            run.val[run.n_val - 1].loss, 1e-6);
    for (int i = 0; i < SPOT_CAUSES; i++) {
        snprintf(sample, sizeof(sample), "spot_train_pause_seconds_count{cause=\"%s\"}", cause[i]);
        ck_assert_msg(
            value(metrics, sample) ==
                (double)(spot_run_pauses(&run, (enum spot_cause)i, false, &median_s, &max_s) +
                         spot_run_pauses(&run, (enum spot_cause)i, true, &median_s, &max_s)),
            "%s is %g", sample, value(metrics, sample));
    }
    spot_run_release(&run);
}

static void check_history(const char *text)
{
    struct spot_json_doc doc;
    struct spot_err err = { 0 };
    const struct spot_json_value *points, *pauses;

    ck_assert_msg(!spot_json_parse(&doc, text, strlen(text), "history", &err), "%s", err.msg);
    points = spot_json_get(doc.root, "points");
    pauses = spot_json_get(doc.root, "pauses");
    ck_assert_uint_gt(spot_json_array_size(points), 5);
    ck_assert_uint_ge(spot_json_array_size(pauses), 2);
    ck_assert_ptr_nonnull(strstr(text, "\"kill\""));
    spot_json_release(&doc);
}

START_TEST(metrics_are_what_the_log_counts)
{
    struct spot_trainer_options o = job(0, 2, 1, 1);
    struct running r;
    pid_t worker[4];

    o.state = in_dir("", "watched");
    o.events = in_dir("", "watched.log");
    o.metrics = in_dir("unix:", "m");
    o.val_data = data;
    o.n_val_data = 1;
    o.val_every = 5;
    o.val_batches = 1;
    begin_running(&r, &o, "watched.socket");
    for (uint64_t i = 0; i < 3; i++)
        worker[i] = start_worker(&r, i);
    await_value(o.metrics, "spot_train_step", 5);
    end_worker(worker[0], SIGKILL);
    await_value(o.metrics, "spot_preemptions_total{kind=\"kill\"}", 1);
    end_worker(worker[1], SIGTERM);
    worker[3] = start_worker(&r, 3);
    await_value(o.metrics, "spot_preemptions_total{kind=\"notice\"}", 1);
    await_value(o.metrics, "spot_joins_total", 4);
    await_value(o.metrics, "spot_members{role=\"active\"}", 2);
    await_value(o.metrics, "spot_train_grid{axis=\"D\"}", 2);
    await_value(o.metrics, "spot_train_durable_step", 1);
    ck_assert_double_eq(value(page, "spot_train_target_step"), (double)o.config.n_step);
    ck_assert_double_eq(value(page, "spot_suspended"), 0);
    ck_assert_ptr_nonnull(strstr(get(o.metrics, "/status.json"), "\"val_loss\":"));
    get(o.metrics, "/history.json"); /* from now on it is the newest */
    for (int k = 0; k < 6000 && !strstr(get(o.metrics, "/history.json"), "\"kill\""); k++)
        spot_clock_sleep(0.01);
    check_history(get(o.metrics, "/history.json"));
    end_worker(worker[2], SIGKILL); /* without members no step is committed any more */
    end_worker(worker[3], SIGKILL);
    await_value(o.metrics, "spot_preemptions_total{kind=\"kill\"}", 3);
    get(o.metrics, "/metrics");
    compare_with_log(page, o.events);
    ck_assert_double_gt(value(page, "spot_train_moved_bytes_total{from=\"member\"}"), 0);
    ck_assert_double_eq(value(page, "spot_train_rollbacks_total"), 0); /* others held everything */
    worker[2] = start_worker(&r, 4);
    await_value(o.metrics, "spot_members{role=\"active\"}", 1);
    stop_running(&r);
    waitpid(worker[2], NULL, 0);
    expect_same_bits(&o);
}
END_TEST

START_TEST(metrics_are_for_this_host)
{
    struct spot_trainer_options o = job(1, 1, 1, 1);
    struct outcome got;

    o.metrics = "192.0.2.1:80";
    got = run_job(&o);
    ck_assert_int_eq(got.rc, -1);
    ck_assert_msg(strstr(got.err.msg, "192.0.2.1:80") != NULL, "%s", got.err.msg);
}
END_TEST

/* Going back to the disk is counted: the only holder of a stage is killed, who has no buddy. */
START_TEST(steps_that_are_undone_are_told_and_counted)
{
    struct spot_trainer_options o = job(0, 1, 2, 1);
    struct running r;
    pid_t worker[3];
    struct outcome got;
    int status;

    o.state = in_dir("", "undone");
    o.events = in_dir("", "undone.log");
    o.metrics = in_dir("unix:", "u");
    o.no_buddies = true;
    begin_running(&r, &o, "undone.socket");
    worker[0] = start_worker(&r, 0);
    worker[1] = start_worker(&r, 1);
    await_value(o.metrics, "spot_train_durable_step", 1);
    end_worker(worker[0], SIGKILL);
    worker[2] = start_worker(&r, 2);
    await_value(o.metrics, "spot_train_rollbacks_total", 1);
    await_value(o.metrics, "spot_train_steps_undone_total", 1);
    await_value(o.metrics, "spot_train_moved_bytes_total{from=\"store\"}", 1);
    got = stop_running(&r);
    ck_assert_msg(strstr(got.warned, "the last copy of a stage was lost: rolled back from step ") !=
                      NULL,
                  "%s", got.warned);
    waitpid(worker[1], &status, 0);
    waitpid(worker[2], &status, 0);
    expect_same_bits(&o);
}
END_TEST

/* --- the weights of a job that runs --- */

START_TEST(the_weights_of_a_running_job_are_those_of_its_state)
{
    struct spot_trainer_options o = job(1, 1, 1, 1);
    const struct spot_saved_place place = { .dir = in_dir("", "given-again") };
    struct spot_saved_model fetched, saved;
    struct spot_err err = { 0 };
    struct running r;

    o.state = in_dir("", "given");
    begin_running(&r, &o, "given.socket");
    ck_assert_msg(!spot_saved_model_fetch(&fetched, r.join, NULL, 20, 20, &err), "%s", err.msg);
    ck_assert_int_ge(fetched.step, 1);
    ck_assert_str_eq(fetched.tokens, "bytes");
    stop_running(&r);
    /* another job of as many steps ends with the same weights */
    o = job(1, 1, 1, 1);
    o.config.n_step = fetched.step;
    o.state = place.dir;
    ck_assert_int_eq(run_job(&o).rc, 0);
    ck_assert_msg(!spot_saved_model_read(&saved, &place, SPOT_NEWEST_STEP, NULL, &err), "%s",
                  err.msg);
    ck_assert_int_eq(saved.step, fetched.step);
    ck_assert_int_eq(saved.n_bundle, fetched.n_bundle);
    for (int b = 0; b < saved.n_bundle; b++) {
        ck_assert_uint_eq(saved.bundle[b]->arena.n_elem, fetched.bundle[b]->arena.n_elem);
        ck_assert_mem_eq(saved.bundle[b]->plane[SPOT_PLANE_MASTER],
                         fetched.bundle[b]->plane[SPOT_PLANE_MASTER],
                         saved.bundle[b]->arena.n_elem * sizeof(float));
    }
    spot_saved_model_release(&saved);
    spot_saved_model_release(&fetched);
}
END_TEST

static int give_bundle(const struct running *r, int64_t step, uint32_t bundle, char *answer,
                       size_t n)
{
    struct spot_buf question = { 0 }, got = { 0 };
    struct spot_err err = { 0 };
    int rc;

    spot_put_i64(&question, step);
    spot_put_u32(&question, bundle);
    rc = spot_client_ask(r->join, NULL, 20, (enum spot_message)SPOT_MSG_FETCH, question.data,
                         question.n, &got, &err);
    snprintf(answer, n, "%.*s", (int)got.n, (const char *)got.data);
    spot_buf_release(&question);
    spot_buf_release(&got);
    return rc;
}

START_TEST(a_bundle_that_is_not_there_is_refused_in_words)
{
    struct spot_trainer_options o = job(1, 1, 1, 1);
    struct running r;
    char answer[512];

    o.state = in_dir("", "asked");
    begin_running(&r, &o, "asked.socket");
    wait_for(&r, "\"durable_step\": ");
    ck_assert_int_gt(give_bundle(&r, 1, 99, answer, sizeof(answer)), 0);
    ck_assert_ptr_nonnull(strstr(answer, "there is no such bundle"));
    ck_assert_int_gt(give_bundle(&r, -1, 0, answer, sizeof(answer)), 0);
    ck_assert_ptr_nonnull(strstr(answer, "there is no such bundle"));
    ck_assert_int_gt(give_bundle(&r, 1000000, 0, answer, sizeof(answer)), 0);
    ck_assert_ptr_nonnull(strstr(answer, "is not there"));
    ck_assert_int_gt(ask(&r, (enum spot_message)SPOT_MSG_FETCH, "short", answer, sizeof(answer)),
                     0);
    ck_assert_ptr_nonnull(strstr(answer, "unknown request to this job"));
    stop_running(&r);
}
END_TEST

int main(int argc, char **argv)
{
    TCase *tc = tcase_create("core");

    be_worker(argc, argv);
    make_dir();
    tcase_add_test(tc, metrics_are_what_the_log_counts);
    tcase_add_test(tc, metrics_are_for_this_host);
    tcase_add_test(tc, steps_that_are_undone_are_told_and_counted);
    tcase_add_test(tc, the_weights_of_a_running_job_are_those_of_its_state);
    tcase_add_test(tc, a_bundle_that_is_not_there_is_refused_in_words);
    return run_job_suite("job_watched", tc);
}
