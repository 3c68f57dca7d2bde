/* SPDX-License-Identifier: MIT */
/* Goal: what a trace file says is what a program sees, in both forms; anything
 * else is refused with its position. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/rng.h"
#include "common/xalloc.h"
#include "suite.h"
#include "trace/trace.h"

static int load(struct spot_trace *trace, const char *text, struct spot_err *err)
{
    FILE *in = tmpfile();
    int rc;

    ck_assert_ptr_nonnull(in);
    fputs(text, in);
    rewind(in);
    rc = spot_trace_load(trace, in, "t", err);
    fclose(in);
    return rc;
}

static void load_good(struct spot_trace *trace, const char *text)
{
    struct spot_err err = { 0 };

    ck_assert_msg(load(trace, text, &err) == 0, "%s", err.msg);
}

static const struct bad_case {
    const char *text, *message;
} bad_cases[] = {
    { "", "t: empty input, expected a CSV header" },
    { "time_s,available\n", "t:2:1: no rows after the header" },
    { "available\n1\n", "t:1:1: header lacks the column time_s" },
    { "time_s,time_s,available\n0,0,1\n", "t:1:8: header repeats the column time_s" },
    { "time_s\n1\n",
      "t:1:1: header has neither available nor event,node, expected one of the two forms" },
    { "time_s,event\n1,add\n",
      "t:1:1: header has neither available nor event,node, expected one of the two forms" },
    { "time_s,available,event,node\n1,1,add,a\n",
      "t:1:1: header has both available and event,node, expected one of the two forms" },
    { "time_s,available\n0,-1\n", "t:2:3: available: -1 is outside [0, 1048576]" },
    { "time_s,available\n0,1.5\n", "t:2:3: available: expected a whole number, got '1.5'" },
    { "time_s,available\n0,99999999\n", "t:2:3: available: 99999999 is outside [0, 1048576]" },
    { "time_s,available\n0,\n", "t:2:3: available: expected a number, got ''" },
    { "time_s,available\n0,nan\n", "t:2:3: available: expected a number, got 'nan'" },
    { "time_s,available\nNaN,1\n", "t:2:1: time_s: expected a number, got 'NaN'" },
    { "time_s,available\n2026-03-01T06:12:09Z,1\n",
      "t:2:1: time_s: expected seconds, got the date '2026-03-01T06:12:09Z'; spot-replay import "
      "reads dates" },
    { "time_s,available\ninf,1\n", "t:2:1: time_s: expected a number, got 'inf'" },
    { "time_s,available\n-1,1\n", "t:2:1: time_s: -1 is outside [0, 100000000000]" },
    { "time_s,available\n1e300,1\n", "t:2:1: time_s: 1e300 is outside [0, 100000000000]" },
    { "time_s,available\n60,1\n0,1\n", "t:3:1: time_s: time goes backwards: 0 after 60" },
    { "time_s,available,zone\n60,1,a\n0,1,b\n59.5,1,a\n",
      "t:4:1: time_s: time goes backwards: 59.5 after 60" },
    { "time_s,available,price_usd_per_h\n0,1,-2\n",
      "t:2:5: price_usd_per_h: -2 is outside [0, 1000000000]" },
    { "time_s,available,requested\n0,1,x\n", "t:2:5: requested: expected a number, got 'x'" },
    { "time_s,available,zone\n0,1,a\x01\n", "t:2:5: zone: control character in a name" },
    { "time_s,available\n0\n", "t:2:1: expected 2 fields, got 1" },
    { "time_s,available\n0,1,2\n", "t:2:1: expected 2 fields, got 3" },
    { "time_s,available\n0,\"1\n", "t:2:1: quoted field is never closed" },
    { "time_s,available\n0,1\n\xff,1\n", "t:3:1: not valid UTF-8" },
    { "time_s,event,node\n0,start,a\n",
      "t:2:3: event: expected add, remove or notice, got 'start'" },
    { "time_s,event,node\n0,add,\n", "t:2:7: node: expected a node's name, got an empty field" },
    { "time_s,event,node\n0,add,a\n1,add,a\n", "t:3:7: node: add of 'a', which is already there" },
    { "time_s,event,node\n0,remove,a\n", "t:2:10: node: remove of 'a', which is not there" },
    { "time_s,event,node\n0,notice,a\n", "t:2:10: node: notice of 'a', which is not there" },
    { "time_s,event,node\n0,add,a\n1,remove,a\n2,remove,a\n",
      "t:4:10: node: remove of 'a', which is not there" },
    { "time_s,event,node,zone\n0,add,a,x\n1,remove,a,y\n",
      "t:3:10: node: remove of 'a', which is not there" },
};

START_TEST(refuses_malformed_with_position)
{
    const struct bad_case *c = &bad_cases[_i];
    struct spot_err err = { 0 };
    struct spot_trace trace;

    ck_assert_int_eq(load(&trace, c->text, &err), -1);
    ck_assert_str_eq(err.msg, c->message);
    ck_assert_int_eq(err.code, SPOT_EDATA);
    ck_assert_uint_eq(trace.n_series, 0);
}
END_TEST

START_TEST(accepts_bom_crlf_no_final_newline_and_any_column_order)
{
    struct spot_trace trace;

    load_good(&trace, "\xEF\xBB\xBFzone,junk,available,time_s\r\na,x,3,0\r\na,\"y,z\",4,1.5");
    ck_assert_uint_eq(trace.n_series, 1);
    ck_assert_str_eq(trace.series[0].zone, "a");
    ck_assert_str_eq(trace.series[0].instance_type, "");
    ck_assert_uint_eq(trace.series[0].n, 2);
    ck_assert_double_eq(trace.series[0].time_s[1], 1.5);
    ck_assert_int_eq(trace.series[0].available[1], 4);
    ck_assert_ptr_null(trace.series[0].price_usd_per_h);
    ck_assert_ptr_null(trace.series[0].event);
    ck_assert_double_eq(trace.start_s, 0);
    ck_assert_double_eq(trace.end_s, 1.5);
    spot_trace_release(&trace);
}
END_TEST

START_TEST(separates_series_by_zone_and_type_in_order_of_appearance)
{
    struct spot_trace trace;
    char label[SPOT_TRACE_LABEL];

    load_good(&trace, "time_s,available,zone,instance_type\n"
                      "5,1,b,x\n0,2,a,x\n6,3,b,y\n7,4,b,x\n1,5,a,x\n");
    ck_assert_uint_eq(trace.n_series, 3);
    ck_assert_str_eq(spot_trace_label(&trace.series[0], label), "b/x");
    ck_assert_str_eq(spot_trace_label(&trace.series[1], label), "a/x");
    ck_assert_str_eq(spot_trace_label(&trace.series[2], label), "b/y");
    ck_assert_int_eq(trace.series[0].available[1], 4);
    ck_assert_int_eq(trace.series[1].available[1], 5);
    ck_assert_double_eq(trace.start_s, 0);
    ck_assert_double_eq(trace.end_s, 7);
    spot_trace_release(&trace);
}
END_TEST

START_TEST(the_later_of_two_rows_at_one_time_counts)
{
    struct spot_trace trace;

    load_good(&trace, "time_s,available,price_usd_per_h\n0,1,\n10,2,0.5\n10,3,0.75\n20,4,\n");
    ck_assert_uint_eq(trace.series[0].n, 3);
    ck_assert_int_eq(trace.series[0].available[1], 3);
    ck_assert_double_eq(trace.series[0].price_usd_per_h[1], 0.75);
    ck_assert(isnan(trace.series[0].price_usd_per_h[0]));
    ck_assert(isnan(trace.series[0].price_usd_per_h[2]));
    spot_trace_release(&trace);
}
END_TEST

START_TEST(counts_nodes_of_the_event_form)
{
    struct spot_trace trace;
    const struct spot_trace_series *s;

    load_good(&trace, "time_s,event,node\n0,add,a\n0,add,b\n60,notice,a\n90,remove,a\n"
                      "90,add,c\n120,add,a\n");
    s = &trace.series[0];
    ck_assert_uint_eq(s->n, 4);
    ck_assert_int_eq(s->available[0], 2);
    ck_assert_int_eq(s->available[1], 2);
    ck_assert_int_eq(s->available[2], 2);
    ck_assert_int_eq(s->available[3], 3);
    ck_assert_uint_eq(s->n_event, 6);
    ck_assert_int_eq(s->event[2].kind, SPOT_TRACE_NOTICE);
    ck_assert_str_eq(trace.node_name[s->event[4].node], "c");
    ck_assert_uint_eq(trace.n_node, 3);
    spot_trace_release(&trace);
}
END_TEST

START_TEST(lookup_before_the_first_row_finds_nothing)
{
    struct spot_trace trace;
    const struct spot_trace_series *s;

    load_good(&trace, "time_s,available\n10,4\n20,0\n");
    s = &trace.series[0];
    ck_assert_int_eq(spot_trace_at(s, 9.99), 0);
    ck_assert_int_eq(spot_trace_at(s, 10), 4);
    ck_assert_int_eq(spot_trace_at(s, 19.99), 4);
    ck_assert_int_eq(spot_trace_at(s, 1e9), 0);
    ck_assert_int_eq(spot_trace_peak(s), 4);
    ck_assert_double_eq(spot_trace_interval_s(s), 10);
    spot_trace_release(&trace);
}
END_TEST

/* A random trace of the count form as text, in whole seconds. */
static char *random_text(struct spot_rng *rng)
{
    char *text = spot_xcalloc(8192, 1);
    size_t len = (size_t)sprintf(text, "time_s,available,zone\n");
    unsigned time_s = 0;

    for (uint64_t i = 1 + spot_rng_below(rng, 100); i; i--) {
        time_s += (unsigned)spot_rng_below(rng, 7);
        len += (size_t)sprintf(text + len, "%u,%u,%c\n", time_s, (unsigned)spot_rng_below(rng, 9),
                               'a' + (int)spot_rng_below(rng, 3));
    }
    return text;
}

/* The oracle: read the text line by line and remember the last match. */
static int scan_at(const char *text, const char *zone, double time_s)
{
    int found = 0;

    for (const char *line = strchr(text, '\n') + 1; *line; line = strchr(line, '\n') + 1) {
        char *rest;
        const double row_s = strtod(line, &rest);
        const long available = strtol(rest + 1, &rest, 10);

        if (rest[1] == *zone && row_s <= time_s)
            found = (int)available;
    }
    return found;
}

START_TEST(a_resampled_trace_equals_a_scan_of_the_text)
{
    struct spot_rng rng;

    spot_rng_init(&rng, 7, (uint64_t)_i);
    for (int round = 0; round < 40; round++) {
        char *text = random_text(&rng);
        const double start_s = (double)spot_rng_below(&rng, 50);
        const double interval_s = 0.5 + spot_rng_unit(&rng) * 9;
        struct spot_trace trace;

        load_good(&trace, text);
        for (size_t k = 0; k < trace.n_series; k++) {
            int32_t got[64];

            spot_trace_resample(&trace.series[k], start_s, interval_s, 64, got);
            for (int i = 0; i < 64; i++)
                ck_assert_int_eq(got[i],
                                 scan_at(text, trace.series[k].zone, start_s + i * interval_s));
        }
        spot_trace_release(&trace);
        free(text);
    }
}
END_TEST

START_TEST(a_grid_has_both_its_ends)
{
    ck_assert_uint_eq(spot_trace_grid_n(0, 600, 60), 11);
    ck_assert_uint_eq(spot_trace_grid_n(0, 599, 60), 10);
    ck_assert_uint_eq(spot_trace_grid_n(0, 0.3, 0.1), 4);
    ck_assert_uint_eq(spot_trace_grid_n(5, 5, 60), 1);
    ck_assert_uint_eq(spot_trace_grid_n(6, 5, 1), 0);
    ck_assert_uint_eq(spot_trace_grid_n(0, 1e11, 1), SIZE_MAX);
}
END_TEST

START_TEST(real_traces_count_their_own_events)
{
    static const char *const pair[][2] = {
        { "../shared/data/traces/parcae/p3trace.csv",
          "../shared/data/traces/parcae/p3trace.events.csv" },
        { "../shared/data/traces/bamboo/g4dn-trace.csv",
          "../shared/data/traces/bamboo/g4dn-trace.events.csv" },
    };
    struct spot_trace grid, events;
    struct spot_err err = { 0 };

    for (size_t k = 0; k < sizeof(pair) / sizeof(pair[0]); k++) {
        FILE *in = fopen(pair[k][0], "r");

        if (!in)
            return;
        fclose(in);
        ck_assert_msg(!spot_trace_load_path(&grid, pair[k][0], &err), "%s", err.msg);
        ck_assert_msg(!spot_trace_load_path(&events, pair[k][1], &err), "%s", err.msg);
        for (size_t i = 0; i < grid.series[0].n; i++)
            ck_assert_int_eq(grid.series[0].available[i],
                             spot_trace_at(&events.series[0], grid.series[0].time_s[i]));
        spot_trace_release(&grid);
        spot_trace_release(&events);
    }
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    tcase_add_loop_test(tc, refuses_malformed_with_position, 0,
                        sizeof(bad_cases) / sizeof(bad_cases[0]));
    tcase_add_loop_test(tc, a_resampled_trace_equals_a_scan_of_the_text, 0, 5);
    add_tests(tc);
    return run_suite("trace", tc);
}
