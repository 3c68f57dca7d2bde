/* SPDX-License-Identifier: MIT */
/* Goal: what a metadata service says of this machine is told once when it is new, when its deadline
 * moves and when it is gone, by the clock of the service; a service that is wrong in any way gives
 * no notice, one warning, and is asked on. AWS is the example. */
#define _XOPEN_SOURCE 700
#include <stdlib.h>

#include "notice_script.h"

/* --- AWS --- */

/* Returns whether the question is one of AWS's that needs more of an answer: the token is the
 * newest. */
static bool aws(const struct question *q, FILE *out)
{
    char token[32];

    n_asked++;
    if (is_about(q, "/latest/api/token")) {
        ck_assert_str_eq(q->method, "PUT");
        ck_assert_str_eq(question_header(q, "X-aws-ec2-metadata-token-ttl-seconds"), "21600");
        snprintf(token, sizeof(token), "token-%d==", ++n_put);
        dated(out, 200, "X-Aws-Ec2-Metadata-Token-Ttl-Seconds: 21600\r\n", token);
        return false;
    }
    snprintf(token, sizeof(token), "token-%d==", n_put);
    ck_assert_str_eq(q->method, "GET");
    ck_assert_str_eq(question_header(q, "X-aws-ec2-metadata-token"), token);
    return true;
}

static void action(FILE *out, const char *what, double ahead_s)
{
    char body[128];

    snprintf(body, sizeof(body), "{\"action\": \"%s\", \"time\": \"%s\"}", what,
             rfc3339(there_s(ahead_s)));
    dated(out, 200, "", body);
}

static bool tell_a_story(const struct question *q, FILE *out)
{
    static const double ahead_s[] = { 0, 200, 100, 300 };

    if (!aws(q, out))
        return true;
    if (!stage && ++n_of == 6)
        stage = 1; /* nothing was told of so many answers that say: nothing */
    if (is_about(q, "/spot/instance-action") && stage >= 1 && stage <= 3)
        action(out, "terminate", ahead_s[stage]);
    else if (is_about(q, "/events/recommendations/rebalance") && stage == 5)
        dated(out, 200, "", "{\"noticeTime\": \"2099-01-01T00:00:00Z\"}");
    else
        dated(out, 404, "", "<html>none</html>");
    return true;
}

static void follow_the_story(void)
{
    next_stage();
    if (stage == 6)
        stop();
}

START_TEST(of_aws_a_notice_is_told_when_it_is_new_moves_and_is_gone)
{
    static const char id[] = "spot/instance-action:terminate";

    begin_script(tell_a_story);
    watch((struct spot_notice_options){ .from = "aws", .endpoint = service.url }, follow_the_story);
    end_service();
    ck_assert_int_eq(seen.n_told, 5);
    expect_told(0, SPOT_NOTICE_PREEMPT, SPOT_NOTICE_NEW, id);
    expect_left(0, 200);
    expect_told(1, SPOT_NOTICE_PREEMPT, SPOT_NOTICE_EARLIER, id);
    expect_left(1, 100);
    expect_told(2, SPOT_NOTICE_PREEMPT, SPOT_NOTICE_LATER, id);
    expect_left(2, 300);
    expect_told(3, SPOT_NOTICE_PREEMPT, SPOT_NOTICE_GONE, id);
    ck_assert_int_eq(seen.told[4].kind, SPOT_NOTICE_REBALANCE);
    for (int i = 0; i < 5; i++) {
        ck_assert_str_eq(seen.told[i].source, "aws");
        ck_assert_int_eq(seen.told[i].is_memory_lost, i < 4);
    }
    ck_assert_int_eq(seen.n_warned, 0);
    ck_assert_int_eq(n_put, 1); /* one token is enough */
}
END_TEST

/* The first token ends after 1 s and is renewed after half of it; the second is refused. */
static bool give_bad_tokens(const struct question *q, FILE *out)
{
    char token[32];

    if (is_about(q, "/latest/api/token")) {
        snprintf(token, sizeof(token), "token-%d==", ++n_put);
        dated(out, 200,
              n_put == 1 ? "X-Aws-Ec2-Metadata-Token-Ttl-Seconds: 1\r\n"
                         : "X-Aws-Ec2-Metadata-Token-Ttl-Seconds: 99999999\r\n",
              token);
    } else if (n_put == 2 || n_put == 3) {
        dated(out, 401, "", "<html>401</html>");
    } else if (n_put == 4 && is_about(q, "/spot/instance-action")) {
        action(out, "stop", 100);
    } else {
        dated(out, 404, "", "");
    }
    return true;
}

START_TEST(tokens_are_renewed_before_they_end_and_when_they_are_refused)
{
    begin_script(give_bad_tokens);
    watch((struct spot_notice_options){ .from = "aws", .endpoint = service.url }, stop);
    end_service();
    ck_assert_int_eq(seen.n_told, 1);
    ck_assert_str_eq(seen.told[0].action, "stop");
    ck_assert_int_eq(seen.n_warned, 0);
    ck_assert_int_eq(n_put, 4);
}
END_TEST

/* One question is refused whatever the token is, until that was warned of. */
static bool refuse_one(const struct question *q, FILE *out)
{
    if (!aws(q, out))
        return true;
    if (!is_about(q, "/spot/instance-action")) {
        dated(out, 404, "", "");
    } else if (!stage) {
        n_of++;
        dated(out, 401, "", "");
    } else {
        action(out, "terminate", 100);
    }
    return true;
}

static void warn_then_notice(void)
{
    if (seen.n_told)
        stop();
    else
        next_stage();
}

START_TEST(a_storm_of_refused_tokens_is_warned_of_once_and_survived)
{
    begin_script(refuse_one);
    watch((struct spot_notice_options){ .from = "aws", .endpoint = service.url }, warn_then_notice);
    end_service();
    ck_assert_int_eq(seen.n_warned, 1);
    expect_warned(
        0, "notices of aws: every token is refused (401); retrying, at intervals of up to 30 s");
    ck_assert_int_eq(seen.n_told, 1);
    ck_assert_int_eq(n_of, 3);  /* one question for each token, */
    ck_assert_int_le(n_put, 4); /* and no token without a question */
}
END_TEST

/* --- what is wrong with a service --- */

static const struct {
    const char *reply, *warning;
} wrong[] = {
    { "HTTP/1.1 403 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", "HTTP status 403" },
    { "HTTP/1.1 503 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", "HTTP status 503" },
    { "HTTP/1.1 302 There\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n"
      "Connection: close\r\n\r\n",
      "HTTP status 302" },
    { "HTTP/1.1 200 OK\r\nContent-Length: 15\r\nConnection: close\r\n\r\n<html>\xff\x1b[31m </",
      "instance-action" },
    { "HTTP/1.1 200 OK\r\nContent-Length: 999999\r\nConnection: close\r\n\r\n{", "" },
    { "HTTP/1.1 200 OK\r\nContent-Length: 500\r\nConnection: close\r\n\r\n{\"action\"", "" },
    { "", "" }, /* it hangs up */
};

static int which_wrong;

static bool be_wrong(const struct question *q, FILE *out)
{
    if (!aws(q, out))
        return true;
    if (!is_about(q, "/spot/instance-action"))
        dated(out, 404, "", "");
    else if (!stage)
        fputs(wrong[which_wrong].reply, out);
    else
        action(out, "terminate", 100);
    return true;
}

START_TEST(a_service_that_is_wrong_gives_no_notice_and_one_warning_and_is_asked_on)
{
    which_wrong = _i;
    begin_script(be_wrong);
    watch((struct spot_notice_options){ .from = "aws", .endpoint = service.url }, warn_then_notice);
    end_service();
    ck_assert_int_eq(seen.n_warned, 1);
    expect_warned(0, "notices of aws: ");
    expect_warned(0, wrong[_i].warning);
    expect_warned(0, "; retrying, at intervals of up to 30 s");
    ck_assert_int_eq(seen.n_told, 1);
    ck_assert_int_eq(seen.told[0].kind, SPOT_NOTICE_PREEMPT);
    for (const char *c = seen.warned[0]; *c; c++)
        ck_assert_msg(*c >= ' ' && *c <= '~', "'%s' is not fit for a log", seen.warned[0]);
}
END_TEST

/* One question is never answered. */
static bool stand_still(const struct question *q, FILE *out)
{
    if (is_about(q, "/spot/instance-action"))
        return false;
    if (!aws(q, out))
        return true;
    dated(out, 200, "", "{\"noticeTime\": \"2099-01-01T00:00:00Z\"}");
    return true;
}

START_TEST(what_stands_still_does_not_keep_another_question_from_its_answer)
{
    begin_script(stand_still);
    watch((struct spot_notice_options){ .from = "aws", .endpoint = service.url }, stop);
    end_service();
    ck_assert_int_eq(seen.n_told, 1);
    ck_assert_int_eq(seen.told[0].kind, SPOT_NOTICE_REBALANCE);
    ck_assert_int_eq(seen.n_warned, 0);
}
END_TEST

static bool give_no_token(const struct question *q, FILE *out)
{
    n_asked++;
    ck_assert(is_about(q, "/latest/api/token"));
    dated(out, 200, "", "two words");
    return true;
}

START_TEST(without_a_token_nothing_else_is_asked)
{
    begin_script(give_no_token);
    watch((struct spot_notice_options){ .from = "aws", .endpoint = service.url }, stop);
    end_service();
    expect_warned(0, "notices of aws: no token (HTTP status 200)");
    ck_assert_int_eq(n_asked, 3);
}
END_TEST

/* --- clocks --- */

static const struct {
    double skew_s;
    bool has_date, is_impossible;
} clocks[] = { { 0, true, false },      { -7200, true, false }, { 7200, true, false },
               { 100000, true, false }, { 0, false, false },    { 1e8, true, true } };

static bool tell_by_its_clock(const struct question *q, FILE *out)
{
    char body[128];

    if (!aws(q, out))
        return true;
    if (!is_about(q, "/spot/instance-action")) {
        dated(out, 404, "", "");
        return true;
    }
    /* the Date is of another clock than the deadline, which is of ours */
    snprintf(body, sizeof(body), "{\"action\": \"terminate\", \"time\": \"%s\"}",
             rfc3339(there_s(100) - (skew_s > 1e7 ? skew_s : 0)));
    dated(out, 200, "", body);
    return true;
}

START_TEST(a_clock_that_is_wrong_changes_nothing_of_what_is_left)
{
    begin_script(tell_by_its_clock);
    skew_s = clocks[_i].skew_s;
    has_date = clocks[_i].has_date;
    watch((struct spot_notice_options){ .from = "aws", .endpoint = service.url, .is_once = true },
          NULL);
    end_service();
    ck_assert_int_eq(seen.n_told, 1);
    expect_left(0, 100);
    ck_assert_int_eq(seen.n_warned, clocks[_i].is_impossible);
    if (clocks[_i].is_impossible)
        expect_warned(0, "s after the Date of the answer");
}
END_TEST

static double first_deadline_s;

/* By two seconds with each of 40 answers, then not any more. */
static bool put_off(const struct question *q, FILE *out)
{
    char body[128];

    if (!aws(q, out))
        return true;
    if (!is_about(q, "/spot/instance-action") || n_of > 40) {
        if (n_of > 40)
            stop();
        dated(out, 404, "", "");
        return true;
    }
    snprintf(body, sizeof(body), "{\"action\": \"terminate\", \"time\": \"%s\"}",
             rfc3339(first_deadline_s + 2 * n_of++));
    dated(out, 200, "", body);
    return true;
}

/* Told after 1, 2, 4, ... s more, each counted from what was told before. */
START_TEST(a_deadline_that_moves_away_with_every_answer_is_told_ever_more_seldom)
{
    static const int want[] = { 0, 1, 3, 6, 11, 20, 37 };

    begin_script(put_off);
    first_deadline_s = floor(there_s(1000));
    watch((struct spot_notice_options){ .from = "aws", .endpoint = service.url }, NULL);
    end_service();
    ck_assert_int_ge(seen.n_told, 7);
    for (int i = 0; i < 7; i++) {
        ck_assert_int_eq(seen.told[i].state, i ? SPOT_NOTICE_LATER : SPOT_NOTICE_NEW);
        ck_assert_double_eq_tol(seen.told[i].deadline_s, first_deadline_s + 2 * want[i], 0.01);
    }
    ck_assert(seen.n_told == 7 || seen.told[7].state == SPOT_NOTICE_GONE);
}
END_TEST

/* --- asked once --- */

static bool nothing_new(const struct question *q, FILE *out)
{
    if (aws(q, out))
        dated(out, 404, "", "");
    return true;
}

START_TEST(once_ends_when_all_has_been_answered_or_will_not_be)
{
    struct spot_err err = { 0 };

    begin_script(nothing_new);
    watch((struct spot_notice_options){ .from = "aws", .endpoint = service.url, .is_once = true },
          NULL);
    ck_assert_int_eq(n_asked, 3);
    ck_assert_int_eq(seen.n_told, 0);
    end_service();
    open_watch(
        (struct spot_notice_options){ .from = "aws", .endpoint = service.url, .is_once = true },
        NULL); /* nobody listens there any more */
    ck_assert_int_eq(spot_notice_run(seen.watch, &err), -1);
    ck_assert_int_eq(err.code, SPOT_ESYS);
    ck_assert_msg(strstr(err.msg, "aws: no metadata service answers at http://127.0.0.1") != NULL,
                  "%s", err.msg);
    spot_notice_free(seen.watch);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    setenv("http_proxy", "http://127.0.0.1:1", 1); /* nobody is asked for others */
    tcase_add_test(tc, of_aws_a_notice_is_told_when_it_is_new_moves_and_is_gone);
    tcase_add_test(tc, tokens_are_renewed_before_they_end_and_when_they_are_refused);
    tcase_add_test(tc, a_storm_of_refused_tokens_is_warned_of_once_and_survived);
    tcase_add_loop_test(tc, a_service_that_is_wrong_gives_no_notice_and_one_warning_and_is_asked_on,
                        0, sizeof(wrong) / sizeof(wrong[0]));
    tcase_add_test(tc, what_stands_still_does_not_keep_another_question_from_its_answer);
    tcase_add_test(tc, without_a_token_nothing_else_is_asked);
    tcase_add_loop_test(tc, a_clock_that_is_wrong_changes_nothing_of_what_is_left, 0,
                        sizeof(clocks) / sizeof(clocks[0]));
    tcase_add_test(tc, a_deadline_that_moves_away_with_every_answer_is_told_ever_more_seldom);
    tcase_add_test(tc, once_ends_when_all_has_been_answered_or_will_not_be);
    return run_suite("notice", tc);
}
