/* SPDX-License-Identifier: MIT */
/* Goal: the page of a fleet is told what was paid and served, and each forecast beside what came of
 * it. */
#include "fleet/fleet_history.h"

#include "fleet/arrivals.h"
#include "fleet_rig.h"

static struct spot_json_doc written(const struct spot_fleet_history *h)
{
    struct spot_json_doc doc;
    struct spot_err err;
    struct spot_jw jw;
    char *text;
    size_t n;
    FILE *out = spot_xmemory_open(&text, &n);

    spot_jw_init(&jw, out, false);
    spot_jw_object(&jw, NULL);
    spot_fleet_history_write(h, &jw);
    spot_jw_end(&jw);
    ck_assert_int_eq(spot_jw_close(&jw, &err), 0);
    spot_xmemory_close(out);
    ck_assert_int_eq(spot_json_parse(&doc, text, n, "history", &err), 0);
    free(text);
    return doc;
}

static double number_at(const struct spot_json_value *v, size_t i)
{
    return spot_json_number(spot_json_entry(v, i));
}

START_TEST(money_and_served_time_are_sums_of_what_was_held_between_turns)
{
    struct spot_fleet_history *h = spot_fleet_history_new();
    struct rig *r = rig_new();
    struct spot_fleet_sums sum;

    rig_price(r, "a", false, 36);
    rig_price(r, "", true, 72);
    rig_want(r, "a", false, 2);
    rig_tick(r); /* two are asked for, and launched at once: none is listed yet */
    spot_fleet_history_add(h, r->fleet, 1, NULL);
    rig_tick(r);
    spot_fleet_history_add(h, r->fleet, 1, NULL);
    rig_tick(r);
    spot_fleet_history_add(h, r->fleet, 3, NULL); /* more is wanted from here on */
    rig_tick(r);
    spot_fleet_history_add(h, r->fleet, 3, NULL);
    sum = spot_fleet_history_sums(h);
    ck_assert_double_eq_tol(sum.watched_s, 30, 1e-9);
    ck_assert_double_eq_tol(sum.served_s, 10, 1e-9);
    ck_assert_double_eq_tol(sum.usd, 30 * 2 * 36 / 3600., 1e-9);
    ck_assert_double_eq_tol(sum.on_demand_usd, 2 * sum.usd, 1e-9);
    spot_fleet_history_free(h);
    rig_free(r);
}
END_TEST

/* One that is certain: `now` machines, and so many more at each step. */
static void forecast_certain(struct spot_fleet_history *h, const struct rig *r, double time_s,
                             int now, int slope)
{
    enum { STEPS = 8, CAP = 200 };
    static double prob[STEPS * (CAP + 1)], mean[STEPS];
    struct spot_forecast_series series = { .zone = "a",
                                           .instance_type = "gpu",
                                           .time_s = time_s,
                                           .now = now,
                                           .cap = CAP,
                                           .mean = mean,
                                           .prob = prob };
    const struct spot_forecast f = {
        .interval_s = 60, .horizon = STEPS, .series = &series, .n_series = 1
    };

    memset(prob, 0, sizeof(prob));
    for (int i = 0; i < STEPS; i++)
        prob[i * (CAP + 1) + now + slope * (i + 1)] = 1;
    spot_fleet_history_add(h, r->fleet, -1, &f);
}

START_TEST(what_came_stands_beside_the_forecast_of_six_steps_before)
{
    struct spot_fleet_history *h = spot_fleet_history_new();
    struct rig *r = rig_new();
    const struct spot_json_value *came, *row;
    struct spot_json_doc doc;

    for (int i = 0; i < 10; i++) {
        forecast_certain(h, r, i * 60, i, 2);
        forecast_certain(h, r, i * 60, 100, 0); /* of the same time: no news */
    }
    doc = written(h);
    row = spot_json_entry(spot_json_get(doc.root, "series"), 0);
    came = spot_json_get(row, "came");
    ck_assert_uint_eq(spot_json_array_size(came), 10);
    ck_assert_uint_eq(spot_json_array_size(spot_json_entry(came, 5)), 2); /* none had been made */
    row = spot_json_entry(came, 8);
    ck_assert_double_eq(number_at(row, 1), 8);
    ck_assert_double_eq(number_at(row, 3), 2 + 2 * 6); /* made at 2, six steps ahead */
    row = spot_json_get(spot_json_entry(spot_json_get(doc.root, "series"), 0), "fan");
    ck_assert_uint_eq(spot_json_array_size(row), 8);
    ck_assert_double_eq(number_at(spot_json_entry(row, 0), 0), 600);
    ck_assert_double_eq(number_at(spot_json_entry(row, 0), 2), 9 + 2);
    spot_json_release(&doc);
    spot_fleet_history_free(h);
    rig_free(r);
}
END_TEST

START_TEST(a_long_history_is_thinned_and_keeps_its_begin_and_its_end)
{
    struct spot_fleet_history *h = spot_fleet_history_new();
    struct rig *r = rig_new();
    const struct spot_json_value *points;
    struct spot_json_doc doc;
    size_t n;

    for (int i = 0; i < 5000; i++) {
        r->now_s += 10;
        spot_fleet_decide(r->fleet, r->now_s, &(struct spot_fleet_action *){ NULL });
        spot_fleet_history_add(h, r->fleet, -1, NULL);
    }
    doc = written(h);
    points = spot_json_get(doc.root, "points");
    n = spot_json_array_size(points);
    ck_assert(n > SPOT_FLEET_POINTS / 2 - 1 && n <= SPOT_FLEET_POINTS);
    ck_assert_double_eq_tol(number_at(spot_json_entry(points, 0), 0), 10, 1e-6);
    ck_assert_double_eq_tol(number_at(spot_json_entry(points, n - 1), 0), 50000, 1e-6);
    ck_assert_double_eq_tol(spot_fleet_history_sums(h).watched_s, 49990, 1e-6);
    spot_json_release(&doc);
    spot_fleet_history_free(h);
    rig_free(r);
}
END_TEST

START_TEST(arrivals_are_what_was_counted_between_looks_and_rest_is_told)
{
    struct spot_fleet_arrivals a = { .kept_s = 100 };
    char text[512] = "";
    FILE *out = fmemopen(text, sizeof(text), "w");

    ck_assert(!spot_fleet_arrivals_came(&a, 10) && !spot_fleet_arrivals_is_at_rest(&a));
    spot_fleet_arrivals_add(&a, &(struct spot_fleet_look){ 0, 5, 50, 100, 0 });
    ck_assert(!spot_fleet_arrivals_came(&a, 10)); /* of before it is not known when */
    spot_fleet_arrivals_add(&a, &(struct spot_fleet_look){ 10, 7, 70, 104, 0 });
    spot_fleet_arrivals_add(&a, &(struct spot_fleet_look){ 20, 8, 170, 104, 0 });
    ck_assert(spot_fleet_arrivals_came(&a, 10));
    spot_fleet_arrivals_write(&a, out);
    fclose(out);
    ck_assert_str_eq(text, "time_s,prompt_tokens,output_tokens\n"
                           "5.000,10,2\n10.000,10,2\n20.000,100,1\n");
    for (int i = 0; i < 12; i++) {
        ck_assert_int_eq(spot_fleet_arrivals_is_at_rest(&a), i > 8);
        spot_fleet_arrivals_add(&a, &(struct spot_fleet_look){ 30 + i * 10, 8, 170, 104, 0 });
    }
    ck_assert(spot_fleet_arrivals_is_at_rest(&a) && !spot_fleet_arrivals_came(&a, 60));
    spot_fleet_arrivals_add(&a, &(struct spot_fleet_look){ 150, 9, 170, 104, 0 });
    ck_assert(!spot_fleet_arrivals_is_at_rest(&a) && spot_fleet_arrivals_came(&a, 60));
    spot_fleet_arrivals_add(&a, &(struct spot_fleet_look){ 160, 0, 0, 0, 0 }); /* another front */
    ck_assert_uint_eq(a.n, 1);
    for (int i = 0; i < 12; i++) { /* one waits: it was counted long ago, and is no rest */
        spot_fleet_arrivals_add(&a, &(struct spot_fleet_look){ 170 + i * 10, 0, 0, 0, 1 });
        ck_assert(!spot_fleet_arrivals_is_at_rest(&a));
    }
    for (int i = 0; i < 2 * SPOT_FLEET_LOOKS; i++) /* more looks than there is room for */
        spot_fleet_arrivals_add(&a, &(struct spot_fleet_look){ 300 + i * 0.04, 0, 0, 0, 0 });
    ck_assert(!spot_fleet_arrivals_is_at_rest(&a)); /* 82 s */
    for (int i = 0; i < SPOT_FLEET_LOOKS / 2; i++)
        spot_fleet_arrivals_add(&a, &(struct spot_fleet_look){ 382 + i * 0.04, 0, 0, 0, 0 });
    ck_assert(spot_fleet_arrivals_is_at_rest(&a)); /* 102 s */
}
END_TEST

START_TEST(a_rest_is_told_however_often_the_front_is_looked_at)
{
    struct spot_fleet_arrivals a = { .kept_s = 600 };
    double rest_s = 0;

    for (int i = 0; i < 100; i++) /* a load of before; the last one came at 9.9 s */
        spot_fleet_arrivals_add(&a, &(struct spot_fleet_look){ i * 0.1, i, i, i, i % 2 });
    for (int i = 0; i < 100000 && !spot_fleet_arrivals_is_at_rest(&a); i++) {
        rest_s = i * 0.1;
        spot_fleet_arrivals_add(&a, &(struct spot_fleet_look){ 10 + rest_s, 99, 99, 99, 0 });
    }
    ck_assert_double_eq_tol(rest_s, 540, 1);
}
END_TEST

int main(void)
{
    return run_suite("fleet_history", add_tests(tcase_create("fleet_history")));
}
