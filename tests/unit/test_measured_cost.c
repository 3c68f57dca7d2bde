/* SPDX-License-Identifier: MIT */
/* Goal: the terms of a change are found again in a log that was written from them, and nothing is
 * made up where the log says nothing. Oracle: logs made from known terms. */
#include "model/measured_cost.h"

#include <math.h>

#include "doc_rig.h"
#include "model/migrate_cost.h"

static const double STEP = 2, LEAVE = 3, JOIN = 7, BYTE = 4e-9, RESTORE = 11;

struct log {
    char text[1 << 16];
    size_t n;
    double now;
    int step, epoch, members, id; /* id: of the member that joined last */
    int member[8];                /* [members] */
};

static void say(struct log *l, const char *event, const char *more)
{
    l->n += (size_t)snprintf(l->text + l->n, sizeof(l->text) - l->n,
                             "{\"schema\":\"spot.event/1\",\"event\":\"%s\",\"time_s\":%.9f,"
                             "\"epoch\":%d,\"step\":%d%s}\n",
                             event, l->now, l->epoch, l->step, more);
}

static void train(struct log *l, int n)
{
    for (int i = 0; i < n; i++) {
        l->step++;
        say(l, "step", "");
        l->now += STEP;
        say(l, "committed", ",\"loss\":1,\"loss_hex\":\"3f800000\",\"samples\":[]");
    }
}

/* A change that takes what the terms say, then the step after it. */
static void change(struct log *l, int members, double moved, double restored, int redone)
{
    const double end = l->now + (members > l->members ? JOIN : LEAVE) + BYTE * moved +
                       (restored > 0 || redone ? RESTORE : 0);
    char more[96];

    for (int n = l->members; n > members; n--) {
        snprintf(more, sizeof(more), ",\"member\":%d", l->member[n - 1]);
        say(l, "lost", more);
    }
    for (int n = l->members; n < members; n++) {
        l->member[n] = ++l->id;
        snprintf(more, sizeof(more), ",\"member\":%d,\"members\":%d", l->id, n + 1);
        say(l, "joined", more);
    }
    l->epoch++;
    say(l, "quiesce", "");
    if (redone) {
        snprintf(more, sizeof(more), ",\"from\":%d,\"to\":%d", l->step, l->step - redone);
        l->step -= redone;
        say(l, "rolled_back", more);
    }
    snprintf(more, sizeof(more), ",\"transfers\":1,\"moved_byte\":%.0f,\"restored_byte\":%.0f",
             moved, restored);
    say(l, "migrate", more);
    l->now = end;
    snprintf(more, sizeof(more), ",\"D\":%d,\"P\":1,\"members\":%d", members, members);
    say(l, "formed", more);
    l->members = members;
    train(l, 1);
}

static int read_log(struct spot_measured_cost *m, const char *text, struct spot_err *err)
{
    FILE *in = fmemopen((void *)(uintptr_t)text, strlen(text), "r");
    const int rc = spot_measured_cost_read(m, in, "log", err);

    fclose(in);
    return rc;
}

static void near(double got, double want)
{
    ck_assert_msg(fabs(got - want) <= 1e-6 * fmax(want, 1e-6), "%.12g, not %.12g", got, want);
}

static struct log *start(void)
{
    struct log *l = calloc(1, sizeof(*l));

    ck_assert_ptr_nonnull(l);
    change(l, 4, 0, 0, 0); /* nothing was committed before: no change */
    train(l, 5);
    return l;
}

START_TEST(finds_the_terms_that_the_log_was_written_from)
{
    struct log *l = start();
    struct spot_measured_cost m;
    struct spot_err err = { 0 };

    change(l, 3, 1e9, 0, 0);
    train(l, 3);
    change(l, 5, 3e9, 0, 0);
    train(l, 4);
    change(l, 4, 2e8, 0, 0);
    train(l, 3);
    change(l, 6, 5e8, 0, 0);
    train(l, 3);
    change(l, 5, 1e8, 7e8, 0); /* a stage came back from disk */
    train(l, 3);
    change(l, 4, 0, 0, 3); /* and so did this, with three steps computed again */
    ck_assert_msg(!read_log(&m, l->text, &err), "%s", err.msg);
    ck_assert_uint_eq(m.n_change, 6);
    ck_assert_uint_eq(m.n_join, 2);
    ck_assert_uint_eq(m.n_restore, 2);
    near(m.step_s, STEP);
    near(m.leave_s, LEAVE);
    near(m.join_s, JOIN);
    near(m.byte_s, BYTE);
    near(m.restore_s, RESTORE + 3 * STEP / 2);
    free(l);
}
END_TEST

START_TEST(a_log_is_read_from_its_file_or_the_file_is_named)
{
    struct log *l = start();
    struct spot_measured_cost m;
    struct spot_err err = { 0 };
    char path[32];

    change(l, 3, 1e9, 0, 0);
    put_file(path, l->text, l->n);
    ck_assert_msg(!spot_measured_cost_load(&m, path, &err), "%s", err.msg);
    unlink(path);
    ck_assert_uint_eq(m.n_change, 1);
    near(m.leave_s + m.byte_s * 1e9, LEAVE + BYTE * 1e9);
    expect_fail(spot_measured_cost_load(&m, "/nowhere/log", &err), &err, SPOT_ESYS,
                "cannot open '/nowhere/log': No such file or directory");
    free(l);
}
END_TEST

START_TEST(takes_the_place_of_every_term_of_the_job)
{
    const struct spot_measured_cost m = {
        .n_change = 3, .n_restore = 1, .leave_s = 3, .join_s = 7, .byte_s = 4e-9, .restore_s = 11
    };
    struct spot_job_doc job;
    struct spot_err err = { 0 };

    ck_assert(!spot_job_doc_load(&job, "examples/jobs/gpt-1.5b.json", &err));
    spot_measured_cost_apply(&m, &job.cost);
    near(spot_migrate_restart_s(&job.cost, 2, 13, SPOT_CHANGE_REMOVE), 3);
    near(spot_migrate_restart_s(&job.cost, 7, 4, SPOT_CHANGE_ADD), 7);
    near(spot_migrate_intra_s(&job.cost, 2, 13), 3);
    near(spot_migrate_p2p_s(&job.cost, 5e8), 2);
    near(spot_migrate_p2p_s(&job.cost, 8e9), 32);
    near(job.cost.restore_s, 11);
    ck_assert_double_gt(job.cost.usd_per_h, 0);
    spot_job_doc_release(&job);
}
END_TEST

START_TEST(a_loss_that_was_never_seen_keeps_the_price_of_the_job)
{
    const struct spot_measured_cost m = { .n_change = 1, .leave_s = 3, .join_s = 3 };
    struct spot_job_doc job;
    struct spot_err err = { 0 };

    ck_assert(!spot_job_doc_load(&job, "examples/jobs/gpt-1.5b.json", &err));
    spot_measured_cost_apply(&m, &job.cost);
    near(job.cost.restore_s, 14);
    near(job.cost.checkpoint_s, 14);
    spot_job_doc_release(&job);
}
END_TEST

/* Three steps are given up, one is computed again, and then memory comes back that has them all. */
START_TEST(steps_that_were_restored_need_not_be_computed_again)
{
    for (int is_back = 0; is_back < 2; is_back++) {
        struct log *l = start();
        struct spot_measured_cost m;
        struct spot_err err = { 0 };

        change(l, 3, 1e9, 0, 0);
        train(l, 3);
        change(l, 2, 0, 0, 3); /* the commit behind it is the one that is computed again */
        l->epoch++;
        say(l, "quiesce", "");
        if (is_back) {
            char more[32];

            snprintf(more, sizeof(more), ",\"from\":%d", l->step);
            l->step += 2;
            say(l, "restored", more);
        }
        say(l, "migrate", ",\"transfers\":0,\"moved_byte\":0,\"restored_byte\":0");
        say(l, "formed", ",\"D\":2,\"P\":1,\"members\":2");
        l->now += LEAVE;
        train(l, 1);
        ck_assert_msg(!read_log(&m, l->text, &err), "%s", err.msg);
        ck_assert_uint_eq(m.n_restore, 1);
        near(m.restore_s, RESTORE + (is_back ? 1 : 3) * STEP);
        free(l);
    }
}
END_TEST

static void refused(const char *text, const char *why)
{
    struct spot_measured_cost m;
    struct spot_err err = { 0 };

    ck_assert_int_eq(read_log(&m, text, &err), -1);
    ck_assert_int_eq(err.code, SPOT_EDATA);
    ck_assert_msg(strstr(err.msg, why), "%s", err.msg);
}

START_TEST(a_log_without_a_change_is_refused)
{
    struct log *l = start();

    refused(l->text, "no change");
    free(l);
}
END_TEST

START_TEST(time_that_goes_back_is_refused_with_its_line)
{
    struct log *l = start();

    l->now -= 1;
    train(l, 0);
    say(l, "quiesce", "");
    refused(l->text, "is before");
    free(l);
}
END_TEST

START_TEST(events_that_cannot_follow_each_other_are_refused_with_their_line)
{
    struct log *l = start();

    train(l, 1);
    l->step++; /* a line is missing */
    train(l, 1);
    refused(l->text, "one after the last");
    free(l);
}
END_TEST

START_TEST(a_line_that_is_no_event_is_refused_with_its_line)
{
    refused("{\"schema\":\"spot.event/1\",\"event\":\"exit\",\"time_s\":0}\n[]\n", "log:2");
    refused("{\"schema\":\"spot.plan/1\"}\n", "spot.event");
    refused("{\"schema\":\"spot.event/1\",\"event\":\"quiesce\"}\n", "time_s");
}
END_TEST

int main(void)
{
    return run_suite("measured_cost", add_tests(tcase_create("core")));
}
