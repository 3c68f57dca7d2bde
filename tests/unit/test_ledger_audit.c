/* SPDX-License-Identifier: MIT */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/buf.h"
#include "common/rng.h"
#include "host/ledger_audit.h"
#include "suite.h"

/* Goal: a log of commits, losses and other coordinators is counted as a list of steps says, with
 * samples added up step by step; what is wrong in it is found, and a malformed line named. */

static struct spot_buf text;

static void say(const char *format, ...) SPOT_PRINTF(1, 2);

static void say(const char *format, ...)
{
    char line[512];
    va_list args;

    va_start(args, format);
    vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    spot_buf_add(&text, line, strlen(line));
}

static void say_plan(const struct spot_ledger_plan *p)
{
    say("{\"schema\":\"spot.event/1\",\"event\":\"ledger\",\"time_s\":1,\"epoch\":1,\"step\":0,"
        "\"dataset_size\":%lld,\"global_batch\":%lld,\"seed\":%lld,\"rest\":\"%s\","
        "\"order\":\"shuffled\"}\n",
        (long long)p->n_sample, (long long)p->batch, (long long)p->seed,
        spot_ledger_rest_name(p->rest));
}

static void say_event(const char *event, int64_t step, const char *more)
{
    say("{\"schema\":\"spot.event/1\",\"event\":\"%s\",\"time_s\":1,\"epoch\":1,\"step\":%lld%s}\n",
        event, (long long)step, more);
}

static void say_restored(int64_t from, int64_t step)
{
    char more[64];

    snprintf(more, sizeof(more), ",\"from\":%lld,\"restart\":1", (long long)from);
    say_event("restored", step, more);
}

static void say_rolled_back(int64_t from, int64_t to)
{
    char more[64];

    snprintf(more, sizeof(more), ",\"from\":%lld,\"to\":%lld", (long long)from, (long long)to);
    say_event("rolled_back", to, more);
}

static int audit(struct spot_ledger_audit *a, struct spot_err *err)
{
    FILE *const in = fmemopen(text.data, text.n, "r");
    const int rc = spot_ledger_audit(in, "log", a, err);

    fclose(in);
    text.n = 0;
    return rc;
}

static int64_t added_up(const struct spot_ledger_plan *p, int64_t from, int64_t to)
{
    int64_t n = 0;

    for (int64_t step = from; step < to; step++) {
        struct spot_ledger_share share;

        ck_assert_int_eq(spot_ledger_plan_share(p, step, 0, 1, &share, NULL), 0);
        n += share.n;
    }
    return n;
}

START_TEST(a_job_that_went_well_has_lost_and_repeated_nothing)
{
    for (uint64_t seed = 0; seed < 500; seed++) {
        struct spot_ledger_plan p = { .seed = (int64_t)seed };
        int64_t at = 0, again = 0, commit[64], n_commit = 0;
        struct spot_ledger_audit a;
        struct spot_rng rng;

        spot_rng_init(&rng, seed, 2);
        p.n_sample = 1 + (int64_t)spot_rng_below(&rng, 40);
        p.batch = 1 + (int64_t)spot_rng_below(&rng, (uint64_t)p.n_sample);
        p.rest = (enum spot_ledger_rest)spot_rng_below(&rng, SPOT_LEDGER_RESTS);
        say_plan(&p);
        for (int i = 0; i < 60; i++) {
            if (spot_rng_below(&rng, 4)) {
                at += 1 + (int64_t)spot_rng_below(&rng, 5);
                commit[n_commit++] = at;
                say_event("committed", at, ",\"restart\":0,\"nodes\":2,\"byte\":5");
            } else if (n_commit) { /* the newest, or one before it if somebody took it along */
                const int64_t from = at;

                n_commit -= (int64_t)spot_rng_below(&rng, n_commit > 1 ? 2 : 1);
                at = commit[n_commit - 1];
                if (at != from)
                    say_rolled_back(from, at);
                again += from - at;
                say_restored(at, at);
                say_event("formed", i, ",\"D\":2,\"P\":1,\"members\":2");
            }
        }
        ck_assert_int_eq(audit(&a, NULL), 0);
        ck_assert(a.has_plan && spot_ledger_plan_equal(&a.plan, &p));
        ck_assert_int_eq(a.steps, at);
        ck_assert_int_eq(a.rolled_back, again);
        ck_assert_int_eq(a.lost + a.repeated, 0);
        ck_assert_int_eq(a.samples, added_up(&p, 0, at));
    }
}
END_TEST

static const struct spot_ledger_plan usual = { .n_sample = 10, .batch = 4 };

START_TEST(a_round_that_begins_beyond_what_was_committed_has_lost_steps)
{
    struct spot_ledger_audit a;

    say_plan(&usual);
    say_event("committed", 10, "");
    say_restored(10, 13);
    say_event("committed", 20, "");
    ck_assert_int_eq(audit(&a, NULL), 0);
    ck_assert_int_eq(a.lost, 3);
    ck_assert_int_eq(a.lost_samples, 12);
    ck_assert_int_eq(a.repeated, 0);
}
END_TEST

START_TEST(a_commit_below_where_its_round_began_has_steps_twice)
{
    struct spot_ledger_audit a;

    say_plan(&usual);
    say_event("committed", 10, "");
    say_event("committed", 8, "");
    say_event("committed", 20, "");
    ck_assert_int_eq(audit(&a, NULL), 0);
    ck_assert_int_eq(a.repeated, 2);
    ck_assert_int_eq(a.repeated_samples, 8);
    ck_assert_int_eq(a.lost, 0);
}
END_TEST

START_TEST(the_log_of_a_second_coordinator_begins_where_the_first_one_ended)
{
    struct spot_ledger_audit a;

    say_event("restored", 60, ",\"restart\":3,\"nodes\":2");
    say_plan(&usual);
    say_event("committed", 65, "");
    ck_assert_int_eq(audit(&a, NULL), 0);
    ck_assert_int_eq(a.first, 60);
    ck_assert_int_eq(a.samples, 20);
    ck_assert_int_eq(a.lost, 0);
}
END_TEST

START_TEST(what_is_wrong_is_named)
{
    struct spot_ledger_plan other = usual;
    struct spot_ledger_audit a;
    struct spot_err err;

    other.batch = 5;
    say_plan(&usual);
    say_plan(&usual);
    say_plan(&other);
    ck_assert_int_eq(audit(&a, &err), -1);
    ck_assert_str_eq(err.msg, "log:3:1: /: another plan of samples than above");
    say_event("ledger", 1, "");
    ck_assert_int_eq(audit(&a, &err), -1);
    ck_assert_str_eq(err.msg, "log:1:1: /: it has no plan of samples");
    say_event("ledger", 1, ",\"dataset_size\":5,\"global_batch\":9");
    ck_assert_int_eq(audit(&a, &err), -1);
    ck_assert_str_eq(err.msg,
                     "log:1:1: /: global_batch: expected 1 to 5, the samples of the set, got 9");
    say("{\"event\":\n");
    ck_assert_int_eq(audit(&a, &err), -1);
    ck_assert_int_eq(err.code, SPOT_EDATA);
}
END_TEST

int main(void)
{
    TCase *const tc = tcase_create("ledger_audit");
    int rc;

    add_tests(tc);
    rc = run_suite("ledger_audit", tc);
    spot_buf_release(&text);
    return rc;
}
