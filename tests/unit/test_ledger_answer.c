/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/ledger_answer.h"
#include "suite.h"

/* Goal: a question in JSON gets the samples that the plan has; a malformed one is refused with the
 * place, and takes nothing. */

static struct spot_ledger *ledger;
static char said[400000];

static void begin(void)
{
    ledger = spot_ledger_new();
    spot_ledger_begin(ledger, 2, 2, 0);
}

static void end(void)
{
    spot_ledger_free(ledger);
}

/* The members of the answer, or the message. */
static const char *ask(const char *question)
{
    FILE *const out = fmemopen(said, sizeof(said), "w");
    struct spot_json_doc doc;
    struct spot_err err = { 0 };
    struct spot_ledger_question q;
    struct spot_ledger_share share;
    struct spot_jw jw;
    int rc;

    spot_jw_init(&jw, out, false);
    spot_jw_object(&jw, NULL);
    ck_assert_int_eq(spot_json_parse(&doc, question, strlen(question), "q", NULL), 0);
    rc = spot_ledger_question_read(&q, &doc, spot_ledger_plan(ledger), &err);
    spot_json_release(&doc);
    if (!rc)
        rc = spot_ledger_question_take(&q, ledger, &share, &err);
    if (!rc)
        spot_ledger_question_answer(&q, ledger, &share, &jw);
    spot_jw_end(&jw);
    ck_assert_int_eq(spot_jw_close(&jw, NULL), 0);
    fclose(out);
    if (rc)
        ck_assert_str_eq(said, "{}\n"); /* nothing was written */
    return rc ? strcpy(said, err.msg) : said;
}

START_TEST(a_question_that_declares_is_answered_with_samples)
{
    ck_assert_str_eq(
        ask("{\"op\":\"samples\",\"step\":2,\"rank\":0,\"world\":2,\"dataset_size\":10,"
            "\"global_batch\":4,\"order\":\"sequential\"}"),
        "{\"step\":2,\"epoch\":0,\"rank\":0,\"world\":2,\"total\":4,"
        "\"ranges\":[{\"epoch\":0,\"from\":8,\"to\":10}],\"samples\":[8,9]}\n");
    ck_assert_str_eq(ask("{\"step\":2,\"rank\":1,\"world\":2}"),
                     "{\"step\":2,\"epoch\":0,\"rank\":1,\"world\":2,\"total\":4,"
                     "\"ranges\":[{\"epoch\":1,\"from\":0,\"to\":2}],\"samples\":[0,1]}\n");
    ck_assert_str_eq(ask("{\"rank\":1,\"world\":2,\"list\":false}"),
                     "{\"step\":0,\"epoch\":0,\"rank\":1,\"world\":2,\"total\":4,"
                     "\"ranges\":[{\"epoch\":0,\"from\":2,\"to\":4}]}\n");
}
END_TEST

START_TEST(shuffled_samples_are_those_of_the_plan)
{
    const struct spot_ledger_plan p = { .n_sample = 1000, .batch = 30, .seed = 11 };
    char want[512];
    int n = snprintf(want, sizeof(want), "\"samples\":[");

    for (int64_t at = 75; at < 90; at++)
        n += snprintf(want + n, sizeof(want) - (size_t)n, "%s%lld", at > 75 ? "," : "",
                      (long long)spot_ledger_plan_sample(&p, 0, at));
    snprintf(want + n, sizeof(want) - (size_t)n, "]}\n");
    ask("{\"step\":2,\"rank\":1,\"world\":2,\"dataset_size\":1000,\"global_batch\":30,\"seed\":"
        "11}");
    ck_assert_str_eq(strstr(said, "\"samples\""), want);
}
END_TEST

START_TEST(a_rank_without_samples_gets_an_empty_list)
{
    ck_assert_str_eq(
        ask("{\"step\":0,\"rank\":1,\"world\":2,\"dataset_size\":1,\"global_batch\":1}"),
        "{\"step\":0,\"epoch\":0,\"rank\":1,\"world\":2,\"total\":1,\"ranges\":[],"
        "\"samples\":[]}\n");
}
END_TEST

START_TEST(what_is_wrong_is_named)
{
    static const struct {
        const char *question, *msg;
    } wrong[] = {
        { "{\"world\":2}", "q:1:1: /: lacks the key 'rank'" },
        { "{\"rank\":0}", "q:1:1: /: lacks the key 'world'" },
        { "{\"rank\":0,\"world\":2}", "dataset_size and global_batch have not been declared yet" },
        { "{\"rank\":0,\"world\":2,\"dataset_size\":9}",
          "q:1:1: /: global_batch: expected 1 to 9, the samples of the set, got 0" },
        { "{\"rank\":0,\"world\":2,\"seed\":1}",
          "q:1:1: /: dataset_size: expected 1 to 2^53 samples, got 0" },
        { "{\"rank\":0,\"world\":2,\"dataset_size\":9,\"global_batch\":3,\"rest\":\"x\"}",
          "q:1:62: /rest: expected wrap, drop or short, got 'x'" },
        { "{\"rank\":0,\"world\":2,\"dataset_size\":9,\"global_batch\":3,\"order\":\"x\"}",
          "q:1:63: /order: expected shuffled or sequential, got 'x'" },
        { "{\"rank\":2,\"world\":2,\"dataset_size\":9,\"global_batch\":3}",
          "rank: expected 0 to 1, got 2" },
        { "{\"rank\":0,\"world\":2,\"dataset_size\":9,\"global_batch\":4}",
          "global_batch: it was declared as 3 before, and is 4 now" },
    };

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        ck_assert_str_eq(ask(wrong[i].question), wrong[i].msg);
    ck_assert_ptr_nonnull(strstr(ask("{\"rank\":0,\"world\":2,\"step\":-1}"), "/step"));
    ck_assert_ptr_nonnull(strstr(ask("{\"rank\":\"0\",\"world\":2}"), "/rank"));
}
END_TEST

START_TEST(a_list_has_a_limit_and_ranges_have_none)
{
    const char *const declared = "{\"rank\":0,\"world\":2,\"dataset_size\":100000,"
                                 "\"global_batch\":32768,\"order\":\"sequential\",\"list\":false}";

    ck_assert_ptr_nonnull(strstr(ask(declared), "\"to\":16384}"));
    ck_assert_str_eq(ask("{\"rank\":1,\"world\":2,\"step\":0}"),
                     "global_batch: a share of it is more than the 16384 samples of a list; with "
                     "\"list\":false the answer has its ranges alone");
    end();
    begin();
    ck_assert_ptr_nonnull(strstr(
        ask("{\"rank\":0,\"world\":2,\"dataset_size\":100000,\"global_batch\":32767}"), "samples"));
    ck_assert_int_lt(strlen(said), sizeof(said) - 1);
}
END_TEST

int main(void)
{
    TCase *const tc = tcase_create("ledger_answer");

    tcase_add_checked_fixture(tc, begin, end);
    add_tests(tc);
    return run_suite("ledger_answer", tc);
}
