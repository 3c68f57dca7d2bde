/* SPDX-License-Identifier: MIT */
#include <math.h>

#include "doc_rig.h"
#include "trace/family.h"
#include "trace/probe_trace.h"

/* Goal: probes are read as they are written, in order of time, and what is none is refused at its
 * place; a file is told by its header. */

static int read_text(struct spot_probe_trace *trace, const char *text, struct spot_err *err)
{
    FILE *in = fmemopen((void *)(uintptr_t)text, strlen(text), "r");
    const int rc = spot_probe_trace_read(trace, in, "p.csv", err);

    fclose(in);
    return rc;
}

START_TEST(rows_are_sorted_by_place_and_time)
{
    static const char text[] = "score,time_s,zone,instance_type,asked,granted,price_usd_per_h\n"
                               ",60,b,t,1,0,0.5\n"
                               ",0,b,t,4,3,\n"
                               "7,30,a,,0,0,\n"
                               ",0,b,t,1,1,0.25\n";
    struct spot_probe_trace trace;
    const struct spot_probe_series *b;
    struct spot_err err = { 0 };

    ck_assert_msg(!read_text(&trace, text, &err), "%s", err.msg);
    ck_assert_uint_eq(trace.n_series, 2);
    ck_assert_double_eq(trace.end_s, 60);
    ck_assert_str_eq(trace.series[0].zone, "a");
    ck_assert_double_eq(trace.series[0].row[0].score, 7);
    b = &trace.series[1];
    ck_assert_str_eq(b->zone, "b");
    ck_assert_str_eq(b->instance_type, "t");
    ck_assert_uint_eq(b->n, 3);
    ck_assert_int_eq(b->row[0].granted, 3);
    ck_assert_int_eq(b->row[1].granted, 1);
    ck_assert_int_eq(b->row[2].granted, 0);
    ck_assert_double_eq(spot_probe_usd_per_h(b, 59), 0.25);
    ck_assert_double_eq(spot_probe_usd_per_h(b, 60), 0.5);
    ck_assert(isnan(spot_probe_usd_per_h(&trace.series[0], 60)));
    spot_probe_trace_release(&trace);
}
END_TEST

START_TEST(what_is_no_probe_is_refused_at_its_place)
{
    static const struct {
        const char *text, *place;
    } wrong[] = {
        { "time_s,zone,instance_type,asked,granted\n0,a,t,1,2\n", "p.csv:2:9:" },
        { "time_s,zone,instance_type,asked,granted\n0,a,t,0,0\n", "p.csv:2:7:" },
        { "time_s,zone,instance_type,asked,granted\n0,a,t,1,1\n-1,a,t,1,1\n", "p.csv:3:1:" },
        { "time_s,zone,instance_type,asked,granted,score\n0,a,t,1,1,101\n", "p.csv:2:11:" },
        { "time_s,zone,instance_type,asked,granted,score\n0,a,t,1,nan,1\n", "p.csv:2:9:" },
        { "time_s,zone,instance_type,asked,granted\n", "p.csv:" },
        { "time_s,zone,instance_type,asked\n0,a,t,1\n", "p.csv:1" },
    };

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct spot_probe_trace trace;
        struct spot_err err = { 0 };

        ck_assert_int_eq(read_text(&trace, wrong[i].text, &err), -1);
        ck_assert_int_eq(err.code, SPOT_EDATA);
        ck_assert_msg(!strncmp(err.msg, wrong[i].place, strlen(wrong[i].place)), "%s", err.msg);
        spot_probe_trace_release(&trace);
    }
}
END_TEST

START_TEST(a_family_is_known_by_its_header)
{
    static const struct {
        const char *text;
        enum spot_family family;
    } file[] = {
        { "time_s,available\n0,1\n", SPOT_FAMILY_COUNTS },
        { "time_s,event,node\n0,add,a\n", SPOT_FAMILY_COUNTS },
        { "zone,granted,time_s,asked\na,1,0,1\n", SPOT_FAMILY_PROBES },
        { "zone,instance_type,os,hazard_per_h\na,t,Linux,.1\n", SPOT_FAMILY_ADVICE },
        { "neither\n", SPOT_FAMILY_COUNTS },
        { "\"", SPOT_FAMILY_COUNTS },
    };

    for (size_t i = 0; i < sizeof(file) / sizeof(file[0]); i++) {
        FILE *in = tmpfile();
        char first[8] = { 0 };

        fputs(file[i].text, in);
        rewind(in);
        ck_assert_int_eq(spot_family_of(in), file[i].family);
        ck_assert_uint_gt(fread(first, 1, 1, in), 0);
        ck_assert_int_eq(first[0], file[i].text[0]);
        fclose(in);
    }
}
END_TEST

int main(void)
{
    return run_suite("probe_trace", add_tests(tcase_create("core")));
}
