/* SPDX-License-Identifier: MIT */
/* Goal: what a deadline job is told of its places becomes a market: restart times with their
 * chances, regions by the names of zones, prices and speeds by a catalogue. */
#include <math.h>

#include "doc_rig.h"
#include "plan/market_read.h"

START_TEST(restart_times_are_one_or_several_with_their_chances)
{
    struct spot_market m = { .n_restart = 5 };
    struct spot_err err = { 0 };

    ck_assert_int_eq(spot_market_parse_restart(&m, "12m", &err), 0);
    ck_assert(m.n_restart == 1 && m.restart_s[0] == 720 && m.restart_prob[0] == 1);
    ck_assert_int_eq(spot_market_parse_restart(&m, "90:.5,12m:.3,1h:.2", &err), 0);
    ck_assert_uint_eq(m.n_restart, 3);
    ck_assert(m.restart_s[0] == 90 && m.restart_s[1] == 720 && m.restart_s[2] == 3600);
    ck_assert(m.restart_prob[0] == 0.5 && m.restart_prob[1] == 0.3 && m.restart_prob[2] == 0.2);
}
END_TEST

static const char *const bad_restart[] = {
    "", "soon", "-1", "1:", "1:0", "1:1.5", "1:.5x", "1,,2"
};

START_TEST(what_is_no_time_or_no_chance_is_refused)
{
    struct spot_market m;
    struct spot_err err = { 0 };

    ck_assert_int_eq(spot_market_parse_restart(&m, bad_restart[_i], &err), -1);
    ck_assert_int_eq(err.code, SPOT_EUSAGE);
    ck_assert_msg(!strncmp(err.msg, "--restart: expected TIME or TIME:PROBABILITY,.., got '", 54),
                  "%s", err.msg);
}
END_TEST

START_TEST(there_are_eight_restart_times_at_most)
{
    struct spot_market m;
    struct spot_err err = { 0 };

    ck_assert_int_eq(spot_market_parse_restart(&m, "1,2,3,4,5,6,7,8", &err), 0);
    ck_assert_uint_eq(m.n_restart, SPOT_MARKET_RESTARTS_MAX);
    expect_fail(spot_market_parse_restart(&m, "1,2,3,4,5,6,7,8,9", &err), &err, SPOT_EUSAGE,
                "--restart: more than 8 times");
}
END_TEST

START_TEST(places_whose_zones_share_a_region_are_near)
{
    static const struct {
        const char *zone;
        int region; /* that of the first place with it */
    } place[] = { { "us-east-1a", 0 }, { "eu-west-4-b", 1 }, { "us-east-1c", 0 },
                  { "lab", 3 },        { "eu-west-4-a", 1 }, { "lab", 3 },
                  { "use1-az1", 6 },   { "use1-az12", 6 },   { "usw2-az1", 8 } };
    struct spot_market m = { .n_place = 0 };
    struct spot_market_names names;
    struct spot_err err = { 0 };

    for (size_t i = 0; i < sizeof(place) / sizeof(place[0]); i++) {
        ck_assert_int_eq(spot_market_add_place(&m, &names, place[i].zone, "g", 0.5, 2, &err), 0);
        ck_assert_int_eq(m.place[i].region, place[i].region);
        ck_assert_str_eq(names.zone[i], place[i].zone);
    }
    ck_assert(m.n_place == 9 && m.place[3].spot_usd_per_h == 0.5 && m.place[3].speed == 1);
    ck_assert(m.place[3].on_demand_usd_per_h == 2);
    while (m.n_place < SPOT_MARKET_PLACES_MAX)
        ck_assert_int_eq(spot_market_add_place(&m, &names, "lab", "g", 0.5, 2, &err), 0);
    expect_fail(spot_market_add_place(&m, &names, "lab", "g", 0.5, 2, &err), &err, SPOT_EUSAGE,
                "more than 16 places: --zone names some");
}
END_TEST

/* Two places of the same type and one of another. */
static int read_catalogue(struct spot_market *m, const char *text, const char *source,
                          struct spot_err *err, char path[32])
{
    struct spot_market_names names = { 0 };
    struct spot_prov prov = { 0 };
    int rc;

    *m = (struct spot_market){ .n_place = 0 };
    ck_assert_int_eq(spot_market_add_place(m, &names, "a", "g", 9, 9, err), 0);
    ck_assert_int_eq(spot_market_add_place(m, &names, "b", "g", -1, 9, err), 0);
    ck_assert_int_eq(spot_market_add_place(m, &names, "b", source && *source ? "h" : "", 9, 9, err),
                     0);
    put_file(path, text, strlen(text));
    rc = spot_market_read_catalogue(m, &names, 0, path, source && *source ? source : NULL, &prov,
                                    err);
    ck_assert(rc || prov.n_input == 1);
    spot_prov_release(&prov);
    unlink(path);
    return rc;
}

#define HEAD "zone,instance_type,spot_usd_per_h,on_demand_usd_per_h,speed\n"

START_TEST(prices_and_speeds_are_those_of_the_last_row_that_fits_a_place)
{
    struct spot_market m;
    struct spot_err err = { 0 };
    char path[32];

    ck_assert_msg(!read_catalogue(&m,
                                  HEAD ",g,0.5,2,\nb,g,0.25,,1.5\n,h,1,4,2\nc,g,7,7,7\n,x,1,1,1\n",
                                  "t.csv", &err, path),
                  "%s", err.msg);
    ck_assert(m.place[0].spot_usd_per_h == 0.5 && m.place[0].on_demand_usd_per_h == 2);
    ck_assert(m.place[0].speed == 1);
    ck_assert(m.place[1].spot_usd_per_h == 0.25 && isinf(m.place[1].on_demand_usd_per_h));
    ck_assert(m.place[1].speed == 1.5);
    ck_assert(m.place[2].spot_usd_per_h == 1 && m.place[2].speed == 2);
}
END_TEST

START_TEST(a_place_without_a_row_or_a_price_of_spot_is_named)
{
    struct spot_market m;
    struct spot_err err = { 0 };
    char path[32], want[160];

    ck_assert_int_eq(read_catalogue(&m, HEAD ",g,0.5,2,\n", "t.csv", &err, path), -1);
    snprintf(want, sizeof(want), "%s: no row for type 'h' in zone 'b'", path);
    ck_assert_str_eq(err.msg, want);
    ck_assert_int_eq(read_catalogue(&m, HEAD ",g,,2,\n,h,1,1,1\n", "t.csv", &err, path), -1);
    snprintf(want, sizeof(want),
             "%s:2:4: spot_usd_per_h: no price of spot for type 'g' in zone 'b': none here", path);
    ck_assert_str_eq(err.msg, want);
    ck_assert_int_eq(err.code, SPOT_EDATA);
    /* no type was named: by nothing, or by a trace that has none */
    ck_assert_int_eq(read_catalogue(&m, HEAD ",g,1,2,\n", "", &err, path), -1);
    snprintf(want, sizeof(want),
             "the prices of '%s' are by type: a trace or forecast has to name it", path);
    ck_assert_str_eq(err.msg, want);
    ck_assert_int_eq(err.code, SPOT_EUSAGE);
}
END_TEST

START_TEST(a_trace_without_types_is_named_and_a_catalogue_without_rows)
{
    struct spot_market m = { .n_place = 0 };
    struct spot_market_names names;
    struct spot_err err = { 0 };
    char path[32], want[160];

    ck_assert_int_eq(spot_market_add_place(&m, &names, "a", "", 1, 1, &err), 0);
    put_file(path, HEAD ",g,1,2,\n", strlen(HEAD ",g,1,2,\n"));
    ck_assert_int_eq(spot_market_read_catalogue(&m, &names, 0, path, "t.csv", NULL, &err), -1);
    snprintf(want, sizeof(want), "t.csv: instance_type is missing: the prices of '%s' are by it",
             path);
    ck_assert_str_eq(err.msg, want);
    unlink(path);
    ck_assert_int_eq(spot_market_read_catalogue(&m, &names, 0, path, "t.csv", NULL, &err), -1);
    ck_assert_int_eq(err.code, SPOT_ESYS);
}
END_TEST

START_TEST(a_list_of_zones_has_those_that_it_names)
{
    static const char list[] = "us-1a,us-1,eu-2b";

    ck_assert(spot_market_takes_zone(NULL, "us-1a"));
    ck_assert(spot_market_takes_zone(list, "us-1a") && spot_market_takes_zone(list, "us-1"));
    ck_assert(spot_market_takes_zone(list, "eu-2b"));
    ck_assert(!spot_market_takes_zone(list, "eu-2") && !spot_market_takes_zone(list, "2b"));
    ck_assert(!spot_market_takes_zone(list, "us-1a,us-1,eu-2b,"));
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    tcase_add_loop_test(tc, what_is_no_time_or_no_chance_is_refused, 0,
                        sizeof(bad_restart) / sizeof(bad_restart[0]));
    add_tests(tc);
    return run_suite("market_read", tc);
}
