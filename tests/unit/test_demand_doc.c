/* SPDX-License-Identifier: MIT */
/* Goal: spot.demand/1 is read with what it leaves out filled in, and refused where it cannot be;
 * the bucket of a request is the one with the nearest sizes. */
#include <math.h>

#include "doc_rig.h"
#include "model/demand_doc.h"

static const char text[] =
    "{\"schema\": \"spot.demand/1\", \"colour\": 7, \"buckets\": [\n"
    "{\"name\": \"short\", \"rate_per_s\": 3, \"prompt_tokens\": 100, \"output_tokens\": 10,\n"
    " \"per_s\": {\"l4\": 2.5, \"v100\": 0}, \"shade\": []},\n"
    "{\"rate_per_s\": 0.5, \"prompt_tokens\": 1000, \"output_tokens\": 200, \"per_s\": {}}\n]}\n";

static void parse(struct spot_json_doc *json, const char *from)
{
    struct spot_err err = { 0 };

    ck_assert_msg(!spot_json_parse(json, from, strlen(from), "t", &err), "%s", err.msg);
}

START_TEST(a_bucket_has_a_rate_sizes_and_speeds_by_type)
{
    struct spot_json_doc json;
    struct spot_demand_doc got;
    struct spot_err err = { 0 };

    parse(&json, text);
    ck_assert_msg(!spot_demand_read(&json, &got, &err), "%s", err.msg);
    ck_assert_uint_eq(got.n_bucket, 2);
    ck_assert_str_eq(got.bucket[0].name, "short");
    ck_assert(got.bucket[0].rate_per_s == 3 && got.bucket[0].prompt_token == 100);
    ck_assert(got.bucket[0].output_token == 10);
    ck_assert_ptr_null(got.bucket[1].name);
    ck_assert(got.bucket[1].rate_per_s == 0.5);
    ck_assert(spot_demand_per_s(&got.bucket[0], "l4") == 2.5);
    ck_assert(spot_demand_per_s(&got.bucket[0], "v100") == 0);
    ck_assert(spot_demand_per_s(&got.bucket[0], "a10") == 0);
    ck_assert(spot_demand_per_s(&got.bucket[1], "l4") == 0);
    spot_demand_release(&got);
    spot_json_release(&json);
}
END_TEST

START_TEST(a_request_belongs_to_the_bucket_of_the_nearest_sizes)
{
    char *const loose = edited(text, "\"prompt_tokens\": 1000, \"output_tokens\": 200, ", "");
    struct spot_json_doc json;
    struct spot_demand_doc got;
    struct spot_err err = { 0 };

    parse(&json, text);
    ck_assert_int_eq(spot_demand_read(&json, &got, &err), 0);
    ck_assert_uint_eq(spot_demand_nearest(&got, 100, 10), 0);
    ck_assert_uint_eq(spot_demand_nearest(&got, 1000, 200), 1);
    /* in logarithms: between 100 and 1000 lies 316, between 10 and 200 lies 44.7 */
    ck_assert_uint_eq(spot_demand_nearest(&got, 315, 44), 0);
    ck_assert_uint_eq(spot_demand_nearest(&got, 320, 46), 1);
    ck_assert_uint_eq(spot_demand_nearest(&got, 100, 200), 1); /* 20 times as long, or a tenth */
    ck_assert_uint_eq(spot_demand_nearest(&got, 1000, 10), 0);
    spot_demand_release(&got);
    spot_json_release(&json);
    parse(&json, loose); /* the second takes any */
    ck_assert_int_eq(spot_demand_read(&json, &got, &err), 0);
    ck_assert_uint_eq(spot_demand_nearest(&got, 100, 10), 0);
    ck_assert_uint_eq(spot_demand_nearest(&got, 101, 10), 1);
    spot_demand_release(&got);
    spot_json_release(&json);
    free(loose);
}
END_TEST

static const struct {
    const char *from, *to, *want;
} bad[] = {
    { "demand/1", "demand/2", "/schema: expected \"spot.demand/1\", got \"spot.demand/2\"" },
    { "\"buckets\"", "\"bucket5\"", "/: lacks the key 'buckets'" },
    { "\"rate_per_s\": 3", "\"rate_per_s\": -1",
      "/buckets/0/rate_per_s: -1 is outside [0, 1000000000] 1/s" },
    { "{\"rate_per_s\": 0.5, \"prompt_tokens\": 1000, \"output_tokens\": 200, \"per_s\": {}}", "[]",
      "/buckets/1: expected an object" },
    { "\"name\": \"short\"", "\"name\": 7", "/buckets/0/name: expected a string" },
    { "\"prompt_tokens\": 100,", "\"prompt_tokens\": -1,",
      "/buckets/0/prompt_tokens: -1 is less than 0" },
    { "\"output_tokens\": 200", "\"output_tokens\": \"200\"",
      "/buckets/1/output_tokens: expected a number" },
    { "\"per_s\": {}", "\"per\": {}", "/buckets/1: lacks the key 'per_s'" },
    { "\"l4\": 2.5", "\"l4\": -2.5",
      "/buckets/0/per_s/l4: expected requests per second, 0 for a type that cannot" },
    { "\"v100\": 0", "\"v100\": null",
      "/buckets/0/per_s/v100: expected requests per second, 0 for a type that cannot" },
};

START_TEST(what_cannot_be_is_refused_where_it_is)
{
    char *const wrong = edited(text, bad[_i].from, bad[_i].to);
    struct spot_json_doc json;
    struct spot_demand_doc got;
    struct spot_err err = { 0 };

    parse(&json, wrong);
    expect_refused_at(spot_demand_read(&json, &got, &err), &err, bad[_i].want);
    spot_demand_release(&got);
    spot_json_release(&json);
    free(wrong);
}
END_TEST

START_TEST(there_is_one_bucket_at_least)
{
    struct spot_json_doc json;
    struct spot_demand_doc got;
    struct spot_err err = { 0 };

    parse(&json, "{\"schema\": \"spot.demand/1\", \"buckets\": []}");
    expect_refused_at(spot_demand_read(&json, &got, &err), &err, "/buckets: has none");
    spot_demand_release(&got);
    spot_json_release(&json);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    tcase_add_loop_test(tc, what_cannot_be_is_refused_where_it_is, 0, sizeof(bad) / sizeof(bad[0]));
    add_tests(tc);
    return run_suite("demand_doc", tc);
}
