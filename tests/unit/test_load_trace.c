/* SPDX-License-Identifier: MIT */
/* Goal: a load is read as it is written, wrong ones are refused where they are wrong; generated
 * loads follow their distributions by closed forms; a summary says what a hand counts. */
#define _POSIX_C_SOURCE 200809L /* fmemopen */
#include <check.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "suite.h"
#include "trace/load_generate.h"
#include "trace/load_import.h"
#include "trace/load_seen.h"
#include "trace/load_stats.h"
#include "trace/load_trace.h"

#define HEAD "time_s,prompt_tokens,output_tokens\n"

static int read_text(struct spot_load *load, const char *text, int64_t context,
                     struct spot_err *err)
{
    FILE *in = fmemopen((void *)(uintptr_t)text, strlen(text), "r");
    int rc;

    ck_assert_ptr_nonnull(in);
    rc = spot_load_read(load, in, "l.csv", context, err);
    fclose(in);
    return rc;
}

/* --- reading --- */

START_TEST(a_load_is_written_as_it_was_read)
{
    static const char text[] = "time_s,prompt_tokens,output_tokens,id\n"
                               "0,512,128,\n0.25,7,1,\"a,b\"\n0.25,8,2,c\n1e11,1073741824,1,\n";
    static const char plain[] = "time_s,prompt_tokens,output_tokens,id\n"
                                "0,512,128,\n0.25,7,1,\"a,b\"\n0.25,8,2,c\n"
                                "100000000000,1073741824,1,\n";
    struct spot_load load;
    struct spot_err err;
    char *out = NULL;
    size_t n;
    FILE *f = open_memstream(&out, &n);

    ck_assert_int_eq(read_text(&load, text, 0, &err), 0);
    ck_assert_uint_eq(load.n, 4);
    ck_assert_uint_ne(load.xxh3, 0);
    spot_load_write(&load, f);
    fclose(f);
    ck_assert_str_eq(out, plain);
    free(out);
    spot_load_release(&load);
}
END_TEST

START_TEST(wrong_loads_are_refused_where_they_are_wrong)
{
    static const struct {
        const char *text, *message;
    } wrong[] = {
        { HEAD "5,1,1\n3,1,1\n", "l.csv:3:1: time_s: 3 is before the request above it, at 5" },
        { HEAD "0,0,1\n", "l.csv:2:3: prompt_tokens: 0 is outside [1, 1073741824]" },
        { HEAD "0,1,0\n", "l.csv:2:5: output_tokens: 0 is outside [1, 1073741824]" },
        { HEAD "0,90,10\n1,91,10\n",
          "l.csv:3:3: prompt_tokens: 91 and output_tokens 10 are above the context, 100" },
        { HEAD "0,1.5,1\n", "l.csv:2:3: prompt_tokens: expected a whole number, got '1.5'" },
        { HEAD "-1,1,1\n", "l.csv:2:1: time_s: -1 is outside [0, 100000000000]" },
        { HEAD, "l.csv:2:1: no requests after the header" },
        { "time_s,prompt_tokens\n0,1\n", "output_tokens" },
    };

    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
        struct spot_load load;
        struct spot_err err = { 0 };

        ck_assert_int_eq(read_text(&load, wrong[i].text, 100, &err), -1);
        ck_assert_int_eq(err.code, SPOT_EDATA);
        ck_assert_msg(strstr(err.msg, wrong[i].message), "%s", err.msg);
        ck_assert_ptr_null(load.time_s);
    }
}
END_TEST

START_TEST(sorting_keeps_the_order_of_one_time_and_a_cut_keeps_its_ends)
{
    struct spot_load load = { 0 };
    struct spot_err err;
    static const double time_s[] = { 3, 1, 2, 1, 2 };

    for (int i = 0; i < 5; i++)
        spot_load_add(&load, time_s[i], i + 1, 1, i == 3 ? "x" : NULL);
    spot_load_sort(&load);
    ck_assert_int_eq(load.prompt_token[0], 2);
    ck_assert_int_eq(load.prompt_token[1], 4);
    ck_assert_str_eq(load.id[1], "x");
    ck_assert_str_eq(load.id[0], "");
    ck_assert_int_eq(load.prompt_token[2], 3);
    ck_assert_int_eq(load.prompt_token[4], 1);
    ck_assert_int_eq(spot_load_cut(&load, 1, 2, &err), 0);
    ck_assert_uint_eq(load.n, 4);
    ck_assert_int_eq(spot_load_cut(&load, 5, 6, &err), -1);
    ck_assert_int_eq(err.code, SPOT_EINFEASIBLE);
    spot_load_release(&load);
}
END_TEST

/* --- arrivals --- */

static const struct spot_load_dist plain = {
    .arrival = { .rate_per_s = 2, .cv = 3, .on_mean_s = 5, .off_mean_s = 20, .period_s = 86400 },
    .prompt = { .kind = SPOT_LENGTH_FIXED, .token = 512 },
    .output = { .kind = SPOT_LENGTH_FIXED, .token = 128 },
};

static struct spot_load_stats generate(const struct spot_load_dist *dist, size_t n, uint64_t seed)
{
    struct spot_load_stats stats;
    struct spot_load load;
    struct spot_err err;

    ck_assert_int_eq(spot_load_generate(&load, dist, INFINITY, n, seed, &err), 0);
    ck_assert_uint_eq(load.n, n);
    spot_load_stats(&load, &stats);
    spot_load_release(&load);
    return stats;
}

START_TEST(gaps_have_the_rate_and_the_variation_of_their_distribution)
{
    static const struct {
        enum spot_arrival_kind kind;
        double cv, true_cv, tolerance;
    } dist[] = {
        { SPOT_ARRIVAL_POISSON, 1, 1, 0.01 },
        { SPOT_ARRIVAL_GAMMA, 0.3, 0.3, 0.01 },
        { SPOT_ARRIVAL_GAMMA, 6, 6, 0.15 },
        { SPOT_ARRIVAL_SPOTSERVE, 6, 0.10954451150103323, 0.001 }, /* sqrt(6 * 2 / 1000) */
        /* (1 + 2 w1 l / (w1 + w2)^2)^.5, w1 = 1 / 5, w2 = 1 / 20, l = 10 */
        { SPOT_ARRIVAL_ON_OFF, 1, 8.06225774829855, 0.15 },
    };

    for (size_t i = 0; i < sizeof(dist) / sizeof(*dist); i++) {
        struct spot_load_dist l = plain;
        struct spot_load_stats s;

        l.arrival.kind = dist[i].kind;
        l.arrival.cv = dist[i].cv;
        s = generate(&l, 400000, 7);
        ck_assert_double_eq_tol(spot_arrival_cv(&l.arrival), dist[i].true_cv, 1e-9);
        ck_assert_double_eq_tol(s.gap_cv, dist[i].true_cv, dist[i].tolerance);
        ck_assert_double_eq_tol(s.rate_per_s, 2, 0.02 + 0.01 * dist[i].true_cv);
    }
}
END_TEST

START_TEST(spotserves_own_arrivals_are_nearly_a_clock)
{
    static const double rate[] = { 1.5, 0.35, 0.2 };
    static const double cv[] = { 0.0948683, 0.0458258, 0.0346410 }; /* of its published queries */

    for (int i = 0; i < 3; i++) {
        struct spot_load_dist l = plain;

        l.arrival.kind = SPOT_ARRIVAL_SPOTSERVE;
        l.arrival.rate_per_s = rate[i];
        l.arrival.cv = 6;
        ck_assert_double_eq_tol(spot_arrival_cv(&l.arrival), cv[i], 1e-6);
        ck_assert_double_eq_tol(generate(&l, 100000, 3).gap_cv, cv[i], 0.002);
    }
}
END_TEST

START_TEST(a_day_moves_requests_and_loses_none)
{
    struct spot_load_dist l = plain;
    struct spot_load load;
    struct spot_err err;
    double quarter[4] = { 0 };

    l.arrival.swing = 0.8;
    l.arrival.period_s = 1000;
    l.arrival.peak_s = 250;
    ck_assert_int_eq(spot_load_generate(&load, &l, 200000, 0, 5, &err), 0);
    for (size_t i = 0; i < load.n; i++) {
        quarter[(int)(fmod(load.time_s[i] + 125, 1000) / 250)]++;
        ck_assert(!i || load.time_s[i] >= load.time_s[i - 1]);
    }
    /* the mean of 1 + .8 cos over a quarter around its peak is 1 + .8 sin(pi/4) / (pi/4) */
    ck_assert_double_eq_tol(quarter[1] / 100000, 1 + 0.8 * 0.9003163, 0.03);
    ck_assert_double_eq_tol(quarter[3] / 100000, 1 - 0.8 * 0.9003163, 0.03);
    ck_assert_double_eq_tol((double)load.n / 400000, 1, 0.01);
    spot_load_release(&load);
}
END_TEST

START_TEST(another_distribution_of_arrivals_leaves_lengths_as_they_were)
{
    struct spot_load_dist l = plain;
    struct spot_load a, b;
    struct spot_err err;

    l.prompt = (struct spot_length_dist){ .kind = SPOT_LENGTH_LOGNORMAL, .token = 900, .sigma = 1 };
    ck_assert_int_eq(spot_load_generate(&a, &l, INFINITY, 1000, 5, &err), 0);
    l.arrival.kind = SPOT_ARRIVAL_GAMMA;
    ck_assert_int_eq(spot_load_generate(&b, &l, INFINITY, 1000, 5, &err), 0);
    ck_assert_mem_eq(a.prompt_token, b.prompt_token, 1000 * sizeof(*a.prompt_token));
    ck_assert_double_ne(a.time_s[999], b.time_s[999]);
    spot_load_release(&a);
    spot_load_release(&b);
}
END_TEST

/* --- lengths --- */

START_TEST(lognormal_lengths_have_their_median_and_mean)
{
    struct spot_load_dist l = plain;
    struct spot_load_stats s;
    struct spot_err err;

    ck_assert_int_eq(spot_length_parse(&l.prompt, "p", "lognormal:1000:0.8", &err), 0);
    s = generate(&l, 200000, 4);
    ck_assert_double_eq_tol(s.prompt.p50, 1000, 10);
    ck_assert_double_eq_tol(s.prompt.mean, 1000 * exp(0.32), 15);
    ck_assert_double_eq_tol(s.prompt.p99, 1000 * exp(0.8 * 2.3263), 120);
    ck_assert_int_eq(s.output.min, 128);
    ck_assert(isnan(s.length_correlation));
}
END_TEST

START_TEST(pairs_are_drawn_together_and_fit_the_context)
{
    static const int32_t prompt[] = { 10, 20, 1000 }, output[] = { 11, 21, 1001 };
    struct spot_load_dist l = plain;
    struct spot_load load;
    struct spot_err err;
    bool seen[2] = { false };

    l.prompt = (struct spot_length_dist){ SPOT_LENGTH_EMPIRICAL, 0, 0, prompt, 3 };
    l.output = (struct spot_length_dist){ SPOT_LENGTH_EMPIRICAL, 0, 0, output, 3 };
    l.is_paired = true;
    l.context = 2000;
    ck_assert_int_eq(spot_load_generate(&load, &l, INFINITY, 500, 1, &err), 0);
    for (size_t i = 0; i < load.n; i++) {
        ck_assert_int_eq(load.output_token[i], load.prompt_token[i] + 1);
        ck_assert_int_le(load.prompt_token[i], 20);
        seen[load.prompt_token[i] == 20] = true;
    }
    ck_assert(seen[0] && seen[1]);
    spot_load_release(&load);
    l.context = 20;
    ck_assert_int_eq(spot_load_generate(&load, &l, INFINITY, 500, 1, &err), -1);
    ck_assert_int_eq(err.code, SPOT_EINFEASIBLE);
}
END_TEST

START_TEST(distributions_of_lengths_that_are_none_are_refused)
{
    static const char *const wrong[] = { "",
                                         "0",
                                         "-3",
                                         "1.5",
                                         "x",
                                         "lognormal:5",
                                         "lognormal:",
                                         "lognormal:0:1",
                                         "lognormal:5:-1",
                                         "lognormal:5:1:2" };
    struct spot_length_dist dist;
    struct spot_err err;

    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
        ck_assert_msg(spot_length_parse(&dist, "prompt-tokens", wrong[i], &err) == -1, "%s",
                      wrong[i]);
        ck_assert_int_eq(err.code, SPOT_EUSAGE);
        ck_assert_ptr_nonnull(strstr(err.msg, "--prompt-tokens"));
    }
}
END_TEST

/* --- a summary --- */

START_TEST(a_summary_says_what_a_hand_counts)
{
    struct spot_load load;
    struct spot_load_stats s;
    struct spot_err err;

    /* gaps 0, 1, 2, 1; bins of 1 s from 10: 2, 1, 0, 1 */
    ck_assert_int_eq(read_text(&load, HEAD "10,1,10\n10,2,8\n11,3,6\n13,4,4\n14,5,2\n", 0, &err),
                     0);
    spot_load_stats(&load, &s);
    ck_assert_double_eq(s.rate_per_s, 1);
    ck_assert_double_eq_tol(s.gap_cv, sqrt(0.5), 1e-12);
    ck_assert_double_eq_tol(s.gap_autocorrelation, 0, 1e-12); /* (-1 0 + 0 1 + 1 0) / 2 */
    ck_assert_uint_eq(s.counts[0].n, 4);
    ck_assert_double_eq_tol(s.counts[0].dispersion, 0.5, 1e-12);
    ck_assert_double_eq(s.counts[0].peak_per_s, 2);
    ck_assert_double_eq_tol(s.counts[0].autocorrelation[1], -0.5, 1e-12); /* (1 -1 + 0 0) / 2 */
    ck_assert_uint_eq(s.counts[1].n, 0);
    ck_assert(isnan(s.counts[1].dispersion));
    ck_assert_double_eq(s.prompt.mean, 3);
    ck_assert_int_eq(s.prompt.p50, 3);
    ck_assert_int_eq(s.prompt.p90, 5);
    ck_assert_double_eq_tol(s.length_correlation, -1, 1e-12);
    ck_assert_double_eq(s.token_per_s, 6);
    spot_load_release(&load);
}
END_TEST

START_TEST(the_lengths_that_were_seen_are_of_the_latest_and_of_none_that_come)
{
    /* two degrees, of which the faster takes .1 s for a prompt and .01 s for a token */
    struct spot_serve_cell cell[] = {
        { .M = 1, .B = 1, .prefill_s = 0.2, .decode_s = 0.02, .prefill_token_s = 1e-9 },
        { .M = 2, .B = 1, .prefill_s = 0.1, .decode_s = 0.01, .prefill_token_s = 1e-9 },
        { .M = 2, .B = 2, .prefill_s = 0.01, .decode_s = 0.001, .prefill_token_s = 1e-9 },
    };
    const struct spot_job_serve serve = {
        .layers = 1, .factor = 1, .cell = cell, .n_cell = 3, .prompt_token = 1, .output_token = 1
    };
    struct spot_load load = { 0 };
    struct spot_serve_length length[8];

    for (int i = 0; i < 100; i++)
        spot_load_add(&load, i, i + 1, i % 10 == 3 ? 5000 : 2 * i + 1, NULL);
    /* the fifth came at this moment, the fourth goes on */
    ck_assert_uint_eq(spot_load_lengths_seen(&serve, &load, NULL, 4, 8, length), 3);
    ck_assert_uint_eq(spot_load_lengths_seen(&serve, &load, NULL, 60.5, 8, length), 8);
    for (int i = 0; i < 8; i++) { /* that of 60 goes on until 61.31, that of 53 for 50.1 s */
        const int k = i < 2 ? 51 + i : 52 + i;

        ck_assert_int_eq((int)length[i].prompt_token, k + 1);
        ck_assert_int_eq((int)length[i].output_token, 2 * k + 1);
    }
    spot_load_lengths_seen(&serve, &load, NULL, 143, 8, length);
    ck_assert_int_eq((int)length[0].prompt_token, 92);
    spot_load_lengths_seen(&serve, &load, NULL, 143.2, 8, length);
    ck_assert(length[1].prompt_token == 94 && length[1].output_token == 5000);
    ck_assert_uint_eq(spot_load_lengths_seen(&serve, &load, NULL, -1, 8, length), 0);
    spot_load_release(&load);
}
END_TEST

START_TEST(one_request_has_no_rate)
{
    struct spot_load load;
    struct spot_load_stats s;
    struct spot_err err;

    ck_assert_int_eq(read_text(&load, HEAD "10,1,10\n", 0, &err), 0);
    spot_load_stats(&load, &s);
    ck_assert(isnan(s.rate_per_s) && isnan(s.gap_cv) && isnan(s.length_correlation));
    ck_assert_uint_eq(s.counts[0].n, 0);
    spot_load_release(&load);
}
END_TEST

/* --- import --- */

static int import_text(struct spot_load_import *imp, const char *format, const char *text,
                       struct spot_err *err)
{
    FILE *in = fmemopen((void *)(uintptr_t)text, strlen(text), "r");
    int rc;

    ck_assert_ptr_nonnull(in);
    rc = spot_load_import_read(imp, spot_load_format_find(format), in, "f", err);
    fclose(in);
    return rc;
}

START_TEST(formats_become_requests)
{
    static const struct {
        const char *format, *text;
        double time_s;
        int prompt, output;
        const char *id;
    } sample[] = {
        { "azure-llm",
          "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.9799600,4808,10\n",
          1700158623.97996, 4808, 10, NULL },
        { "mooncake",
          "{\"timestamp\": 27482, \"input_length\": 6955, \"output_length\": 52, \"hash_ids\": "
          "[1]}\n",
          27.482, 6955, 52, NULL },
        { "burstgpt",
          "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
          "5,ChatGPT,472,18,490,Conversation log\n",
          5, 472, 18, NULL },
        { "openai-log",
          "{\"id\":\"c1\",\"created\":17,\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":12}}"
          "\n",
          17, 9, 12, "c1" },
        { "openai-log",
          "{\"id\":\"b\",\"response\":{\"body\":{\"id\":\"c2\",\"created\":18,\"usage\":"
          "{\"prompt_tokens\":7,\"completion_tokens\":2}}}}\n",
          18, 7, 2, "c2" },
        { "openai-log",
          "{\"id\":\"r\",\"created_at\":19.5,\"usage\":{\"input_tokens\":3,\"output_tokens\":4}}\n",
          19.5, 3, 4, "r" },
    };

    for (size_t i = 0; i < sizeof(sample) / sizeof(*sample); i++) {
        struct spot_load_import imp = { 0 };
        struct spot_err err;

        ck_assert_int_eq(import_text(&imp, sample[i].format, sample[i].text, &err), 0);
        ck_assert_uint_eq(imp.load.n, 1);
        ck_assert_double_eq_tol(imp.load.time_s[0], sample[i].time_s, 1e-6);
        ck_assert_int_eq(imp.load.prompt_token[0], sample[i].prompt);
        ck_assert_int_eq(imp.load.output_token[0], sample[i].output);
        if (sample[i].id)
            ck_assert_str_eq(imp.load.id[0], sample[i].id);
        spot_load_release(&imp.load);
    }
}
END_TEST

START_TEST(requests_of_a_served_log_are_a_load_choice_by_choice)
{
    static const char log[] =
        "{\"schema\":\"spot.event/1\",\"event\":\"serving\",\"time_s\":0,\"epoch\":0,\"step\":0,"
        "\"model\":\"m\"}\n"
        "{\"schema\":\"spot.event/1\",\"event\":\"request\",\"time_s\":9,\"epoch\":1,\"step\":7,"
        "\"id\":\"a\",\"came_s\":2.5,\"e2e_s\":6,\"prompt_tokens\":12,\"output_tokens\":7,"
        "\"choices\":4,\"prompts\":2,\"finish\":\"done\"}\n"
        "{\"schema\":\"spot.event/1\",\"event\":\"request\",\"time_s\":9,\"epoch\":1,\"step\":9,"
        "\"id\":\"b\",\"came_s\":1,\"e2e_s\":6,\"prompt_tokens\":3,\"output_tokens\":0,"
        "\"choices\":1,\"finish\":\"cancelled\"}\n"
        "{\"schema\":\"spot.event/1\",\"event\":\"request\",\"time_s\":9,\"ep";
    static const int output[] = { 2, 2, 2, 1 };
    struct spot_load_import imp = { 0 };
    struct spot_err err = { 0 };

    ck_assert_msg(!import_text(&imp, "spot-serve", log, &err), "%s", err.msg);
    ck_assert_uint_eq(imp.load.n, 4);
    ck_assert_uint_eq(imp.n_empty, 1); /* of the one that was cancelled; the last line was cut */
    for (size_t i = 0; i < 4; i++) {
        ck_assert_double_eq(imp.load.time_s[i], 2.5);
        ck_assert_int_eq(imp.load.prompt_token[i], 6);
        ck_assert_int_eq(imp.load.output_token[i], output[i]);
        ck_assert_str_eq(imp.load.id[i], "a");
    }
    spot_load_release(&imp.load);
}
END_TEST

START_TEST(calls_of_functions_get_lengths_and_a_moment_within_their_minute)
{
    struct spot_load_import imp = { .length = spot_load_source_new(&plain, 1) };
    struct spot_err err;
    char text[16384];
    size_t n = (size_t)snprintf(text, sizeof(text), "HashOwner,HashApp,HashFunction,Trigger");

    spot_rng_init(&imp.rng, 1, 9);
    for (int i = 1; i <= 1440; i++)
        n += (size_t)snprintf(text + n, sizeof(text) - n, ",%d", i);
    n += (size_t)snprintf(text + n, sizeof(text) - n, "\no,a,fa,http");
    for (int i = 1; i <= 1440; i++)
        n += (size_t)snprintf(text + n, sizeof(text) - n, ",%d", i == 7 ? 20 : 0);
    for (int day = 0; day < 2; day++) {
        ck_assert_int_eq(import_text(&imp, "azure-functions", text, &err), 0);
        ck_assert_uint_eq(imp.load.n, 20 * ((size_t)day + 1));
    }
    for (size_t i = 0; i < 40; i++) {
        const double in_s = imp.load.time_s[i] - (i < 20 ? 0 : 86400);

        ck_assert(in_s >= 360 && in_s < 420);
        ck_assert_int_eq(imp.load.prompt_token[i], 512);
    }
    ck_assert_int_eq(import_text(&imp, "azure-functions",
                                 "app,func,end_timestamp,duration\na,f,10.5,1.5\n", &err),
                     0);
    ck_assert_double_eq(imp.load.time_s[40], 9);
    spot_load_source_free(imp.length);
    spot_load_release(&imp.load);
}
END_TEST

START_TEST(what_failed_is_left_out_and_what_is_wrong_is_refused)
{
    static const struct {
        const char *format, *text, *message;
    } wrong[] = {
        { "azure-llm", "TIMESTAMP,ContextTokens,GeneratedTokens\nsoon,1,1\n",
          "f:2:1: TIMESTAMP: expected seconds or a date and time, got 'soon'" },
        { "mooncake", "{\"timestamp\":1,\"input_length\":2}\n", "f:1:" },
        { "mooncake", "{\"timestamp\":1,\"input_length\":-2,\"output_length\":1}\n", "f:1:" },
        { "openai-log", "\n{\"id\":\"c1\",\"created\":17}\n", "usage" },
        { "openai-log", "{\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":1}}\n",
          "created_at" },
        { "azure-functions", "a,b\n", "f:1:1: expected a header" },
        { "azure-functions", "app,func,end_timestamp,duration\na,f,9\n", "f:2: expected 4 fields" },
        { "azure-functions", "app,func,end_timestamp,duration\na,f,x,1\n",
          "f:2:5: end_timestamp: expected seconds, got 'x'" },
    };
    struct spot_load_import failed = { 0 };
    struct spot_err err;

    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
        struct spot_load_import imp = { 0 };

        ck_assert_int_eq(import_text(&imp, wrong[i].format, wrong[i].text, &err), -1);
        ck_assert_int_eq(err.code, SPOT_EDATA);
        ck_assert_msg(strstr(err.msg, wrong[i].message), "%s", err.msg);
        spot_load_release(&imp.load);
    }
    ck_assert_int_eq(
        import_text(&failed, "burstgpt", "Timestamp,Request tokens,Response tokens\n1,5,0\n", &err),
        0);
    ck_assert_int_eq(import_text(&failed, "openai-log", "{\"error\":{\"code\":500}}\n", &err), 0);
    ck_assert_uint_eq(failed.load.n, 0);
    ck_assert_uint_eq(failed.n_empty, 2);
    spot_load_release(&failed.load);
}
END_TEST

int main(void)
{
    return run_suite("load_trace", add_tests(tcase_create("load")));
}
