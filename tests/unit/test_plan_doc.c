/* SPDX-License-Identifier: MIT */
/* Goal: a plan is taken whole or refused with the place of its first fault. */
#include <stdlib.h>
#include <string.h>

#include "model/plan_doc.h"
#include "suite.h"

static int parse(struct spot_plan_doc *plan, const char *text, struct spot_err *err)
{
    return spot_plan_doc_parse(plan, text, strlen(text), "t", err);
}

#define PLAN(body) "{\"schema\":\"spot.plan/1\"," body "}"
#define NEXT       "\"next\":{\"D\":2,\"P\":1}"

#define WAY(bucket, market, share)                                            \
    "{\"bucket\":\"" bucket "\",\"instance_type\":\"T\",\"market\":\"" market \
    "\",\"share\":" share "}"

static const struct bad_case {
    const char *text, *message;
} bad_cases[] = {
    { "{}", "t:1:1: /: lacks the key 'schema', expected \"spot.plan/1\"" },
    { "{\"schema\":\"spot.plan/2\"}",
      "t:1:11: /schema: expected \"spot.plan/1\", got \"spot.plan/2\"" },
    { PLAN("\"job\":\"a\""), "t:1:1: /: lacks the key 'next'" },
    { PLAN("\"next\":[]"), "t:1:32: /next: expected an object" },
    { PLAN("\"next\":{\"D\":2}"), "t:1:32: /next: lacks the key 'P'" },
    { PLAN("\"next\":{\"D\":-1,\"P\":1}"), "t:1:37: /next/D: -1 is outside [0, 4096]" },
    { PLAN("\"next\":{\"D\":0,\"P\":1}"),
      "t:1:32: /next: D and P must both be 0 (suspend) or both at least 1" },
    { PLAN("\"next\":{\"D\":2,\"P\":1,\"M\":0}"), "t:1:49: /next/M: 0 is outside [1, 4096]" },
    { PLAN("\"kind\":\"serve\",\"next\":{\"D\":2,\"P\":1,\"B\":0}"),
      "t:1:64: /next/B: expected at least 1 request at once" },
    { PLAN("\"next\":{\"D\":4096,\"P\":4096}"), "t:1:32: /next: D * P * M is above 4096" },
    { PLAN("\"next\":{\"D\":1.5,\"P\":1}"), "t:1:37: /next/D: expected an integer" },
    { PLAN("\"epoch\":-3," NEXT), "t:1:33: /epoch: -3 is outside [0, 1e+15]" },
    { PLAN(NEXT ",\"gap\":2"), "t:1:52: /gap: 2 is outside [0, 1]" },
    { PLAN(NEXT ",\"place\":[{\"node\":\"a\",\"d\":2,\"p\":0}]"),
      "t:1:55: /place/0: lies outside the grid of /next" },
    { PLAN(NEXT ",\"place\":[{\"node\":\"a\",\"d\":0,\"p\":0},{\"node\":\"b\",\"d\":0,\"p\":0}]"),
      "t:1:80: /place/1: names a position a second time" },
    { PLAN(NEXT ",\"place\":[{\"node\":\"a\",\"d\":0,\"p\":0},{\"node\":\"a\",\"d\":1,\"p\":0}]"),
      "t:1:54: /place: 'a' has two places" },
    { PLAN(NEXT ",\"why\":[1]"), "t:1:53: /why/0: expected a string" },
    { PLAN(NEXT ",\"path\":7"), "t:1:53: /path: expected an array" },
    { PLAN(NEXT ",\"alternatives\":[{\"D\":1}]"), "t:1:62: /alternatives/0: lacks the key 'P'" },
    { PLAN(NEXT ",\"alternatives\":[{\"D\":1,\"P\":1,\"B\":-1}]"),
      "t:1:79: /alternatives/0/B: -1 is outside [0, 1073741824]" },
    { PLAN("\"kind\":\"sleep\"," NEXT),
      "t:1:32: /kind: expected \"train\", \"serve\" or \"fleet\"" },
    { PLAN("\"kind\":1," NEXT), "t:1:32: /kind: expected \"train\", \"serve\" or \"fleet\"" },
    { PLAN("\"kind\":\"fleet\",\"route\":[" WAY("a", "spot", "2") "]"),
      "t:1:107: /route/0/share: 2 is outside [0, 1]" },
    { PLAN("\"kind\":\"fleet\",\"route\":[" WAY("a", "cheap", "1") "]"),
      "t:1:49: /route/0: /market: expected \"spot\" or \"on-demand\", got \"cheap\"" },
    { PLAN("\"kind\":\"fleet\",\"route\":[" WAY("a", "spot", "1") "," WAY(
          "a", "spot", "1,\"prompt_tokens\":8") "]"),
      "t:1:110: /route/1: 'a' has other sizes or another ttft_s in the row before" },
};

/* An instance has a rank of the pipeline on each of its GPUs. */
START_TEST(a_node_that_serves_may_have_several_places)
{
    static const char text[] =
        PLAN("\"kind\":\"serve\",\"next\":{\"D\":1,\"P\":2},\"place\":[{\"node\":\"a\",\"d\":0,"
             "\"p\":0},{\"node\":\"a\",\"d\":0,\"p\":1}]");
    struct spot_plan_doc plan;
    struct spot_err err = { 0 };

    ck_assert_msg(!parse(&plan, text, &err), "%s", err.msg);
    ck_assert_int_eq((int)plan.n_place, 2);
    spot_plan_doc_release(&plan);
}
END_TEST

START_TEST(refuses_wrong_plans_with_place_and_pointer)
{
    struct spot_err err = { 0 };
    struct spot_plan_doc plan;

    ck_assert_int_eq(parse(&plan, bad_cases[_i].text, &err), -1);
    ck_assert_int_eq(err.code, SPOT_EDATA);
    ck_assert_str_eq(err.msg, bad_cases[_i].message);
    ck_assert_ptr_null(plan.json.text);
}
END_TEST

START_TEST(reads_a_whole_plan)
{
    static const char text[] =
        PLAN("\"job\":\"j\",\"time_s\":61.5,\"epoch\":7,\"next\":{\"D\":1,\"P\":2,\"M\":1,\"B\":4},"
             "\"spares\":3,\"place\":[{\"node\":\"a\",\"d\":0,\"p\":1},{\"node\":\"b\",\"d\":0,"
             "\"p\":0}],\"path\":[{\"D\":2,\"P\":2,\"p\":0.5}],\"expected\":{\"samples_per_s\":9,"
             "\"loss_prob\":0.25},\"bound\":10,\"gap\":0.1,\"why\":[\"because\"],"
             "\"alternatives\":[{\"D\":2,\"P\":1,\"samples_per_s\":8}],\"new\":{}");
    struct spot_err err = { 0 };
    struct spot_plan_doc p;

    ck_assert_msg(!parse(&p, text, &err), "%s", err.msg);
    ck_assert_str_eq(p.job, "j");
    ck_assert(p.time_s == 61.5 && p.epoch == 7 && p.spares == 3);
    ck_assert(p.next.D == 1 && p.next.P == 2 && p.next.M == 1 && p.micro_batch == 4);
    ck_assert(p.n_place == 2 && p.place[0].p == 1 && !strcmp(p.place[1].node, "b"));
    ck_assert(p.n_path == 1 && p.path[0].prob == 0.5);
    ck_assert(p.expected.samples_per_s == 9 && p.expected.usd_per_h < 0);
    ck_assert(p.n_why == 1 && !strcmp(p.why[0], "because"));
    ck_assert(p.n_alternative == 1 && p.alternative[0].d == 2);
    ck_assert(!spot_plan_doc_is_suspend(&p));
    spot_plan_doc_release(&p);
}
END_TEST

START_TEST(a_plan_without_an_epoch_fits_any_and_zero_suspends)
{
    struct spot_err err = { 0 };
    struct spot_plan_doc p;

    ck_assert(!parse(&p, PLAN("\"next\":{\"D\":0,\"P\":0}"), &err));
    ck_assert_int_eq(p.epoch, -1);
    ck_assert(spot_plan_doc_is_suspend(&p));
    spot_plan_doc_release(&p);
    ck_assert(!parse(&p, PLAN("\"kind\":\"serve\",\"next\":{\"D\":0,\"P\":0,\"B\":0}"), &err));
    ck_assert(spot_plan_doc_is_suspend(&p));
    spot_plan_doc_release(&p);
    ck_assert(!parse(&p, PLAN("\"kind\":\"serve\",\"next\":{\"D\":2,\"P\":1}"), &err));
    ck_assert(p.next.M == 1 && p.micro_batch < 1); /* as many at once as the server was told */
    spot_plan_doc_release(&p);
}
END_TEST

static const char trains[] =
    PLAN("\"job\":\"j\",\"time_s\":60,\"epoch\":0," NEXT ",\"spares\":1,\"place\":[{\"node\":"
         "\"a\",\"d\":1,\"p\":0}],\"path\":[{\"D\":2,\"P\":1,\"p\":0.1}],\"expected\":"
         "{\"samples_per_s\":1,\"usd_per_h\":2,\"usd_per_sample\":0.5,\"loss_prob\":0,"
         "\"undisturbed_samples_per_s\":3,\"from\":\"profile\",\"law\":\"trusted\","
         "\"law_miss\":0.25},\"why\":[\"x\"],\"alternatives\":[{\"D\":1,\"P\":1,\"why\":\"y\","
         "\"undisturbed_samples_per_s\":2.5,\"from\":\"law\"}]");
static const char serves[] =
    PLAN("\"kind\":\"serve\",\"job\":\"j\",\"time_s\":60," NEXT ",\"weights\":[{\"node\":\"a\","
         "\"weight\":2},{\"zone\":\"z\",\"weight\":0.5}],\"expected\":{\"requests_per_s\":4,"
         "\"usd_per_h\":2,\"latency_s\":0.5}");

static const char fleet[] = PLAN("\"kind\":\"fleet\",\"job\":\"\",\"time_s\":60,\"route\":[" WAY(
    "a", "spot",
    "0.25,\"zone\":\"z\",\"prompt_tokens\":8,\"output_tokens\":0.5") "," WAY("b", "on-demand",
                                                                             "1") "]");

START_TEST(what_is_written_reads_back_and_writes_the_same_bytes)
{
    const char *const text[] = { trains, serves, fleet };
    struct spot_err err = { 0 };
    struct spot_plan_doc p;
    char *out[2] = { NULL, NULL };
    size_t n[2];

    ck_assert_msg(!parse(&p, text[_i], &err), "%s", err.msg);
    for (int i = 0; i < 2; i++) {
        FILE *f = open_memstream(&out[i], &n[i]);

        ck_assert(!spot_plan_doc_write(&p, NULL, f, &err));
        fclose(f);
        spot_plan_doc_release(&p);
        ck_assert_msg(!parse(&p, out[i], &err), "%s", err.msg);
    }
    ck_assert_str_eq(out[0], out[1]);
    if (_i == 2) {
        ck_assert(p.kind == SPOT_PLAN_FLEET && p.n_route == 2 && !spot_plan_doc_is_suspend(&p));
        ck_assert(p.route[0].prompt_token == 8 && p.route[0].output_token == 0.5);
        ck_assert(p.route[0].share == 0.25 && p.route[1].prompt_token == 0 && !p.route[1].zone);
        ck_assert_str_eq(p.route[0].zone, "z");
        ck_assert_str_eq(p.route[1].market, "on-demand");
    } else if (_i) {
        ck_assert(p.n_weight == 2 && p.weight[0].weight == 2 && p.weight[1].weight == 0.5);
        ck_assert_str_eq(p.weight[1].zone, "z");
        ck_assert(p.expected.requests_per_s == 4 && p.expected.latency_s == 0.5);
    } else {
        ck_assert(p.n_place == 1 && p.expected.usd_per_sample == 0.5 && p.epoch == 0);
        ck_assert(p.expected.undisturbed_samples_per_s == 3 && p.expected.law_miss == 0.25);
        ck_assert_str_eq(p.expected.from, "profile");
        ck_assert(p.alternative[0].undisturbed_samples_per_s == 2.5);
        ck_assert_str_eq(p.alternative[0].from, "law");
    }
    spot_plan_doc_release(&p);
    free(out[0]);
    free(out[1]);
}
END_TEST

START_TEST(a_plan_to_serve_without_a_batch_is_written_without_one)
{
    struct spot_err err = { 0 };
    struct spot_plan_doc p;
    char *out = NULL;
    size_t n;
    FILE *const f = open_memstream(&out, &n);

    ck_assert(!parse(&p, PLAN("\"kind\":\"serve\",\"job\":\"j\",\"time_s\":1," NEXT), &err));
    ck_assert(!spot_plan_doc_write(&p, NULL, f, &err));
    fclose(f);
    spot_plan_doc_release(&p);
    ck_assert_msg(!parse(&p, out, &err), "%s", err.msg);
    ck_assert(p.next.D == 2 && p.micro_batch < 1);
    spot_plan_doc_release(&p);
    free(out);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    tcase_add_loop_test(tc, refuses_wrong_plans_with_place_and_pointer, 0,
                        sizeof(bad_cases) / sizeof(*bad_cases));
    tcase_add_loop_test(tc, what_is_written_reads_back_and_writes_the_same_bytes, 0, 3);
    add_tests(tc);
    return run_suite("plan_doc", tc);
}
