/* SPDX-License-Identifier: MIT */
/* Goal: the record of an event is put before its line is written, and no line is written where that
 * fails; another coordinator goes on from the record with a log of its own, with the same log,
 * which gets the line that is missing, or without any; whatever the members are called, a record
 * has its size. */
#define _XOPEN_SOURCE 700 /* mkstemp */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cluster/journal_keep.h"
#include "suite.h"

#define HASH "0123456789abcdef0123456789abcdef"

static char path[] = "/tmp/spot-keep-XXXXXX";
static struct spot_err err;

/* Where records are put: what the log had then, and whether they are taken. */
static struct place {
    char record[SPOT_JOURNAL_RECORD_MAX + 1];
    size_t n_put, n_log;
    bool refuses;
} place;

static size_t size_of_log(void)
{
    FILE *const in = fopen(path, "r");
    long n;

    if (!in)
        return 0;
    fseek(in, 0, SEEK_END);
    n = ftell(in);
    fclose(in);
    return (size_t)n;
}

static int put(void *user, const char *record, struct spot_err *why)
{
    struct place *const p = user;

    if (p->refuses)
        return spot_err_set(why, SPOT_EPREEMPTED, "another leads");
    ck_assert_uint_le(strlen(record), SPOT_JOURNAL_RECORD_MAX);
    strcpy(p->record, record);
    p->n_put++;
    p->n_log = size_of_log();
    return 0;
}

static const struct spot_journal_keep keep = { put, &place };

static int write_event(struct spot_journal *j, const char *event, uint32_t epoch, int64_t step)
{
    struct spot_jw *jw = spot_journal_begin(j, event, epoch, step);

    if (!jw)
        return spot_journal_end(j, &err);
    if (!strcmp(event, "formed")) {
        for (int i = 0; i < 3; i++)
            spot_jw_int(jw, (const char *[]){ "D", "P", "members" }[i], 1);
        spot_jw_array(jw, "place");
        spot_jw_str(jw, NULL, "w1");
        spot_jw_end(jw);
    }
    if (!strcmp(event, "committed")) {
        spot_jw_real(jw, "loss", 0.5 + (double)step);
        spot_jw_str(jw, "loss_hex", "3f000000");
        spot_jw_ints(jw, "samples", NULL, 0);
    }
    if (!strcmp(event, "validated")) {
        spot_jw_real(jw, "loss", 0.25);
        spot_jw_str(jw, "loss_hex", "3e800000");
    }
    if (!strcmp(event, "done"))
        spot_jw_str(jw, "state_xxh3_128", HASH);
    return spot_journal_end(j, &err);
}

struct seen {
    int64_t step;
    uint32_t epoch;
};

/* A journal in the file, or none, that goes on from what is in the place. */
static struct seen open_kept(struct spot_journal *j, bool with_log, bool with_record)
{
    struct spot_journal_record before;
    struct seen s;

    if (with_record)
        ck_assert_int_eq(spot_journal_record_read(&before, place.record, &err), 0);
    ck_assert_int_eq(
        spot_journal_open(j, with_log ? path : NULL, with_record, &s.step, &s.epoch, &err), 0);
    ck_assert_int_eq(
        spot_journal_keep(j, &keep, with_record ? &before : NULL, &s.step, &s.epoch, &err), 0);
    if (with_record)
        spot_journal_record_release(&before);
    return s;
}

static void begin(struct spot_journal *j)
{
    unlink(path);
    memset(&place, 0, sizeof(place));
    ck_assert_int_eq(open_kept(j, true, false).step, -1);
    ck_assert_uint_eq(place.n_put, 1);
    ck_assert_int_eq(write_event(j, "formed", 1, 0), 0);
    ck_assert_int_eq(write_event(j, "committed", 1, 1), 0);
    ck_assert_int_eq(write_event(j, "validated", 1, 1), 0);
}

START_TEST(a_record_is_put_before_its_line)
{
    struct spot_journal j;
    size_t before;

    begin(&j);
    before = size_of_log();
    ck_assert_int_eq(write_event(&j, "step", 1, 2), 0); /* nobody needs to know of it */
    ck_assert_uint_eq(place.n_put, 4);
    ck_assert_uint_gt(size_of_log(), before);
    before = size_of_log();
    ck_assert_int_eq(write_event(&j, "committed", 1, 2), 0);
    ck_assert_uint_eq(place.n_put, 5);
    ck_assert_uint_eq(place.n_log, before);
    ck_assert_uint_gt(size_of_log(), before);
    before = size_of_log();
    place.refuses = true;
    ck_assert_int_eq(write_event(&j, "committed", 1, 3), -1);
    ck_assert_int_eq(err.code, SPOT_EPREEMPTED);
    ck_assert_int_eq(spot_journal_close(&j, &err), 0);
    ck_assert_uint_eq(size_of_log(), before);
}
END_TEST

START_TEST(another_log_goes_on_from_the_record)
{
    for (int with_log = 0; with_log < 2; with_log++) {
        struct spot_journal j;
        struct seen s;

        begin(&j);
        ck_assert_int_eq(spot_journal_close(&j, &err), 0);
        unlink(path);
        s = open_kept(&j, with_log, true);
        ck_assert_int_eq(s.step, 1);
        ck_assert_uint_eq(s.epoch, 1);
        ck_assert_double_eq(j.loss, 1.5);
        ck_assert_int_eq(j.val_step, 1);
        ck_assert_double_eq(j.val_loss, 0.25);
        ck_assert_uint_eq(j.n_holder, 1);
        ck_assert_str_eq(j.holder[0], "w1");
        ck_assert(j.is_continued);
        ck_assert_int_eq(write_event(&j, "resumed", 1, 1), 0);
        ck_assert_int_eq(write_event(&j, "committed", 2, 2), 0);
        ck_assert_int_eq(spot_journal_close(&j, &err), 0);
        s = open_kept(&j, false, true);
        ck_assert_int_eq(s.step, 2);
        ck_assert_int_eq(spot_journal_close(&j, &err), 0);
    }
}
END_TEST

/* Killed between the two: the line is in the record only. */
START_TEST(the_same_log_gets_the_line_that_is_missing_once)
{
    struct spot_journal j;
    size_t before, after;

    begin(&j);
    ck_assert_int_eq(write_event(&j, "step", 1, 2), 0);
    before = size_of_log();
    ck_assert_int_eq(write_event(&j, "committed", 1, 2), 0);
    after = size_of_log();
    ck_assert_int_eq(spot_journal_close(&j, &err), 0);
    for (int is_cut = 0; is_cut < 2; is_cut++) {
        const struct place kept = place;
        struct seen s;

        if (is_cut)
            ck_assert_int_eq(truncate(path, (off_t)before), 0);
        s = open_kept(&j, true, true);
        ck_assert_int_eq(s.step, 2);
        ck_assert_double_eq(j.loss, 2.5);
        ck_assert_int_eq(spot_journal_close(&j, &err), 0);
        ck_assert_uint_eq(size_of_log(), after);
        place = kept;
    }
}
END_TEST

/* A log of one that led before is behind; one is ahead, because the job went back since. */
START_TEST(what_is_further_counts)
{
    struct spot_journal j;
    struct place kept;
    size_t n;

    begin(&j);
    kept = place;
    ck_assert_int_eq(write_event(&j, "committed", 1, 2), 0);
    ck_assert_int_eq(spot_journal_close(&j, &err), 0);
    place = kept;
    ck_assert_int_eq(open_kept(&j, true, true).step, 2);
    ck_assert_int_eq(write_event(&j, "resumed", 4, 2), 0);
    ck_assert_int_eq(write_event(&j, "committed", 5, 3), 0);
    ck_assert_int_eq(spot_journal_close(&j, &err), 0);
    kept = place; /* of epoch 5, with the line of step 3 */
    begin(&j);
    ck_assert_int_eq(spot_journal_close(&j, &err), 0);
    place = kept;
    n = size_of_log();
    ck_assert_int_eq(open_kept(&j, true, true).step, 3);
    ck_assert_int_eq(spot_journal_close(&j, &err), 0);
    ck_assert_uint_eq(size_of_log(), n); /* it is a line of another log */
}
END_TEST

START_TEST(the_end_is_told_and_forgotten_when_the_job_goes_on)
{
    struct spot_journal_record r;
    struct spot_journal j;

    begin(&j);
    ck_assert_int_eq(write_event(&j, "done", 1, 1), 0);
    ck_assert_int_eq(spot_journal_record_read(&r, place.record, &err), 0);
    ck_assert_str_eq(r.end, SPOT_JOB_DONE);
    ck_assert_str_eq(r.state_hex, HASH);
    ck_assert_int_eq(r.step, 1);
    spot_journal_record_release(&r);
    ck_assert_int_eq(spot_journal_close(&j, &err), 0);
    (void)open_kept(&j, false, true);
    ck_assert(spot_journal_ends_done(&j, 1, HASH));
    ck_assert_int_eq(spot_journal_record_read(&r, place.record, &err), 0);
    ck_assert_str_eq(r.end, "");
    spot_journal_record_release(&r);
    ck_assert_int_eq(spot_journal_keep_end(&j, SPOT_JOB_STOPPED, &err), 0);
    ck_assert_int_eq(spot_journal_record_read(&r, place.record, &err), 0);
    ck_assert_str_eq(r.end, SPOT_JOB_STOPPED);
    spot_journal_record_release(&r);
    ck_assert_int_eq(spot_journal_close(&j, &err), 0);
}
END_TEST

/* 512 members with names of 63 bytes, each of which is escaped; and a line that has no room. */
START_TEST(a_record_has_its_size)
{
    struct spot_journal j;
    struct spot_jw *jw;
    char name[64];

    begin(&j);
    jw = spot_journal_begin(&j, "formed", 2, 1);
    for (int i = 0; i < 3; i++)
        spot_jw_int(jw, (const char *[]){ "D", "P", "members" }[i], 512);
    spot_jw_array(jw, "place");
    for (int i = 0; i < 512; i++) {
        memset(name, '"', 58);
        snprintf(name + 58, sizeof(name) - 58, "%05u", (unsigned)i & 0xffff);
        spot_jw_str(jw, NULL, name);
    }
    spot_jw_end(jw);
    ck_assert_int_eq(spot_journal_end(&j, &err), 0);
    ck_assert_uint_eq(j.n_holder, 512);
    ck_assert_int_eq(spot_journal_close(&j, &err), 0);
    (void)open_kept(&j, false, true);
    ck_assert_uint_gt(j.n_holder, 1);
    ck_assert_uint_lt(j.n_holder, 512);
    ck_assert_str_eq(j.holder[j.n_holder - 1], "?"); /* who never comes is waited for */
    ck_assert_int_eq(spot_journal_close(&j, &err), 0);
}
END_TEST

START_TEST(what_is_no_record_is_refused)
{
    static const char *const bad[] = { "",
                                       "1",
                                       "{}",
                                       "{\"time_s\":0,\"epoch\":1}",
                                       "{\"time_s\":0,\"epoch\":-1,\"step\":0}",
                                       "{\"time_s\":0,\"epoch\":1,\"step\":0,\"end\":7}",
                                       "{\"time_s\":0,\"epoch\":1,\"step\":0,\"holders\":{}}" };
    struct spot_journal_record r;

    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        ck_assert_int_eq(spot_journal_record_read(&r, bad[i], &err), -1);
        ck_assert_int_eq(err.code, SPOT_EDATA);
    }
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");
    int failed;

    close(mkstemp(path));
    add_tests(tc);
    failed = run_suite("journal_keep", tc);
    unlink(path);
    return failed;
}
