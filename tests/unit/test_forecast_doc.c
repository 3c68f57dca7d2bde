/* SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model/forecast_doc.h"
#include "suite.h"

/* Goal: whatever the reader accepts is a set of distributions within their bounds, everything else
 * is refused with its place, and what the writer writes is read back unchanged. */

#define HEAD "{\"schema\":\"spot.forecast/1\",\"interval_s\":60,\"horizon\":1,\"model\":\"m\","
#define SERIES(now, steps, change)                                             \
    HEAD "\"series\":[{\"zone\":\"a\",\"time_s\":0,\"now\":" now ",\"cap\":2," \
         "\"available\":[" steps "],\"change\":[" change "]}]}"
#define STEP   "{\"step\":1,\"mean\":1,\"p\":[0.25,0.5,0.25]}"
#define CHANGE "{\"lost\":0,\"gained\":0,\"p\":0.5},{\"lost\":1,\"gained\":0,\"p\":0.5}"

#define ONE(zone)                                                                  \
    "{\"zone\":\"" zone "\",\"time_s\":0,\"now\":1,\"cap\":2,\"available\":[" STEP \
    "],\"change\":[" CHANGE "]}"
#define REGION(name)                                                                   \
    "{\"region\":\"" name "\",\"instance_type\":\"g\",\"zones\":2,\"shock_prob\":0.1," \
    "\"loss_lift\":1,\"calm_lift\":1}"

#define STARTS(start)                                                              \
    HEAD "\"series\":[{\"time_s\":0,\"now\":1,\"cap\":2,\"available\":[" STEP "]," \
         "\"change\":[" CHANGE "]," start "}]}"
#define START(stays)                                                                \
    "\"start\":{\"granted\":0.5,\"stays_1h\":0.75,\"probe_age_s\":60,\"probes\":3," \
    "\"stays\":" stays "}"
#define SHOCK(reach) \
    "\"shock\":{\"own_per_h\":1,\"shock_per_h\":2,\"reach\":" reach ",\"together\":0.9}"

static const char good[] = SERIES("1", STEP, CHANGE);

static const struct bad_case {
    const char *text;
    const char *message; /* after the position */
} bad_cases[] = {
    { "{\"schema\":\"spot.plan/1\"}",
      "/schema: expected \"spot.forecast/1\", got \"spot.plan/1\"" },
    { "{\"schema\":\"spot.forecast/2\"}",
      "/schema: expected \"spot.forecast/1\", got \"spot.forecast/2\"" },
    { HEAD "\"series\":[]}", "/series: is empty, expected at least one series" },
    { HEAD "\"series\":[3]}", "/series/0: expected an object" },
    { SERIES("3", STEP, CHANGE), "/series/0: now is 3, above the cap of 2" },
    { SERIES("1.5", STEP, CHANGE), "/series/0/now: expected an integer" },
    { SERIES("1", "", CHANGE), "/series/0/available: expected 1 steps (the horizon), got 0" },
    { SERIES("1", "{\"step\":2,\"p\":[0,1,0]}", CHANGE),
      "/series/0/available/0: expected step 1, got 2" },
    { SERIES("1", "{\"step\":1,\"p\":[0,1]}", CHANGE),
      "/series/0/available/0/p: expected 3 probabilities (0..cap), got 2" },
    { SERIES("1", "{\"step\":1,\"p\":[-0.5,1,0.5]}", CHANGE),
      "/series/0/available/0/p/0: -0.5 is not a probability" },
    { SERIES("1", "{\"step\":1,\"p\":[0,1,\"x\"]}", CHANGE),
      "/series/0/available/0/p/2: expected a number" },
    { SERIES("1", "{\"step\":1,\"p\":[0,0.9,0]}", CHANGE),
      "/series/0/available/0/p: sums to 0.9, expected 1" },
    { SERIES("1", "{\"step\":1,\"p\":[0,0.99999,0]}", CHANGE),
      "/series/0/available/0/p: sums to 0.99999, expected 1" },
    { SERIES("1", "{\"step\":1,\"mean\":2,\"p\":[0,1,0]}", CHANGE),
      "/series/0/available/0: mean 2, but its distribution has mean 1" },
    { SERIES("1", STEP, ""), "/series/0/change: sums to 0, expected 1" },
    { SERIES("1", STEP, "{\"lost\":2,\"gained\":0,\"p\":1}"),
      "/series/0/change/0: lost 2 of 1 instances" },
    { SERIES("1", STEP, "{\"lost\":0,\"gained\":2,\"p\":1}"),
      "/series/0/change/0: gained 2, which exceeds the cap of 2" },
    { SERIES("1", STEP, "{\"lost\":0,\"gained\":0,\"p\":1.5}"),
      "/series/0/change/0/p: 1.5 is outside [0, 1]" },
    { SERIES("1", STEP, "{\"lost\":0,\"gained\":0,\"p\":0.5},{\"lost\":0,\"gained\":0,\"p\":0.5}"),
      "/series/0/change: has lost 0, gained 0 twice" },
    { SERIES("1", STEP, "{\"lost\":0,\"p\":1}"), "/series/0/change/0: lacks the key 'gained'" },
    { HEAD "\"series\":[" ONE("a") "," ONE("b") "," ONE("a") "]}",
      "/series/2: is zone 'a', instance type '' again, as /series/0 is" },
    { HEAD
      "\"series\":[" ONE("a") "],\"regions\":[" REGION("r") "," REGION("q") "," REGION("r") "]}",
      "/regions/2: names 'r' again, as /regions/0 does" },
    { HEAD "\"series\":[" ONE("a") "],\"regions\":[7]}", "/regions/0: expected an object" },
    { HEAD "\"series\":[" ONE("a") "],\"regions\":[{\"region\":\"r\",\"zones\":2,"
                                   "\"shock_prob\":0.5,\"loss_lift\":1.5,\"calm_lift\":1}]}",
      "/regions/0: shock_prob * loss_lift + (1 - shock_prob) * calm_lift is 1.25, expected 1" },
    { STARTS(START("[0.5,0.25]")), "/series/0/start/stays: expected 1 steps" },
    { STARTS(START("[1.5]")), "/series/0/start/stays/0: expected a probability" },
    { STARTS("\"start\":{\"granted\":0.5}"), "/series/0/start: lacks the key" },
    { STARTS(SHOCK("1.5")), "/series/0/shock/reach: 1.5 is outside [0, 1]" },
};

static int read_text(const char *text, struct spot_json_doc *doc, struct spot_forecast *out,
                     struct spot_err *err)
{
    int rc;

    if (spot_json_parse(doc, text, strlen(text), "t", err))
        return -1;
    rc = spot_forecast_read(doc, out, err);
    if (rc)
        spot_json_release(doc);
    return rc;
}

START_TEST(refuses_malformed_with_its_place)
{
    const struct bad_case *c = &bad_cases[_i];
    struct spot_err err = { 0 };
    struct spot_json_doc doc;
    struct spot_forecast out;

    ck_assert_int_eq(read_text(c->text, &doc, &out, &err), -1);
    ck_assert_msg(strstr(err.msg, c->message) != NULL, "%s\nlacks: %s", err.msg, c->message);
    ck_assert_int_eq(err.code, SPOT_EDATA);
}
END_TEST

/* The reader counts before it reserves: 129 steps of 65536 probabilities are a few too many. */
START_TEST(a_series_has_eight_million_probabilities_at_most)
{
    enum { STEPS = 129 };
    struct spot_err err = { 0 };
    struct spot_json_doc doc;
    struct spot_forecast out;
    char text[1024];
    size_t n = (size_t)snprintf(text, sizeof(text),
                                "{\"schema\":\"spot.forecast/1\",\"interval_s\":60,\"horizon\":%d,"
                                "\"series\":[{\"time_s\":0,\"now\":1,\"cap\":65535,"
                                "\"available\":[0",
                                STEPS);

    for (int i = 1; i < STEPS; i++)
        n += (size_t)snprintf(text + n, sizeof(text) - n, ",0");
    snprintf(text + n, sizeof(text) - n, "]}]}");
    ck_assert_int_eq(read_text(text, &doc, &out, &err), -1);
    ck_assert_msg(strstr(err.msg, "/series/0/available: more than 8388608 probabilities") != NULL,
                  "%s", err.msg);
}
END_TEST

START_TEST(a_forecast_of_load_is_none_of_instances)
{
    struct spot_err err = { 0 };
    struct spot_json_doc doc;
    struct spot_forecast f;
    char load[sizeof(good) + 8];
    const char *const at = strstr(good, "\"m\"");

    ck_assert_int_eq(spot_json_parse(&doc, good, strlen(good), "t", &err), 0);
    ck_assert_msg(!spot_forecast_read_instances(&doc, &f, &err), "%s", err.msg);
    spot_forecast_release(&f);
    spot_json_release(&doc);
    snprintf(load, sizeof(load), "%.*s\"load\"%s", (int)(at - good), good, at + 3);
    ck_assert_int_eq(spot_json_parse(&doc, load, strlen(load), "t", &err), 0);
    ck_assert_int_eq(spot_forecast_read_instances(&doc, &f, &err), -1);
    ck_assert_msg(strstr(err.msg, "/model: a forecast of load, expected one of instances") != NULL,
                  "%s", err.msg);
    ck_assert_ptr_null(f.series);
    spot_json_release(&doc);
}
END_TEST

START_TEST(series_of_another_type_are_dropped_and_those_of_none_stay)
{
#define OF(zone, type)                                                                        \
    "{\"zone\":\"" zone "\",\"instance_type\":\"" type "\",\"time_s\":0,\"now\":1,\"cap\":2," \
    "\"available\":[" STEP "],\"change\":[" CHANGE "]}"
    static const char text[] = HEAD "\"series\":[" OF("a", "g") "," OF("a", "h") "," ONE("b") "]}";
    struct spot_err err = { 0 };
    struct spot_json_doc doc;
    struct spot_forecast f;

    ck_assert_msg(!read_text(text, &doc, &f, &err), "%s", err.msg);
    ck_assert_uint_eq(spot_forecast_keep(&f, "h"), 2);
    ck_assert_uint_eq(f.n_series, 2);
    ck_assert_str_eq(f.series[0].instance_type, "h");
    ck_assert_str_eq(f.series[1].zone, "b");
    ck_assert_uint_eq(spot_forecast_keep(&f, "i"), 1);
    ck_assert_str_eq(f.series[0].zone, "b");
    spot_forecast_release(&f);
    spot_json_release(&doc);
}
END_TEST

START_TEST(reads_distributions_and_their_median)
{
    struct spot_err err = { 0 };
    struct spot_json_doc doc;
    struct spot_forecast f;

    ck_assert_msg(!read_text(good, &doc, &f, &err), "%s", err.msg);
    ck_assert_uint_eq(f.n_series, 1);
    ck_assert_str_eq(f.series[0].zone, "a");
    ck_assert_str_eq(f.series[0].instance_type, "");
    ck_assert_double_eq(f.series[0].mean[0], 1);
    ck_assert_int_eq(spot_forecast_quantile(&f.series[0], 1, 0.5), 1);
    ck_assert_int_eq(spot_forecast_quantile(&f.series[0], 1, 0.2), 0);
    ck_assert_int_eq(spot_forecast_quantile(&f.series[0], 1, 0.9), 2);
    ck_assert_uint_eq(f.series[0].n_change, 2);
    ck_assert_int_eq(f.series[0].change[1].lost, 1);
    spot_forecast_release(&f);
    spot_json_release(&doc);
}
END_TEST

static const char with_regions[] =
    HEAD "\"series\":[" ONE("a") "],\"regions\":[" REGION("r") "," REGION("q") "]}";

/* Oracle: the distributions' own formulas. */
START_TEST(dispersion_is_one_of_poisson_and_less_of_a_binomial)
{
    enum { CAP = 200 };
    static double poisson[CAP + 1], binomial[2 * (CAP + 1)], none[CAP + 1] = { 1 };
    const struct spot_forecast_series of_poisson = { .cap = CAP, .prob = poisson },
                                      of_binomial = { .cap = CAP, .prob = binomial },
                                      of_none = { .cap = CAP, .prob = none };

    for (int k = 0; k <= CAP; k++) {
        poisson[k] = exp(k * log(7.5) - 7.5 - lgamma(k + 1.0));
        if (k <= 40)
            binomial[CAP + 1 + k] = exp(lgamma(41) - lgamma(k + 1.0) - lgamma(41.0 - k) +
                                        k * log(0.3) + (40 - k) * log(0.7));
    }
    ck_assert_double_eq_tol(spot_forecast_dispersion(&of_poisson, 1), 1, 1e-9);
    ck_assert_double_eq_tol(spot_forecast_dispersion(&of_binomial, 2), 0.7, 1e-9);
    ck_assert_double_eq(spot_forecast_dispersion(&of_none, 1), 1);
}
END_TEST

START_TEST(writes_what_it_reads)
{
    const char *const text[] = { good, with_regions, STARTS(START("[0.5]") "," SHOCK("0.25")) };
    struct spot_err err = { 0 };
    struct spot_json_doc doc;
    struct spot_forecast f;
    char *first = NULL, *second = NULL;
    size_t n_first, n_second;
    FILE *out = open_memstream(&first, &n_first);

    ck_assert_msg(!read_text(text[_i], &doc, &f, &err), "%s", err.msg);
    ck_assert_msg(!spot_forecast_write(&f, out, NULL, &err), "%s", err.msg);
    fclose(out);
    spot_forecast_release(&f);
    spot_json_release(&doc);
    out = open_memstream(&second, &n_second);
    ck_assert_msg(!read_text(first, &doc, &f, &err), "%s", err.msg);
    ck_assert_msg(!spot_forecast_write(&f, out, NULL, &err), "%s", err.msg);
    fclose(out);
    ck_assert_str_eq(first, second);
    ck_assert_uint_eq(f.n_region, _i == 1 ? 2 : 0);
    ck_assert(_i != 2 || (strstr(second, "\"stays\"") && strstr(second, "\"together\"")));
    spot_forecast_release(&f);
    spot_json_release(&doc);
    free(first);
    free(second);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    tcase_add_loop_test(tc, refuses_malformed_with_its_place, 0,
                        sizeof(bad_cases) / sizeof(bad_cases[0]));
    tcase_add_loop_test(tc, writes_what_it_reads, 0, 3);
    add_tests(tc);
    return run_suite("forecast_doc", tc);
}
