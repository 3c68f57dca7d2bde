/* SPDX-License-Identifier: MIT */
/* Goal: a cut shows the same machines as the whole trace between its ends and
 * nothing outside; scaling divides every count and forgets who is who. */
#include <stdlib.h>
#include <string.h>

#include "common/rng.h"
#include "suite.h"
#include "trace/trace.h"

static void load_good(struct spot_trace *trace, const char *text)
{
    struct spot_err err = { 0 };
    FILE *in = tmpfile();

    ck_assert_ptr_nonnull(in);
    fputs(text, in);
    rewind(in);
    ck_assert_msg(!spot_trace_load(trace, in, "t", &err), "%s", err.msg);
    fclose(in);
}

static const struct spot_trace_series *find(const struct spot_trace *trace, const char *zone)
{
    for (size_t i = 0; i < trace->n_series; i++)
        if (!strcmp(trace->series[i].zone, zone))
            return &trace->series[i];
    return NULL;
}

START_TEST(a_cut_equals_the_whole_between_its_ends)
{
    struct spot_rng rng;

    spot_rng_init(&rng, 3, (uint64_t)_i);
    for (int round = 0; round < 100; round++) {
        char text[4096];
        size_t len = (size_t)sprintf(text, "time_s,available,zone\n");
        unsigned time_s = 0;
        struct spot_trace whole, part;
        double from_s, to_s;

        for (uint64_t i = 2 + spot_rng_below(&rng, 60); i; i--) {
            time_s += (unsigned)spot_rng_below(&rng, 7);
            len +=
                (size_t)sprintf(text + len, "%u,%u,%c\n", time_s, (unsigned)spot_rng_below(&rng, 9),
                                'a' + (int)spot_rng_below(&rng, 3));
        }
        load_good(&whole, text);
        load_good(&part, text);
        from_s = whole.start_s + spot_rng_unit(&rng) * (whole.end_s - whole.start_s);
        to_s = from_s + spot_rng_unit(&rng) * (whole.end_s - from_s);
        ck_assert_int_eq(spot_trace_cut(&part, from_s, to_s, NULL), 0);
        ck_assert_double_ge(part.start_s, from_s);
        ck_assert_double_le(part.end_s, to_s);
        for (size_t k = 0; k < whole.n_series; k++) {
            const struct spot_trace_series *s = find(&part, whole.series[k].zone);

            if (!s) { /* it began after the end of the cut */
                ck_assert_double_gt(whole.series[k].time_s[0], to_s);
                continue;
            }
            ck_assert_double_ge(s->time_s[0], from_s);
            ck_assert_double_le(s->time_s[s->n - 1], to_s);
            for (size_t i = 1; i < s->n; i++)
                ck_assert_double_lt(s->time_s[i - 1], s->time_s[i]);
            for (int i = 0; i <= 50; i++) {
                const double at_s = i < 50 ? from_s + (to_s - from_s) * i / 50 : to_s;

                ck_assert_int_eq(spot_trace_at(s, at_s), spot_trace_at(&whole.series[k], at_s));
            }
        }
        spot_trace_release(&whole);
        spot_trace_release(&part);
    }
}
END_TEST

START_TEST(a_cut_keeps_who_is_there)
{
    struct spot_trace t;

    load_good(&t, "time_s,event,node\n0,add,a\n0,add,b\n5,remove,a\n10,add,c\n20,remove,b\n");
    ck_assert_int_eq(spot_trace_cut(&t, 7, 15, NULL), 0);
    ck_assert_uint_eq(t.series[0].n_event, 2);
    ck_assert_str_eq(t.node_name[t.series[0].event[0].node], "b");
    ck_assert_double_eq(t.series[0].event[0].time_s, 7);
    ck_assert_str_eq(t.node_name[t.series[0].event[1].node], "c");
    ck_assert_uint_eq(t.series[0].n, 3);
    ck_assert_double_eq(t.series[0].time_s[2], 15);
    ck_assert_int_eq(t.series[0].available[2], 2);
    spot_trace_release(&t);
}
END_TEST

START_TEST(a_cut_outside_of_the_trace_is_refused)
{
    struct spot_trace t;
    struct spot_err err = { 0 };

    load_good(&t, "time_s,available\n10,1\n20,2\n");
    ck_assert_int_eq(spot_trace_cut(&t, 21, 30, &err), -1);
    ck_assert_int_eq(err.code, SPOT_EINFEASIBLE);
    ck_assert_int_eq(spot_trace_cut(&t, 0, 9, &err), -1);
    ck_assert_int_eq(spot_trace_cut(&t, 15, 14, &err), -1);
    ck_assert_uint_eq(t.series[0].n, 2);
    spot_trace_release(&t);
}
END_TEST

START_TEST(scaling_divides_and_rounds_down)
{
    struct spot_trace t;

    load_good(&t, "time_s,available,requested,price_usd_per_h\n0,7,8,0.5\n1,3,,\n");
    spot_trace_scale(&t, 4);
    ck_assert_int_eq(t.series[0].available[0], 1);
    ck_assert_int_eq(t.series[0].available[1], 0);
    ck_assert_int_eq(t.series[0].requested[0], 2);
    ck_assert_int_eq(t.series[0].requested[1], -1);
    ck_assert_double_eq(t.series[0].price_usd_per_h[0], 0.5);
    spot_trace_release(&t);
    load_good(&t, "time_s,event,node\n0,add,a\n");
    spot_trace_scale(&t, 1);
    ck_assert_uint_eq(t.series[0].n_event, 1);
    spot_trace_scale(&t, 2);
    ck_assert_uint_eq(t.series[0].n_event, 0);
    ck_assert_ptr_null(t.series[0].event);
    spot_trace_release(&t);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    tcase_add_loop_test(tc, a_cut_equals_the_whole_between_its_ends, 0, 5);
    add_tests(tc);
    return run_suite("trace_edit", tc);
}
