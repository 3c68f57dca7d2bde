/* SPDX-License-Identifier: MIT */
/* Goal: spot.price/1 is read as it was written, and refused where it cannot be. */
#include "doc_rig.h"
#include "model/price_doc.h"

static struct spot_price_step a_step[] = { { 1, 1.5, 0.25, 0.5 }, { 2, 1.75, 0, 1 } };
static struct spot_price_step b_step[] = { { 1, 3, 0, 0 }, { 2, 3, 0, 0 } };
static double a_quantile[] = { 1, 2, 1.25, 1.25 }, b_quantile[] = { 3, 3, 3, 3 };
static struct spot_price_entry entry[] = {
    { .zone = "z1",
      .instance_type = "m",
      .market = "spot",
      .model = "steps",
      .time_s = 100,
      .now_usd_per_h = 1.125,
      .mean_usd_per_h = 1.625,
      .n_change = 12,
      .step = a_step,
      .quantile_usd_per_h = a_quantile },
    { .zone = "z1",
      .instance_type = "m",
      .market = "on_demand",
      .model = "",
      .time_s = -5,
      .now_usd_per_h = 3,
      .mean_usd_per_h = 3,
      .step = b_step,
      .quantile_usd_per_h = b_quantile },
};
static const struct spot_price_doc doc = { .interval_s = 60,
                                           .horizon = 2,
                                           .model = "steps",
                                           .quantile = { 0.1, 0.9 },
                                           .n_quantile = 2,
                                           .series = entry,
                                           .n_series = 2 };

static char *text_of(const struct spot_price_doc *price)
{
    char *text = NULL;
    size_t n;
    FILE *const out = open_memstream(&text, &n);
    struct spot_err err = { 0 };

    ck_assert_msg(!spot_price_write(price, out, NULL, &err), "%s", err.msg);
    fclose(out);
    return text;
}

START_TEST(what_is_written_is_read)
{
    char *const text = text_of(&doc);
    struct spot_json_doc json;
    struct spot_price_doc got;
    struct spot_err err = { 0 };

    ck_assert_int_eq(spot_json_parse(&json, text, strlen(text), "t", &err), 0);
    ck_assert_msg(!spot_price_read(&json, &got, &err), "%s", err.msg);
    ck_assert(got.interval_s == 60 && got.horizon == 2 && got.n_quantile == 2);
    ck_assert(got.quantile[0] == 0.1 && got.quantile[1] == 0.9);
    ck_assert_str_eq(got.model, "steps");
    ck_assert_uint_eq(got.n_series, 2);
    for (size_t i = 0; i < 2; i++) {
        const struct spot_price_entry *const e = &got.series[i], *const was = &entry[i];

        ck_assert_ptr_eq(spot_price_find(&got, was->zone, was->instance_type, was->market), e);
        ck_assert_str_eq(e->model, was->model);
        ck_assert(e->time_s == was->time_s && e->now_usd_per_h == was->now_usd_per_h);
        ck_assert(e->mean_usd_per_h == was->mean_usd_per_h && e->n_change == was->n_change);
        ck_assert_mem_eq(e->step, was->step, sizeof(a_step));
        ck_assert_mem_eq(e->quantile_usd_per_h, was->quantile_usd_per_h, sizeof(a_quantile));
    }
    ck_assert_ptr_null(spot_price_find(&got, "z2", "m", "spot"));
    ck_assert_ptr_null(spot_price_find(&got, "z1", "n", "spot"));
    spot_price_release(&got);
    spot_json_release(&json);
    free(text);
}
END_TEST

START_TEST(what_no_model_says_and_keys_that_nobody_knows_are_left)
{
    char *const text = text_of(&doc);
    char *const less = edited(text, "  \"model\": \"steps\",\n", "  \"colour\": {\"red\": 1},\n");
    char *const least = edited(less, "\"past_changes\": 12", "\"shade\": null");
    struct spot_json_doc json;
    struct spot_price_doc got;
    struct spot_err err = { 0 };

    ck_assert_int_eq(spot_json_parse(&json, least, strlen(least), "t", &err), 0);
    ck_assert_msg(!spot_price_read(&json, &got, &err), "%s", err.msg);
    ck_assert_str_eq(got.model, "");
    ck_assert_int_eq(got.series[0].n_change, 0);
    spot_price_release(&got);
    spot_json_release(&json);
    free(text);
    free(less);
    free(least);
}
END_TEST

/* Each is the good document with the first of one text replaced. Messages without the position,
 * which ends before the pointer. */
static const struct {
    const char *from, *to, *want;
} bad[] = {
    { "price/1", "price/2", "/schema: expected \"spot.price/1\", got \"spot.price/2\"" },
    { "\"interval_s\": 60", "\"interval_s\": 0",
      "/interval_s: 0 is outside [0.001, 1000000000] s" },
    { "\"horizon\": 2", "\"horizon\": 1025", "/horizon: 1025 is outside [1, 1024]" },
    { "\"horizon\": 2", "\"horizon\": 3",
      "/series/0/price: expected 3 steps (the horizon), got 2" },
    { "\"quantiles\"", "\"quantile\"", "/: lacks the key 'quantiles'" },
    { "0.1,0.9", "0.1,\"0.9\"", "/quantiles/1: expected a number" },
    { "0.1,0.9", "0,0.9", "/quantiles/0: 0 is outside [1e-06, 0.999999]" },
    { "0.1,0.9", "0.9,0.1", "/quantiles/1: 0.1 is below the one before it, 0.9" },
    { "0.1,0.9", "0.1",
      "/series/0/price/0/quantiles_usd_per_h: expected 1 prices (quantiles), got 2" },
    { "\"series\"", "\"serie5\"", "/: lacks the key 'series'" },
    { "\"zone\": \"z1\"", "\"zone\": 1", "/series/0/zone: expected a string" },
    { "\"market\": \"spot\"", "\"market\": \"Spot\"",
      "/series/0/market: expected spot or on_demand, got 'Spot'" },
    { "\"market\": \"spot\"", "\"market\": \"on_demand\"",
      "/series/1: duplicate series: zone 'z1', type 'm', market on_demand" },
    { "\"time_s\": 100", "\"time_s\": 1e16",
      "/series/0/time_s: 1e+16 is outside [-1e+15, 1e+15] s" },
    { "\"price\"", "\"prize\"", "/series/0: lacks the key 'price'" },
    { "\"step\": 2", "\"step\": 1", "/series/0/price/1: expected step 2, got 1" },
    { "\"higher_prob\": 0.5", "\"higher_prob\": 0.8",
      "/series/0/price/0: lower_prob and higher_prob sum to more than 1" },
    { "\"quantiles_usd_per_h\": [1,2]", "\"quantiles_usd_per_h\": [2,1]",
      "/series/0/price/0/quantiles_usd_per_h/1: 1 is below the one before it, 2" },
    { "\"quantiles_usd_per_h\": [1,2]", "\"quantiles_usd_per_h\": [1,null]",
      "/series/0/price/0/quantiles_usd_per_h/1: expected a number" },
};

START_TEST(what_cannot_be_is_refused_where_it_is)
{
    char *const text = text_of(&doc), *const wrong = edited(text, bad[_i].from, bad[_i].to);
    struct spot_json_doc json;
    struct spot_price_doc got;
    struct spot_err err = { 0 };

    ck_assert_int_eq(spot_json_parse(&json, wrong, strlen(wrong), "t", &err), 0);
    expect_refused_at(spot_price_read(&json, &got, &err), &err, bad[_i].want);
    ck_assert_ptr_null(got.series);
    spot_json_release(&json);
    free(text);
    free(wrong);
}
END_TEST

START_TEST(no_series_is_no_forecast)
{
    static const char none[] = "{\"schema\":\"spot.price/1\",\"interval_s\":1,\"horizon\":1,"
                               "\"quantiles\":[],\"series\":[]}";
    struct spot_json_doc json;
    struct spot_price_doc got;
    struct spot_err err = { 0 };

    ck_assert_int_eq(spot_json_parse(&json, none, strlen(none), "t", &err), 0);
    expect_refused_at(spot_price_read(&json, &got, &err), &err,
                      "/series: is empty, expected at least one series");
    spot_json_release(&json);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    tcase_add_loop_test(tc, what_cannot_be_is_refused_where_it_is, 0, sizeof(bad) / sizeof(bad[0]));
    add_tests(tc);
    return run_suite("price_doc", tc);
}
