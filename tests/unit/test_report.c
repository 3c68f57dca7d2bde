/* SPDX-License-Identifier: MIT */
#define _XOPEN_SOURCE 700
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/buf.h"
#include "model/report.h"
#include "suite.h"

/* Goal: what a report counts is what the log says; logs are told here event by event. */

static char dir[] = "/tmp/spot-report-XXXXXX";

struct story {
    FILE *out;
    char path[64];
    int members; /* now */
};

static struct story begin(void)
{
    struct story s = { .members = 0 };

    snprintf(s.path, sizeof(s.path), "%s/log", dir);
    s.out = fopen(s.path, "w");
    ck_assert_ptr_nonnull(s.out);
    return s;
}

static void tell(struct story *s, double time_s, int epoch, int step, const char *event,
                 const char *fmt, ...) SPOT_PRINTF(6, 7);
static void tell(struct story *s, double time_s, int epoch, int step, const char *event,
                 const char *fmt, ...)
{
    va_list args;

    fprintf(s->out,
            "{\"schema\":\"spot.event/1\",\"event\":\"%s\",\"time_s\":%g,\"epoch\":%d,\"step\":%d",
            event, time_s, epoch, step);
    va_start(args, fmt);
    vfprintf(s->out, fmt, args);
    va_end(args);
    fputs("}\n", s->out);
    s->members -= !strcmp(event, "lost") || !strcmp(event, "left");
}

static void tell_join(struct story *s, double time_s, int epoch, int step, int member, int members)
{
    s->members = members;
    tell(s, time_s, epoch, step, "joined", ",\"member\":%d,\"name\":\"w%d\",\"members\":%d", member,
         member, members);
}

static void tell_form(struct story *s, double time_s, int epoch, int step, int D, int P,
                      int restored_byte)
{
    tell(s, time_s, epoch, step, "migrate",
         ",\"transfers\":1,\"moved_byte\":0,\"restored_byte\":%d", restored_byte);
    tell(s, time_s, epoch, step, "formed",
         ",\"D\":%d,\"P\":%d,\"members\":%d,\"tokens\":\"bytes\",\"place\":[]", D, P, s->members);
}

/* Steps first..last, a second each, that end at time_s + 1, ...; two samples in each. */
static void tell_steps(struct story *s, double time_s, int epoch, int first, int last)
{
    for (int k = first; k <= last; k++) {
        tell(s, time_s, epoch, k, "step", "%s", "");
        time_s += 1;
        tell(s, time_s, epoch, k, "committed",
             ",\"loss\":%d,\"loss_hex\":\"%08x\",\"grad_norm\":1,\"compute_s\":1,"
             "\"samples\":[%d,%d]",
             k, k, 2 * k - 2, 2 * k - 1);
    }
}

static void tell_done(struct story *s, double time_s, int epoch, int step)
{
    tell(s, time_s, epoch, step, "done", ",\"loss\":1,\"state_xxh3_128\":\"%032d\"", 7);
}

static void tell_start(struct story *s, int members)
{
    for (int k = 1; k <= members; k++)
        tell_join(s, 0, 0, 0, k, k);
    tell(s, 0, 1, 0, "quiesce", "%s", "");
    tell_form(s, 0, 1, 0, members, 1, 0);
}

static void load(struct story *s, struct spot_run *run)
{
    struct spot_err err = { 0 };

    ck_assert_int_eq(fclose(s->out), 0);
    ck_assert_msg(!spot_run_load(run, s->path, &err), "%s", err.msg);
}

static void expect_ledger(const struct spot_run *run, int64_t lost, int64_t repeated)
{
    int64_t n_lost, n_repeated;

    spot_run_ledger(run, &n_lost, &n_repeated);
    ck_assert_int_eq(n_lost, lost);
    ck_assert_int_eq(n_repeated, repeated);
}

static void load_quiet_run(struct spot_run *run, int n_step)
{
    struct story s = begin();

    tell_start(&s, 1);
    tell_steps(&s, 0, 1, 1, n_step);
    tell_done(&s, n_step, 1, n_step);
    load(&s, run);
}

START_TEST(a_quiet_run_has_every_step_once_and_no_pause)
{
    struct spot_run run;

    load_quiet_run(&run, 40);
    ck_assert_uint_eq(run.n_commit, 40);
    ck_assert_uint_eq(run.n_pause, 0);
    ck_assert_uint_eq(run.n_outage, 0);
    ck_assert_int_eq(run.n_join, 1);
    ck_assert_int_eq(run.n_kill + run.n_notice + run.n_recomputed + run.n_in_flight, 0);
    ck_assert(run.median_step_s == 1 && run.end_s == 40 && run.member_s == 40);
    ck_assert(run.is_done && run.is_of_bytes && !run.is_cut);
    ck_assert_str_eq(run.state_hex, "00000000000000000000000000000007");
    expect_ledger(&run, 0, 0);
    spot_run_release(&run);
}
END_TEST

START_TEST(a_kill_is_a_pause_and_what_was_undone_is_counted_once)
{
    struct spot_run run, quiet;
    struct story s = begin();
    int64_t n_step;
    double median_s, max_s;

    tell_start(&s, 2);
    tell_steps(&s, 0, 1, 1, 20);
    tell(&s, 20.5, 1, 21, "step", "%s", "");
    tell(&s, 21, 1, 20, "lost", ",\"member\":1,\"name\":\"w1\",\"why\":\"x\"");
    tell(&s, 21, 2, 20, "quiesce", "%s", "");
    tell(&s, 22, 2, 10, "rolled_back", ",\"from\":20,\"to\":10");
    tell_form(&s, 23, 2, 10, 1, 1, 100);
    tell_steps(&s, 23, 2, 11, 40);
    tell_done(&s, 53, 2, 40);
    load(&s, &run);
    ck_assert_int_eq(run.n_kill, 1);
    ck_assert_int_eq(run.n_recomputed, 10);
    ck_assert_int_eq(run.n_in_flight, 1);
    ck_assert_uint_eq(run.n_commit, 50);
    ck_assert_uint_eq(run.n_outage, 1);
    ck_assert(run.outage[0].from_s == 21 && run.outage[0].to_s == 23);
    ck_assert(run.member_s == 2 * 21 + 32);
    ck_assert_uint_eq(spot_run_pauses(&run, SPOT_CAUSE_KILL, true, &median_s, &max_s), 1);
    ck_assert(median_s == 3 && max_s == 3); /* 20 to 24, less a step */
    ck_assert_uint_eq(spot_run_pauses(&run, SPOT_CAUSE_KILL, false, &median_s, &max_s), 0);
    ck_assert_uint_eq(spot_run_pauses(&run, SPOT_CAUSE_JOIN, true, &median_s, &max_s), 0);
    expect_ledger(&run, 0, 0);
    load_quiet_run(&quiet, 40);
    ck_assert_int_eq(spot_run_equal_steps(&run, &quiet, &n_step), 40);
    ck_assert_int_eq(n_step, 40);
    spot_run_release(&run);
    spot_run_release(&quiet);
}
END_TEST

START_TEST(notice_join_and_plan_are_told_apart)
{
    static const enum spot_cause cause[] = { SPOT_CAUSE_NOTICE, SPOT_CAUSE_JOIN, SPOT_CAUSE_PLAN };
    static const char *const name[] = { "notice", "join", "plan" };
    struct spot_run run;
    struct story s = begin();
    double median_s, max_s;

    tell_start(&s, 2);
    tell_steps(&s, 0, 1, 1, 10);
    tell(&s, 10, 1, 10, "notice", ",\"member\":1,\"name\":\"w1\"");
    tell(&s, 10, 2, 10, "quiesce", "%s", "");
    tell_form(&s, 10.5, 2, 10, 1, 1, 0);
    tell(&s, 10.5, 2, 10, "left", ",\"member\":1,\"name\":\"w1\"");
    tell_steps(&s, 11, 2, 11, 20); /* the first commit at 12: a pause of 1 beside the step */
    tell_join(&s, 21, 2, 20, 3, 2);
    tell(&s, 21, 3, 20, "quiesce", "%s", "");
    tell_form(&s, 22, 3, 20, 2, 1, 0);
    tell_steps(&s, 23, 3, 21, 30); /* 21 to 24: 2 */
    tell(&s, 33, 4, 30, "quiesce", "%s", "");
    tell_form(&s, 34, 4, 30, 1, 2, 0);
    tell_steps(&s, 36, 4, 31, 40); /* 33 to 37: 3 */
    load(&s, &run);
    for (int k = 0; k < 3; k++) {
        ck_assert_uint_eq(spot_run_pauses(&run, cause[k], false, &median_s, &max_s), 1);
        ck_assert(median_s == k + 1 && max_s == k + 1);
        ck_assert_str_eq(spot_cause_name(cause[k]), name[k]);
    }
    ck_assert_str_eq(spot_cause_name(SPOT_CAUSE_KILL), "kill");
    ck_assert_uint_eq(run.n_grid, 4);
    ck_assert(run.grid[3].grid.D == 1 && run.grid[3].grid.P == 2 && run.grid[3].time_s == 34);
    ck_assert(!run.is_done);
    ck_assert_int_eq(run.n_notice, 1);
    ck_assert_int_eq(run.n_join, 3);
    spot_run_release(&run);
}
END_TEST

START_TEST(state_that_is_found_again_brings_its_commits_back)
{
    struct spot_run run;
    struct story s = begin();

    tell_start(&s, 1);
    tell_steps(&s, 0, 1, 1, 30);
    tell(&s, 31, 2, 30, "quiesce", "%s", "");
    tell(&s, 31, 2, 10, "rolled_back", ",\"from\":30,\"to\":10");
    tell_form(&s, 31, 2, 10, 1, 1, 1);
    tell_steps(&s, 31, 2, 11, 14);
    tell(&s, 36, 3, 14, "quiesce", "%s", "");
    tell(&s, 36, 3, 30, "restored", ",\"from\":14");
    tell_form(&s, 36, 3, 30, 1, 1, 1);
    tell_steps(&s, 36, 3, 31, 40);
    load(&s, &run);
    ck_assert_int_eq(run.n_recomputed, 4); /* 11 to 14, twice */
    ck_assert_uint_eq(run.n_hole, 0);
    expect_ledger(&run, 0, 0);
    spot_run_release(&run);
}
END_TEST

START_TEST(what_a_restarted_job_does_not_tell_is_a_hole_and_no_loss)
{
    struct spot_run run, quiet;
    struct story s = begin();
    int64_t n_step;

    tell_start(&s, 1);
    tell_steps(&s, 0, 1, 1, 20);
    tell(&s, 29, 1, 29, "resumed", "%s", "");
    tell_join(&s, 29, 1, 29, 1, 1);
    tell(&s, 29, 2, 29, "quiesce", "%s", "");
    tell_form(&s, 30, 2, 29, 1, 1, 1);
    tell_steps(&s, 30, 2, 30, 40);
    fputs("{\"schema\":\"spot.event/1\",\"eve", s.out); /* it runs */
    load(&s, &run);
    ck_assert_uint_eq(run.n_hole, 1);
    ck_assert_int_eq(run.hole[0].from, 20);
    ck_assert_int_eq(run.hole[0].to, 29);
    ck_assert_uint_eq(run.n_resume, 1);
    ck_assert(run.resume_s[0] == 29 && run.is_cut);
    ck_assert(run.outage[0].from_s == 20 && run.outage[0].to_s == 30);
    expect_ledger(&run, 0, 0);
    load_quiet_run(&quiet, 40);
    ck_assert_int_eq(spot_run_equal_steps(&run, &quiet, &n_step), 31);
    ck_assert_int_eq(n_step, 40);
    spot_run_release(&run);
    spot_run_release(&quiet);
}
END_TEST

static const struct {
    const char *line, *want;
} bad[] = {
    { "{\"schema\":\"other/1\",\"event\":\"done\"}", "schema" },
    { "{\"schema\":\"spot.event/1\",\"event\":7,\"time_s\":0,\"epoch\":1,\"step\":3}", "event" },
    { "{\"schema\":\"spot.event/1\",\"event\":\"step\",\"time_s\":-1,\"epoch\":1,\"step\":3}",
      "time_s" },
    { "{\"schema\":\"spot.event/1\",\"event\":\"step\",\"time_s\":3,\"epoch\":1,\"step\":9}",
      "step" },
    { "{\"schema\":\"spot.event/1\",\"event\":\"lost\",\"time_s\":3,\"epoch\":1,\"step\":3,"
      "\"member\":9,\"name\":\"x\",\"why\":\"\"}",
      "member" },
    { "{\"schema\":\"spot.event/1\",\"event\":\"committed\",\"time_s\":3,\"epoch\":1,\"step\":4,"
      "\"loss\":1,\"loss_hex\":\"xyz\",\"samples\":[]}",
      "loss_hex" },
    { "{\"schema\":\"spot.event/1\",\"event\":\"rolled_back\",\"time_s\":3,\"epoch\":2,\"step\":1,"
      "\"from\":9,\"to\":1}",
      "" },
    { "{\"schema\":\"spot.event/1\",\"event\":\"formed\",\"time_s\":3,\"epoch\":2,\"step\":3,"
      "\"D\":0,\"P\":1,\"members\":1}",
      "D" },
    { "[]", "object" },
    { "nonsense", "" },
};

START_TEST(what_is_no_log_is_named_by_its_line)
{
    struct spot_run run;
    struct spot_err err = { 0 };
    struct story s = begin();
    char where[80];

    tell_start(&s, 1); /* three lines */
    tell_steps(&s, 0, 1, 1, 3);
    fprintf(s.out, "%s\n", bad[_i].line);
    tell_steps(&s, 3, 1, 4, 5);
    fclose(s.out);
    ck_assert_int_eq(spot_run_load(&run, s.path, &err), -1);
    ck_assert_int_eq(err.code, SPOT_EDATA);
    snprintf(where, sizeof(where), "%s:11:", s.path);
    ck_assert_msg(!strncmp(err.msg, where, strlen(where)), "%s", err.msg);
    ck_assert_msg(strstr(err.msg, bad[_i].want) != NULL, "%s", err.msg);
}
END_TEST

/* Of a second: requests that came, tokens, choices computed and waiting; gaps between tokens in the
 * third and the last bucket that has any. */
static void tell_second(struct story *s, double time_s, int epoch, int step, int requests,
                        int tokens, int running, int again, int paged)
{
    tell(s, time_s, epoch, step, "token",
         ",\"requests\":%d,\"refused\":1,\"output_tokens\":%d,\"running\":%d,\"queued\":2,"
         "\"replicas\":1,\"interval_s\":1,\"moves\":1,\"again_tokens\":%d,\"paged_tokens\":%d,"
         "\"between\":[0,0,%d,1]",
         requests, tokens, running, again, paged, tokens);
}

static void tell_request(struct story *s, double time_s, int epoch, int step, double came_s,
                         double ttft_s, double e2e_s, const char *more)
{
    tell(s, time_s, epoch, step, "request",
         ",\"id\":\"r\",\"came_s\":%g,\"ttft_s\":%g,\"e2e_s\":%g,\"prompt_tokens\":5,"
         "\"output_tokens\":10,\"choices\":1,%s",
         came_s, ttft_s, e2e_s, more);
}

/* Two replicas, of which one is killed and one hands over; a coordinator that is killed, too. */
static struct story tell_served(void)
{
    static const char one[] = ",\"D\":1,\"P\":1,\"M\":1,\"members\":%d,\"view\":%d";
    struct story s = begin();

    tell(&s, 0, 0, 0, "serving", ",\"model\":\"m\"");
    tell_join(&s, 1, 0, 0, 1, 1);
    tell(&s, 1, 1, 0, "quiesce", "%s", "");
    tell(&s, 2, 1, 0, "formed", one, 1, 0);
    tell(&s, 3, 1, 0, "joined", ",\"member\":2,\"members\":2,\"view\":1");
    tell(&s, 3, 2, 0, "quiesce", ",\"view\":1");
    tell(&s, 4, 2, 0, "formed", one, 2, 1);
    tell_second(&s, 5, 2, 30, 3, 30, 3, 0, 0);
    tell(&s, 6, 2, 0, "lost", ",\"member\":2,\"view\":1,\"why\":\"x\"");
    tell(&s, 6, 3, 0, "quiesce", ",\"view\":1");
    tell(&s, 7, 1, 0, "notice", ",\"member\":1");
    tell_request(&s, 8, 3, 30, 4, 0.5, 4, "\"finish\":\"done\"");
    tell_request(&s, 8, 3, 30, 4, 1.5, 4, "\"finish\":\"done\"");
    tell_second(&s, 9, 3, 50, 1, 20, 1, 40, 30);
    tell(&s, 10, 4, 0, "quiesce", "%s", "");
    tell(&s, 10, 4, 0, "left", ",\"member\":1,\"why\":\"x\"");
    tell_join(&s, 12, 4, 0, 3, 1);
    tell(&s, 12, 5, 0, "quiesce", "%s", "");
    tell(&s, 13, 5, 0, "formed", one, 1, 0);
    tell_request(&s, 14, 5, 53, 9, 9e-3, 5, "\"finish\":\"cancelled\"");
    tell(&s, 20, 5, 0, "serving", ",\"model\":\"m\"");
    tell_join(&s, 21, 5, 0, 1, 1);
    tell(&s, 21, 6, 0, "quiesce", "%s", "");
    tell(&s, 22, 6, 0, "formed", one, 1, 0);
    tell_request(&s, 24, 6, 0, 20, 9, 9, "\"finish\":\"done\",\"resumed\":true");
    tell_second(&s, 24, 6, 5, 0, 5, 0, 0, 0);
    return s;
}

START_TEST(what_a_served_run_did)
{
    struct story s = tell_served();
    struct spot_run run;
    const struct spot_serving *const r = &run.served;

    load(&s, &run);
    ck_assert(run.is_served);
    ck_assert_int_eq(r->n_taken, 4);
    ck_assert_int_eq(r->n_refused, 3);
    ck_assert_int_eq(r->n_finished, 3);
    ck_assert_int_eq(r->n_cancelled, 1);
    ck_assert_int_eq(r->n_token, 58); /* three of a second that was cut short */
    ck_assert_int_eq(r->n_again_token, 40);
    ck_assert_int_eq(r->n_paged_token, 30);
    ck_assert_uint_eq(r->n_notice, 1);
    ck_assert_uint_eq(r->n_kill, 1); /* who was told and left is no kill */
    ck_assert_uint_eq(r->n_join, 4);
    ck_assert_uint_eq(run.n_resume, 1);
    ck_assert_uint_eq(r->between.n, 58);
    ck_assert_double_eq_tol(r->none_s, 3 + (22 - 14), 1e-9);
    ck_assert_double_eq_tol(r->gap_s, 3 + (22 - 14), 1e-9);
    ck_assert_uint_eq(r->n_gap, 2);
    /* from the first token at 4.5 s to 24 s */
    ck_assert_double_eq_tol(spot_serving_tokens_per_s(r), 58 / 19.5, 1e-9);
    /* without the one that was resumed, and the one cancelled */
    ck_assert_double_eq(spot_serving_quantile_s(r, SPOT_SERVING_TTFT, 0, 99, 0.5), 0.5);
    ck_assert_double_eq(spot_serving_quantile_s(r, SPOT_SERVING_TTFT, 0, 99, 0.99), 1.5);
    ck_assert(isnan(spot_serving_quantile_s(r, SPOT_SERVING_TTFT, 8, 99, 0.5)));
    ck_assert(isnan(spot_serving_quantile_s(r, SPOT_SERVING_QUEUE, 0, 99, 0.5)));
    ck_assert_double_eq_tol(run.member_s, 2 + 2 * 3 + 4 + 8 + 3, 1e-9);
    spot_run_release(&run);
}
END_TEST

START_TEST(nothing_and_no_file_are_refused)
{
    struct spot_run run;
    struct spot_err err = { 0 };
    struct story s = begin();

    fclose(s.out);
    ck_assert_int_eq(spot_run_load(&run, s.path, &err), -1);
    ck_assert_msg(strstr(err.msg, "empty") != NULL, "%s", err.msg);
    ck_assert_int_eq(spot_run_load(&run, "/nowhere/log", &err), -1);
    ck_assert_int_eq(err.code, SPOT_ESYS);
}
END_TEST

START_TEST(holes_that_meet_are_no_loss_either)
{
    struct spot_run run;
    struct story s = begin();

    tell_start(&s, 1);
    tell_steps(&s, 0, 1, 1, 20);
    tell(&s, 29, 1, 29, "resumed", "%s", "");
    tell(&s, 31, 1, 35, "resumed", "%s", ""); /* nothing was told in between */
    tell_join(&s, 32, 1, 35, 1, 1);
    tell(&s, 33, 2, 35, "quiesce", "%s", "");
    tell_form(&s, 33, 2, 35, 1, 1, 1);
    tell_steps(&s, 33, 2, 36, 40);
    load(&s, &run);
    ck_assert_uint_eq(run.n_hole, 2);
    expect_ledger(&run, 0, 0);
    run.hole[1].from++; /* one step is in neither */
    expect_ledger(&run, 2 * 15, 0);
    spot_run_release(&run);
}
END_TEST

/* Validations of steps that are undone are gone with them; a learning rate that is declared where
 * another stands takes its place. */
START_TEST(a_rollback_takes_validations_and_a_new_rate_the_place_of_an_old_one)
{
    static const char loss[] = ",\"loss\":2,\"loss_hex\":\"40000000\"";
    static const char rate[] = ",\"after\":%d,\"lr\":%g,\"lr_schedule\":\"%s\"";
    struct spot_run run;
    struct story s = begin();

    tell_start(&s, 1);
    tell_steps(&s, 0, 1, 1, 5);
    tell(&s, 6, 1, 5, "validated", "%s", loss);
    tell_steps(&s, 6, 1, 6, 10);
    tell(&s, 12, 1, 10, "validated", "%s", loss);
    tell(&s, 12, 2, 10, "quiesce", "%s", "");
    tell(&s, 12, 2, 5, "rolled_back", ",\"from\":10,\"to\":5");
    tell(&s, 13, 2, 5, "resumed", "%s", "");
    tell(&s, 13, 2, 5, "lr_changed", rate, 3, 0.5, "cosine");
    tell(&s, 13, 2, 5, "lr_changed", rate, 5, 0.25, "constant");
    tell(&s, 14, 2, 5, "resumed", "%s", "");
    tell(&s, 14, 2, 5, "lr_changed", rate, 4, 0.125, "constant");
    load(&s, &run);
    ck_assert_uint_eq(run.n_val, 1);
    ck_assert(run.val[0].step == 5 && run.val[0].loss == 2);
    ck_assert_uint_eq(run.n_lr_change, 2);
    ck_assert(run.lr_change[0].after == 3 && run.lr_change[0].lr == 0.5);
    ck_assert_str_eq(run.lr_change[0].schedule, "cosine");
    ck_assert(run.lr_change[1].after == 4 && run.lr_change[1].lr == 0.125);
    spot_run_release(&run);
}
END_TEST

START_TEST(steps_that_come_back_without_their_commits_are_a_hole)
{
    struct spot_run run;
    struct story s = begin();

    tell_start(&s, 1);
    tell_steps(&s, 0, 1, 1, 10);
    tell(&s, 10, 1, 14, "resumed", "%s", ""); /* 11 to 14 are told nowhere */
    tell_join(&s, 10, 1, 14, 1, 1);
    tell(&s, 11, 2, 14, "quiesce", "%s", "");
    tell_form(&s, 11, 2, 14, 1, 1, 0);
    tell_steps(&s, 11, 2, 15, 16);
    tell(&s, 13, 3, 16, "quiesce", "%s", "");
    tell(&s, 13, 3, 8, "rolled_back", ",\"from\":16,\"to\":8");
    tell(&s, 14, 4, 8, "quiesce", "%s", "");
    tell(&s, 14, 4, 18, "restored", ",\"from\":8"); /* 9, 10, 15 and 16 were told, 17 and 18 not */
    load(&s, &run);
    ck_assert_uint_eq(run.n_hole, 3);
    ck_assert(run.hole[1].from == 10 && run.hole[1].to == 14);
    ck_assert(run.hole[2].from == 16 && run.hole[2].to == 18);
    ck_assert_int_eq(run.n_recomputed, 0);
    expect_ledger(&run, 0, 0);
    spot_run_release(&run);
}
END_TEST

START_TEST(samples_that_two_standing_steps_read_are_repeated)
{
    struct spot_run run;

    load_quiet_run(&run, 3);
    run.sample[4] = 3; /* step 3 read 4 and 5 */
    expect_ledger(&run, 1, 1);
    spot_run_release(&run);
}
END_TEST

START_TEST(a_command_that_is_hosted_has_members_rounds_and_an_end)
{
    static const char begins[] = ",\"ranks\":1,\"nodes_min\":1,\"nodes_max\":2";
    struct spot_run run;
    struct story s = begin();

    tell(&s, 0, 0, 0, "exec", "%s", begins);
    tell_join(&s, 1, 0, 0, 1, 1);
    tell_join(&s, 2, 0, 0, 2, 2);
    tell(&s, 3, 1, 0, "quiesce", "%s", "");
    tell(&s, 4, 1, 0, "formed", ",\"D\":2,\"P\":1,\"members\":2,\"restart\":0");
    tell(&s, 5, 1, 0, "notice", ",\"member\":1");
    tell(&s, 6, 1, 0, "left", ",\"member\":1");
    tell(&s, 7, 1, 0, "lost", ",\"member\":2");
    tell(&s, 9, 1, 0, "exec", "%s", begins); /* another coordinator */
    tell_join(&s, 10, 1, 0, 1, 1);
    tell(&s, 11, 2, 0, "quiesce", "%s", "");
    tell(&s, 12, 2, 0, "formed", ",\"D\":1,\"P\":1,\"members\":1,\"restart\":1");
    tell(&s, 14, 2, 1, "finished", ",\"started\":2,\"failures\":0");
    load(&s, &run);
    ck_assert(run.is_hosted && !run.is_served && run.is_done);
    ck_assert_int_eq(run.n_join, 3);
    ck_assert_int_eq(run.n_kill, 1);
    ck_assert_int_eq(run.n_notice, 1);
    ck_assert_uint_eq(run.n_resume, 1);
    ck_assert(run.resume_s[0] == 9 && run.end_s == 14);
    ck_assert_double_eq(run.member_s, 1 + 2 * 4 + 1 + 4); /* 1 to 2, 2 to 6, 6 to 7, 10 to 14 */
    spot_run_release(&run);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");
    char command[64];
    int status;

    if (!mkdtemp(dir))
        return 77;
    tcase_add_loop_test(tc, what_is_no_log_is_named_by_its_line, 0, sizeof(bad) / sizeof(bad[0]));
    add_tests(tc);
    status = run_suite("report", tc);
    snprintf(command, sizeof(command), "rm -r '%s'", dir);
    return system(command) ? EXIT_FAILURE : status;
}
