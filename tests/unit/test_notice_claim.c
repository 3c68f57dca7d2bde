/* SPDX-License-Identifier: MIT */
/* Goal: what AWS, GCP, Azure and commands say is read as they mean it; what is none of it is no
 * notice, and what a stranger wrote is fit for a log. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cluster/notice/notice_claim.h"
#include "common/utf8.h"
#include "suite.h"

static struct spot_notice_claim claim[SPOT_NOTICE_CLAIMS_MAX];
static struct spot_err err;

static int with(spot_notice_read *read, const char *text, const char *name)
{
    return read(text, strlen(text), name, claim, &err);
}

static const struct action_case {
    const char *text;
    int n;
    const char *action;
    double deadline_s;
} actions[] = {
    { "{\"action\": \"terminate\", \"time\": \"2026-03-01T06:12:09Z\"}", 1, "terminate",
      1772345529 },
    { "{\n\t\"action\": \"stop\",\n\t\"time\": \"2026-03-01T06:12:09Z\"\n}", 1, "stop",
      1772345529 },
    { "{\"action\":\"hibernate\",\"time\":\"Sun, 01 Mar 2026 06:12:09 GMT\"}", 1, "hibernate",
      1772345529 },
    { "{\"action\":\"evaporate\",\"time\":\"soon\",\"more\":[1]}", 1, "evaporate", NAN },
    { "{\"action\":\"stop\"}", 1, "stop", NAN },
    { "{\"action\":\"a\\u001bb\"}", 1, "a?b", NAN },
    { "{\"action\":\"0123456789012345678901234567890123456789012345678901234567890\"}", 1,
      "01234567890123456789012345678901234567890123456", NAN },
    { "{\"action\":\"\"}", -1, NULL, 0 },
    { "{\"action\":7}", -1, NULL, 0 },
    { "{\"time\":\"2026-03-01T06:12:09Z\"}", -1, NULL, 0 },
    { "{\"action\": \"terminate\", \"time\": \"2026-03", -1, NULL, 0 },
    { "{\"action\": \"terminate\", \"action\": \"stop\"}", -1, NULL, 0 },
    { "<html>404</html>", -1, NULL, 0 },
    { "[]", -1, NULL, 0 },
    { "", -1, NULL, 0 },
};

START_TEST(an_action_of_aws_is_a_preemption_whatever_it_is_called)
{
    const struct action_case *const c = &actions[_i];

    ck_assert_int_eq(with(spot_notice_read_action, c->text, NULL), c->n);
    if (c->n < 0) {
        ck_assert_int_eq(err.code, SPOT_EDATA);
        return;
    }
    ck_assert_int_eq(claim->kind, SPOT_NOTICE_PREEMPT);
    ck_assert(claim->is_memory_lost);
    ck_assert_str_eq(claim->action, c->action);
    if (isnan(c->deadline_s))
        ck_assert(isnan(claim->deadline_s));
    else
        ck_assert_double_eq(claim->deadline_s, c->deadline_s);
    ck_assert(isnan(claim->lead_s));
}
END_TEST

START_TEST(a_recommendation_takes_nothing_away)
{
    ck_assert_int_eq(
        with(spot_notice_read_rebalance, "{\"noticeTime\":\"2026-03-01T06:12:09Z\"}", NULL), 1);
    ck_assert_int_eq(claim->kind, SPOT_NOTICE_REBALANCE);
    ck_assert(!claim->is_memory_lost && isnan(claim->deadline_s));
    ck_assert_int_eq(with(spot_notice_read_rebalance, "{\"notice\":1}", NULL), -1);
    ck_assert_int_eq(with(spot_notice_read_rebalance, "null", NULL), -1);
}
END_TEST

START_TEST(gcp_says_one_word)
{
    ck_assert_int_eq(with(spot_notice_read_preempted, "FALSE", NULL), 0);
    ck_assert_int_eq(with(spot_notice_read_preempted, "FALSE\r\n", NULL), 0);
    ck_assert_int_eq(with(spot_notice_read_preempted, "TRUE\n", NULL), 1);
    ck_assert_int_eq(claim->kind, SPOT_NOTICE_PREEMPT);
    ck_assert_double_eq(claim->lead_s, 30);
    ck_assert_int_eq(with(spot_notice_read_preempted, "TRUEST", NULL), -1);
    ck_assert_int_eq(with(spot_notice_read_preempted, "", NULL), -1);
    ck_assert_int_eq(spot_notice_read_preempted("TRUE\0x", 6, NULL, claim, &err), -1);
    ck_assert_int_eq(with(spot_notice_read_maintenance, "NONE", NULL), 0);
    ck_assert_int_eq(with(spot_notice_read_maintenance, "MIGRATE_ON_HOST_MAINTENANCE", NULL), 1);
    ck_assert(!claim->is_memory_lost);
    ck_assert_int_eq(with(spot_notice_read_maintenance, "TERMINATE_ON_HOST_MAINTENANCE", NULL), 1);
    ck_assert(claim->is_memory_lost);
    ck_assert_int_eq(claim->kind, SPOT_NOTICE_MAINTENANCE);
    ck_assert_int_eq(with(spot_notice_read_maintenance, "\xff\x1b[2J", NULL), -1);
    ck_assert(spot_utf8_is_plain(err.msg));
}
END_TEST

#define EVENT(id, status, type, who, before)                                                 \
    "{\"EventId\":\"" id "\",\"EventStatus\":\"" status "\",\"EventType\":\"" type           \
    "\",\"ResourceType\":\"VirtualMachine\",\"Resources\":[" who "],\"NotBefore\":\"" before \
    "\",\"DurationInSeconds\":-1}"
#define EVENTS(list) "{\"DocumentIncarnation\":\"2\",\"Events\":[" list "]}"

START_TEST(of_azure_the_events_of_this_machine_count)
{
    /* clang-format off */
    static const char all[] = EVENTS(
        EVENT("A", "Scheduled", "Preempt", "\"vm_1\",\"VM_2\"", "Sun, 01 Mar 2026 06:12:09 GMT")
        "," EVENT("B", "Scheduled", "Preempt", "\"vm_22\"", "")
        ",7,{},{\"EventId\":7}"
        "," EVENT("C", "Started", "Reboot", "\"vm_2\"", "")
        "," EVENT("D", "Scheduled", "Freeze", "\"vm_2\"", "2026-03-01T06:12:09Z")
        "," EVENT("E", "Completed", "Preempt", "\"vm_2\"", "")
        "," EVENT("F", "Scheduled", "Levitate", "\"vm_2\"", "never"));
    /* clang-format on */

    ck_assert_int_eq(with(spot_notice_read_events, all, "vm_2"), 4);
    ck_assert_str_eq(claim[0].id, "A");
    ck_assert_int_eq(claim[0].kind, SPOT_NOTICE_PREEMPT);
    ck_assert_double_eq(claim[0].deadline_s, 1772345529);
    ck_assert(claim[1].has_begun && claim[1].is_memory_lost);
    ck_assert_int_eq(claim[1].kind, SPOT_NOTICE_MAINTENANCE);
    ck_assert_double_eq(claim[1].lead_s, 0);
    ck_assert(!claim[2].is_memory_lost);
    ck_assert_double_eq(claim[2].deadline_s, 1772345529);
    ck_assert_str_eq(claim[3].action, "Levitate");
    ck_assert(claim[3].is_memory_lost && isnan(claim[3].deadline_s));
    ck_assert_int_eq(with(spot_notice_read_events, all, "vm_3"), 0);
    ck_assert_int_eq(with(spot_notice_read_events, all, NULL), 5);
    ck_assert_int_eq(with(spot_notice_read_events, EVENTS(""), "vm_2"), 0);
    ck_assert_int_eq(with(spot_notice_read_events, "{\"Events\":{}}", "vm_2"), -1);
    ck_assert_int_eq(with(spot_notice_read_events, "{}", "vm_2"), -1);
}
END_TEST

START_TEST(more_events_than_there_is_room_for_are_cut)
{
    static char text[1 << 20];
    size_t n = (size_t)snprintf(text, sizeof(text), "{\"Events\":[");

    for (int i = 0; i < 1000; i++)
        n += (size_t)snprintf(text + n, sizeof(text) - n,
                              "%s{\"EventId\":\"%d\",\"EventType\":\"Preempt\"}", i ? "," : "", i);
    snprintf(text + n, sizeof(text) - n, "]}");
    ck_assert_int_eq(with(spot_notice_read_events, text, NULL), SPOT_NOTICE_CLAIMS_MAX);
}
END_TEST

static const struct line_case {
    const char *text;
    int n;
    enum spot_notice_kind kind;
    double deadline_s, lead_s;
    const char *id;
} lines[] = {
    { "preempt", 1, SPOT_NOTICE_PREEMPT, NAN, NAN, "cmd" },
    { "preempt 30s", 1, SPOT_NOTICE_PREEMPT, NAN, 30, "cmd" },
    { "  90\r", 1, SPOT_NOTICE_PREEMPT, NAN, 90, "cmd" },
    { "maintenance 2026-03-01T06:12:09Z host 7", 1, SPOT_NOTICE_MAINTENANCE, 1772345529, NAN,
      "host 7" },
    { "rebalance", 1, SPOT_NOTICE_REBALANCE, NAN, NAN, "cmd" },
    { "rebalance rebalance", 1, SPOT_NOTICE_REBALANCE, NAN, NAN, "rebalance" },
    { "2026-03-01T06:12:09Z", 1, SPOT_NOTICE_PREEMPT, 1772345529, NAN, "cmd" },
    { "going down", 1, SPOT_NOTICE_PREEMPT, NAN, NAN, "going down" },
    { "preempt -5s", 1, SPOT_NOTICE_PREEMPT, NAN, NAN, "-5s" },
    { "preempt 5s 6s", 1, SPOT_NOTICE_PREEMPT, NAN, 5, "6s" },
    { "\x1b[31mred", 1, SPOT_NOTICE_PREEMPT, NAN, NAN, "?[31mred" },
    { "", 0, 0, 0, 0, NULL },
    { " \t ", 0, 0, 0, 0, NULL },
};

static void same(double a, double b)
{
    ck_assert_msg((isnan(a) && isnan(b)) || a == b, "%g, not %g", a, b);
}

START_TEST(a_line_of_a_command_is_a_notice)
{
    const struct line_case *const c = &lines[_i];

    ck_assert_int_eq(with(spot_notice_read_line, c->text, NULL), c->n);
    if (!c->n)
        return;
    ck_assert_int_eq(claim->kind, c->kind);
    same(claim->deadline_s, c->deadline_s);
    same(claim->lead_s, c->lead_s);
    ck_assert_str_eq(claim->id, c->id);
    ck_assert_int_eq(claim->is_memory_lost, c->kind == SPOT_NOTICE_PREEMPT);
}
END_TEST

START_TEST(a_token_fits_a_header)
{
    char text[1100];

    memset(text, 'a', sizeof(text));
    ck_assert(spot_notice_is_token("AQAEAL==", 8));
    ck_assert(spot_notice_is_token(text, 1024));
    ck_assert(!spot_notice_is_token(text, 1025));
    ck_assert(!spot_notice_is_token("", 0));
    ck_assert(!spot_notice_is_token("a\r\nHost: b", 10));
    ck_assert(!spot_notice_is_token("<html> no", 9));
    ck_assert(!spot_notice_is_token("a\0b", 3));
}
END_TEST

START_TEST(a_document_has_what_is_known)
{
    struct spot_notice n = {
        .source = "aws", .at_s = 1772345529, .deadline_s = NAN, .left_s = NAN
    };
    char text[512] = "";
    FILE *out = fmemopen(text, sizeof(text), "w");

    strcpy(n.action, "stop");
    strcpy(n.id, "a\"b");
    ck_assert_int_eq(spot_notice_write(&n, out, &err), 0);
    n.state = SPOT_NOTICE_EARLIER;
    n.kind = SPOT_NOTICE_MAINTENANCE;
    n.deadline_s = n.at_s + 1.5;
    n.left_s = 1.5;
    ck_assert_int_eq(spot_notice_write(&n, out, &err), 0);
    fclose(out);
    ck_assert_str_eq(
        text, "{\"schema\":\"spot.notice/1\",\"source\":\"aws\",\"kind\":\"preempt\",\"state\":"
              "\"new\",\"action\":\"stop\",\"memory_lost\":false,\"at\":"
              "\"2026-03-01T06:12:09.000Z\",\"id\":\"a\\\"b\"}\n"
              "{\"schema\":\"spot.notice/1\",\"source\":\"aws\",\"kind\":\"maintenance\","
              "\"state\":\"earlier\",\"action\":\"stop\",\"memory_lost\":false,\"at\":"
              "\"2026-03-01T06:12:09.000Z\",\"deadline\":\"2026-03-01T06:12:10.500Z\","
              "\"left_s\":1.5,\"id\":\"a\\\"b\"}\n");
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    tcase_add_loop_test(tc, an_action_of_aws_is_a_preemption_whatever_it_is_called, 0,
                        sizeof(actions) / sizeof(actions[0]));
    tcase_add_loop_test(tc, a_line_of_a_command_is_a_notice, 0, sizeof(lines) / sizeof(lines[0]));
    add_tests(tc);
    return run_suite("notice_claim", tc);
}
