/* SPDX-License-Identifier: MIT */
/* Goal: loads and traces come from files with all their columns, are cut and written with them, and
 * what is another kind of file is told as such. */
#include "doc_rig.h"
#include "trace/load_generate.h"
#include "trace/load_import.h"
#include "trace/load_trace.h"
#include "trace/trace.h"
#include "trace/trace_write.h"

/* --- loads --- */

#define LOAD "time_s,prompt_tokens,output_tokens,id\n"

START_TEST(a_load_is_read_from_a_path_or_standard_input)
{
    static const char text[] = LOAD "1,5,6,a\n2,5,6,b\n";
    struct spot_load load;
    struct spot_err err = { 0 };
    char path[32];

    put_file(path, text, strlen(text));
    ck_assert_msg(!spot_load_read_path(&load, path, 11, &err), "%s", err.msg);
    ck_assert_uint_eq(load.n, 2);
    spot_load_release(&load);
    ck_assert_ptr_nonnull(freopen(path, "r", stdin));
    ck_assert_msg(!spot_load_read_path(&load, "-", 0, &err), "%s", err.msg);
    ck_assert_str_eq(load.id[1], "b");
    spot_load_release(&load);
    unlink(path);
    expect_fail(spot_load_read_path(&load, "/nowhere/l.csv", 0, &err), &err, SPOT_ESYS,
                "cannot open /nowhere/l.csv: No such file or directory");
    ck_assert_ptr_null(load.time_s);
}
END_TEST

START_TEST(a_load_of_one_profile_has_its_lengths)
{
    static const char text[] = LOAD "1,5,6,\n2,5,7,\n";
    struct spot_load load;
    struct spot_err err = { 0 };
    char path[32];

    put_file(path, text, strlen(text) - strlen("2,5,7,\n"));
    ck_assert_msg(!spot_load_read_alike(&load, path, 5, 6, &err), "%s", err.msg);
    spot_load_release(&load);
    unlink(path);
    put_file(path, text, strlen(text));
    ck_assert_int_eq(spot_load_read_alike(&load, path, 5, 6, &err), -1);
    ck_assert_ptr_nonnull(strstr(
        err.msg, ":3:3: prompt_tokens: 5 and output_tokens 7, and the job's profile is of 5 and 6; "
                 "--arrivals-only takes the times alone"));
    unlink(path);
}
END_TEST

START_TEST(names_of_requests_are_bounded_and_printable)
{
    char text[512];
    struct spot_load load;
    struct spot_err err = { 0 };
    FILE *in;

    for (int n = SPOT_LOAD_ID_MAX; n <= SPOT_LOAD_ID_MAX + 1; n++) {
        snprintf(text, sizeof(text), LOAD "1,5,6,%0*d\n", n, 0);
        in = opened(text);
        if (n == SPOT_LOAD_ID_MAX) {
            ck_assert_msg(!spot_load_read(&load, in, "l", 0, &err), "%s", err.msg);
            spot_load_release(&load);
        } else {
            expect_refused(spot_load_read(&load, in, "l", 0, &err), &err,
                           "l:2:7: id: longer than 255 bytes");
        }
        fclose(in);
    }
    in = opened(LOAD "1,5,6,a\x7f\n");
    expect_refused(spot_load_read(&load, in, "l", 0, &err), &err,
                   "l:2:7: id: control character in a name");
    fclose(in);
}
END_TEST

/* Some have names and some not, and more of them than were first made room for. */
START_TEST(requests_keep_their_names_as_their_number_grows)
{
    enum { N = 5000 };
    struct spot_load load = { 0 };
    char id[16];

    for (int i = 0; i < N; i++) {
        snprintf(id, sizeof(id), "r%d", i);
        spot_load_add(&load, i + 1000.0000004, 1, 1, i >= 10 && i % 3 ? id : NULL);
    }
    spot_load_shift(&load, 1000);
    for (int i = 0; i < N; i++) {
        snprintf(id, sizeof(id), "r%d", i);
        ck_assert_str_eq(load.id[i], i >= 10 && i % 3 ? id : "");
        ck_assert(load.time_s[i] == i); /* to the microsecond */
    }
    spot_load_release(&load);
}
END_TEST

static const struct {
    const char *format, *text, *want;
} bad_load[] = {
    { "azure-llm", "TIMESTAMP,ContextTokens,GeneratedTokens\n2e11,1,1\n",
      "t:2:1: TIMESTAMP: 200000000000 is outside [0, 1e11]" },
    { "azure-llm", "TIMESTAMP,ContextTokens,GeneratedTokens\n1,-1,1\n",
      "t:2:3: ContextTokens: -1 is outside [0, 1073741824]" },
    { "mooncake", "", "t: empty input" },
    { "mooncake", "\n", "" }, /* nothing, and no fault */
    { "openai-log", "", "t: empty input" },
    { "azure-functions", "", "t: empty input" },
    { "spot-serve", "", "t: empty input" },
    { "azure-functions", "app,func,end_timestamp,duration\na,f,9,-1\n",
      "t:2:7: duration: expected seconds, got '-1'" },
    { "azure-functions", "HashOwner,HashApp,HashFunction,Trigger\no,a,f,http,1\n",
      "t:2: expected 1444 fields, got 5" },
    { "spot-serve",
      "{\"schema\":\"spot.event/1\",\"event\":\"request\",\"time_s\":9,\"epoch\":0,\"step\":0,"
      "\"id\":\"a\",\"came_s\":2e11,\"e2e_s\":6,\"prompt_tokens\":1,\"output_tokens\":1,"
      "\"choices\":1,\"finish\":\"done\"}\n",
      "t:1:92: /came_s: 2e+11 is outside [0, 1e+11]" },
    { "spot-serve",
      "{\"schema\":\"spot.event/1\",\"event\":\"request\",\"time_s\":9,\"epoch\":0,\"step\":0,"
      "\"id\":\"a\",\"came_s\":2,\"e2e_s\":6,\"prompt_tokens\":2000000000,\"output_tokens\":1,"
      "\"choices\":1,\"finish\":\"done\"}\n",
      "t:1:1: /: more than 1073741824 tokens" },
};

START_TEST(what_is_wrong_in_a_log_of_requests_is_named_where_it_is)
{
    struct spot_load_import imp = { 0 };
    struct spot_err err = { 0 };
    FILE *const in = opened(bad_load[_i].text);
    const int rc =
        spot_load_import_read(&imp, spot_load_format_find(bad_load[_i].format), in, "t", &err);

    if (*bad_load[_i].want)
        expect_refused(rc, &err, bad_load[_i].want);
    else
        ck_assert_int_eq(rc, 0);
    fclose(in);
    spot_load_release(&imp.load);
}
END_TEST

/* Lines end as on Windows, and one has a NUL byte in it. */
START_TEST(calls_are_read_to_the_carriage_return_and_never_past_a_nul)
{
    static const char nul[] = "app,func,end_timestamp,duration\n\0,f,9,1\n";
    static const char crlf[] = "app,func,end_timestamp,duration\r\na,f,9,1\r\n";
    const struct spot_load_format *const calls = spot_load_format_find("azure-functions");
    static const struct spot_load_dist lengths = { .prompt = { .token = 512 },
                                                   .output = { .token = 512 } };
    struct spot_load_import imp = { .length = spot_load_source_new(&lengths, 1) };
    struct spot_err err = { 0 };
    FILE *in = opened(crlf);

    ck_assert_msg(!spot_load_import_read(&imp, calls, in, "t", &err), "%s", err.msg);
    fclose(in);
    in = tmpfile();
    fwrite(nul, 1, sizeof(nul) - 1, in);
    rewind(in);
    expect_refused(spot_load_import_read(&imp, calls, in, "t", &err), &err, "t:2:1: NUL byte");
    fclose(in);
    spot_load_source_free(imp.length);
    spot_load_release(&imp.load);
}
END_TEST

/* --- traces --- */

static const char counts[] = "time_s,available,zone,price_usd_per_h,requested\n"
                             "0,1,a,,\n0,5,b,,\n10,2,a,0.5,\n10,6,b,,7\n20,3,a,0.25,4\n";

static void read_trace(struct spot_trace *trace, const char *text)
{
    FILE *const in = opened(text);
    struct spot_err err = { 0 };

    ck_assert_msg(!spot_trace_load(trace, in, "t", &err), "%s", err.msg);
    fclose(in);
}

static void expect_written(const struct spot_trace *trace, const char *want)
{
    char *text = NULL;
    size_t n;
    FILE *const out = open_memstream(&text, &n);

    spot_trace_write_counts(trace, out);
    fclose(out);
    ck_assert_str_eq(text, want);
    free(text);
}

START_TEST(prices_and_requests_of_a_trace_are_written_as_they_were_read)
{
    struct spot_trace trace;
    struct spot_err err = { 0 };

    read_trace(&trace, counts);
    ck_assert(trace.series[0].requested[0] == -1 && trace.series[0].requested[2] == 4);
    ck_assert(trace.series[0].price_usd_per_h[1] == 0.5);
    expect_written(&trace, counts);
    ck_assert_msg(!spot_trace_cut(&trace, 5, 15, &err), "%s", err.msg);
    /* what held at 5 and at 15 has a row there */
    expect_written(&trace, "time_s,available,zone,price_usd_per_h,requested\n"
                           "5,1,a,,\n5,5,b,,\n10,2,a,0.5,\n10,6,b,,7\n15,2,a,0.5,\n"
                           "15,6,b,,7\n");
    spot_trace_release(&trace);
}
END_TEST

START_TEST(a_long_trace_keeps_its_columns)
{
    enum { N = 3000 };
    char *const text = malloc((size_t)N * 32);
    size_t at = (size_t)sprintf(text, "time_s,available,price_usd_per_h,requested\n");
    struct spot_trace trace;

    for (int i = 0; i < N; i++)
        at += (size_t)sprintf(text + at, "%d,%d,%g,%d\n", i, i % 7, 0.25 * (1 + i % 3), i % 11);
    read_trace(&trace, text);
    expect_written(&trace, text);
    spot_trace_release(&trace);
    free(text);
}
END_TEST

static const struct {
    const char *text, *want;
} bad_trace[] = {
    { "time_s,price_usd_per_h\n0,1\n",
      "t:1:1: these are prices; expected counts of instances (available) or events" },
    { "time_s,prompt_tokens,output_tokens\n0,1,1\n",
      "t:1:1: this is a load (prompt_tokens), expected counts of instances (available) or events" },
};

START_TEST(a_document_of_another_kind_is_no_trace)
{
    FILE *const in = opened(bad_trace[_i].text);
    struct spot_trace trace;
    struct spot_err err = { 0 };

    expect_refused(spot_trace_load(&trace, in, "t", &err), &err, bad_trace[_i].want);
    fclose(in);
}
END_TEST

START_TEST(a_trace_is_read_from_standard_input_or_its_path_is_named)
{
    struct spot_trace trace;
    struct spot_err err = { 0 };
    char path[32];

    put_file(path, counts, strlen(counts));
    ck_assert_ptr_nonnull(freopen(path, "r", stdin));
    unlink(path);
    ck_assert_msg(!spot_trace_load_path(&trace, "-", &err), "%s", err.msg);
    ck_assert_uint_eq(trace.n_series, 2);
    spot_trace_release(&trace);
    expect_fail(spot_trace_load_path(&trace, "/nowhere/t.csv", &err), &err, SPOT_ESYS,
                "cannot open '/nowhere/t.csv': No such file or directory");
}
END_TEST

START_TEST(names_of_zones_are_bounded)
{
    char text[512];
    struct spot_trace trace;
    struct spot_err err = { 0 };
    FILE *in;

    snprintf(text, sizeof(text), "time_s,available,zone\n0,1,%0255d\n", 0);
    read_trace(&trace, text);
    spot_trace_release(&trace);
    snprintf(text, sizeof(text), "time_s,available,zone\n0,1,%0256d\n", 0);
    in = opened(text);
    expect_refused(spot_trace_load(&trace, in, "t", &err), &err,
                   "t:2:5: zone: longer than 255 bytes");
    fclose(in);
}
END_TEST

/* Two rows a thousand years apart, by the second: more points than memory. */
START_TEST(a_grid_that_is_too_fine_is_refused_before_it_is_made)
{
    struct spot_trace trace;
    struct spot_err err = { 0 };

    read_trace(&trace, "time_s,available\n0,1\n30000000000,2\n");
    ck_assert_int_eq(spot_trace_check_grid(&trace, 1000, 3e7, 1 << 20, "--interval", &err), 0);
    expect_refused(spot_trace_check_grid(&trace, 3e10, 1, 1 << 20, "--interval", &err), &err,
                   "1 series over 30000000000 s are 30000000000 intervals of 1 s, the limit is "
                   "1048576: give --interval");
    spot_trace_release(&trace);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    tcase_add_loop_test(tc, what_is_wrong_in_a_log_of_requests_is_named_where_it_is, 0,
                        sizeof(bad_load) / sizeof(bad_load[0]));
    tcase_add_loop_test(tc, a_document_of_another_kind_is_no_trace, 0,
                        sizeof(bad_trace) / sizeof(bad_trace[0]));
    add_tests(tc);
    return run_suite("load_files", tc);
}
