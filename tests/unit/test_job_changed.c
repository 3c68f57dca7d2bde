/* SPDX-License-Identifier: MIT */
#define _XOPEN_SOURCE 700
#include <math.h>
#include <stdlib.h>

#include "live_rig.h"
#include "model/report.h"
#include "train/job_note.h"

/* Goal: a learning rate that is changed on the way is part of the job from that step on, wherever
 * it was computed before: the log and the note tell it, and workers that hold more than that forget
 * it. A training that diverges says so; sums that need smaller exponents are asked for again, and
 * change no bit. */

static const struct spot_tuning slower = { .lr = 2e-4,
                                           .weight_decay = 0.05,
                                           .schedule = { SPOT_LR_COSINE, 2, 40, 1e-5 } };

static void expect_done(const struct spot_trainer_options *o, char hex[40])
{
    const struct outcome got = run_job(o);

    ck_assert_msg(!got.rc, "%s", got.err.msg);
    ck_assert_int_eq(got.result.step, o->config.n_step);
    memcpy(hex, got.result.state_hex, 40);
}

/* n_step - 6 steps, then the rest with the change. */
static void change_at(int64_t n_step, char hex[40])
{
    struct spot_trainer_options o = job(1, 1, 1, 1);

    o.state = in_dir("", "oracle");
    o.config.n_step = n_step - 6;
    expect_done(&o, hex);
    o.config.n_step = n_step;
    o.resume = true;
    o.change = &slower;
    expect_done(&o, hex);
}

/* Of the log: the newest step that was committed, and the change. */
static int64_t newest_step(const char *log)
{
    struct spot_err err = { 0 };
    struct spot_run run;
    int64_t step;

    ck_assert_msg(!spot_run_load(&run, log, &err), "%s", err.msg);
    ck_assert_uint_gt(run.n_commit, 0);
    step = run.commit[run.n_commit - 1].step;
    spot_run_release(&run);
    return step;
}

/* The coordinator dies, and the next one changes the rate: workers that outlived it go on with what
 * they hold of the steps before. */
START_TEST(a_rate_that_is_changed_on_the_way_is_that_of_the_steps_from_there_on)
{
    struct spot_trainer_options o = job(0, 2, 1, 1);
    struct running r;
    struct spot_job_note note;
    struct spot_err err = { 0 };
    struct spot_run run;
    struct outcome got;
    char hex[40], same[40];
    pid_t worker[2];
    int64_t step;

    o.state = in_dir("", "changed");
    o.events = in_dir("", "changed.log");
    begin_running(&r, &o, "changed.socket");
    for (uint64_t i = 0; i < 2; i++)
        worker[i] = start_worker(&r, i);
    wait_for(&r, "\"loss\": "); /* a step is done */
    kill(r.pid, SIGKILL);
    waitpid(r.pid, NULL, 0);
    step = newest_step(o.events);
    o.config.n_step = step + 6;
    o.resume = true;
    o.change = &slower;
    r.pid = start_job(&o, r.end[1]);
    got = end_job(r.pid, r.end);
    ck_assert_msg(!got.rc, "%s", got.err.msg);
    for (int i = 0; i < 2; i++)
        waitpid(worker[i], NULL, 0);
    ck_assert_msg(!spot_run_load(&run, o.events, &err), "%s", err.msg);
    ck_assert_uint_eq(run.n_lr_change, 1);
    ck_assert_double_eq(run.lr_change[0].lr, slower.lr);
    ck_assert_str_eq(run.lr_change[0].schedule, "cosine");
    change_at(run.lr_change[0].after + 6, hex);
    if (run.lr_change[0].after == step)
        ck_assert_str_eq(got.result.state_hex, hex);
    spot_run_release(&run);
    /* the note has it, for who goes on */
    ck_assert_int_eq(spot_job_note_load(&note, o.state, &err), 1);
    ck_assert_uint_eq(note.n_change, 1);
    ck_assert(note.change[0].schedule.kind == SPOT_LR_COSINE);
    ck_assert_double_eq(note.change[0].weight_decay, slower.weight_decay);
    o = job(1, 1, 1, 1);
    o.state = in_dir("", "changed");
    o.resume = true;
    o.config.n_step = step + 6;
    o.config.change[0] = note.change[0];
    o.config.n_change = 1;
    expect_done(&o, same); /* nothing is left to do */
    ck_assert_str_eq(same, got.result.state_hex);
    spot_job_note_release(&note);
}
END_TEST

START_TEST(a_change_that_cannot_be_is_refused)
{
    struct spot_trainer_options o = job(1, 1, 1, 1);
    const struct spot_tuning negative = { .lr = -1 };
    struct outcome got;
    char hex[40];

    o.state = in_dir("", "refused");
    o.config.n_step = 2;
    expect_done(&o, hex);
    o.config.n_step = 4;
    o.resume = true;
    o.change = &negative;
    got = run_job(&o);
    ck_assert_int_eq(got.rc, -1);
    ck_assert_int_eq(got.err.code, SPOT_EUSAGE);
}
END_TEST

/* --- what the job is, as a text --- */

static const struct {
    const char *from, *to, *message; /* "": the note is sound */
} wrong[] = {
    { "spot.training/1", "spot.training/2", "spot.training" },
    { "\"cosine\"", "\"sine\"", "expected a schedule, got 'sine'" },
    { "\"constant\"", "\"sine\"", "expected a schedule, got 'sine'" },
    { "\"data\": [", "\"data\": [7,", "expected paths" },
    { "\"val_data\": [", "\"val_data\": [7,", "expected paths" },
    { "\"after\"", "\"before\"", "after" },
    { "\"changes\": [", "\"changes\": [1,", "/changes/0" },
    { "\"layers\": 2", "\"layers\": \"two\"", "layers" },
    { "}", "", "" },
};

/* The first occurrence replaced; freed by the caller. */
static char *replaced(const char *text, const char *from, const char *to)
{
    const char *const at = strstr(text, from);
    char *const copy = calloc(1, strlen(text) + strlen(to) + 1);

    ck_assert_msg(at != NULL, "no '%s' in: %s", from, text);
    memcpy(copy, text, (size_t)(at - text));
    strcat(copy, to);
    strcat(copy, at + strlen(from));
    return copy;
}

START_TEST(a_note_that_is_none_is_refused_in_words)
{
    struct spot_trainer_options o = job(1, 1, 1, 1);
    struct spot_job_note note;
    struct spot_err err = { 0 };
    char *text, *bad;

    o.val_data = data;
    o.n_val_data = 1;
    o.val_every = o.val_batches = 1;
    o.config.change[0] = slower;
    o.config.change[0].after = 5;
    o.config.n_change = 1;
    text = spot_job_note_text(&o.config, &o, &err);
    ck_assert_msg(text != NULL, "%s", err.msg);
    ck_assert_msg(!spot_job_note_parse(&note, text, strlen(text), "n", &err), "%s", err.msg);
    ck_assert_int_eq(note.layers, 2);
    ck_assert_int_eq(note.change[0].after, 5);
    ck_assert_double_eq(note.change[0].lr, slower.lr);
    ck_assert_int_eq(note.change[0].schedule.decay_steps, slower.schedule.decay_steps);
    spot_job_note_release(&note);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        bad = replaced(text, wrong[i].from, wrong[i].to);
        ck_assert_msg(spot_job_note_parse(&note, bad, strlen(bad), "n", &err) == -1, "%s", bad);
        ck_assert_int_eq(err.code, SPOT_EDATA);
        ck_assert_msg(strstr(err.msg, wrong[i].message) != NULL, "%zu: %s", i, err.msg);
        free(bad);
    }
    free(text);
}
END_TEST

/* --- numbers --- */

START_TEST(a_training_that_diverges_says_so)
{
    struct spot_trainer_options o = job(1, 1, 1, 1);
    struct outcome got;

    o.config.adamw.lr = 1e30;
    o.config.clip_norm = 0;
    got = run_job(&o);
    ck_assert_int_eq(got.rc, -1);
    ck_assert_int_eq(got.err.code, SPOT_EINFEASIBLE);
    ck_assert_msg(strstr(got.err.msg, "the training diverged: ") != NULL, "%s", got.err.msg);
    o.val_data = data;
    o.n_val_data = 1;
    o.val_every = o.val_batches = 1;
    got = run_job(&o);
    ck_assert_int_eq(got.rc, -1);
    ck_assert_msg(strstr(got.err.msg, "the training diverged: the loss of the validation data is "
                                      "not finite after step ") != NULL,
                  "%s", got.err.msg);
    o.val_batches = 1000;
    got = run_job(&o);
    ck_assert_int_eq(got.err.code, SPOT_EDATA);
    ck_assert_msg(strstr(got.err.msg, "sequences are fewer than --val-batches 1000 of 4") != NULL,
                  "%s", got.err.msg);
}
END_TEST

/* A rate that throws the weights about: gradients outgrow the exponents of their sums. */
START_TEST(sums_that_need_smaller_exponents_change_no_bit)
{
    struct spot_trainer_options o = job(1, 1, 1, 1);
    char hex[40], same[40];

    o.config.adamw.lr = 30;
    o.config.n_step = 40;
    expect_done(&o, hex);
    o = job(4, 2, 2, 1);
    o.config.adamw.lr = 30;
    o.config.n_step = 40;
    expect_done(&o, same);
    ck_assert_str_eq(same, hex);
}
END_TEST

int main(int argc, char **argv)
{
    TCase *tc = tcase_create("core");

    be_worker(argc, argv);
    make_dir();
    tcase_add_test(tc, a_rate_that_is_changed_on_the_way_is_that_of_the_steps_from_there_on);
    tcase_add_test(tc, a_change_that_cannot_be_is_refused);
    tcase_add_test(tc, a_note_that_is_none_is_refused_in_words);
    tcase_add_test(tc, a_training_that_diverges_says_so);
    tcase_add_test(tc, sums_that_need_smaller_exponents_change_no_bit);
    return run_job_suite("job_changed", tc);
}
