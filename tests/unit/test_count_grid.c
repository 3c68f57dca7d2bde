/* SPDX-License-Identifier: MIT */
/* Goal: counts, losses and gains of a grid are those worked out by hand, and a state that is kept
 * between calls knows what one call over everything knows. */
#include "forecast/count_grid.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/hash.h"
#include "common/out.h"
#include "common/rng.h"
#include "common/xalloc.h"
#include "forecast/tracked.h"
#include "suite.h"

enum { HORIZON = 3 };

static int n_warning;

static void warn(const char *fmt, ...)
{
    n_warning += fmt != NULL;
}

static void make(struct spot_count_grids *grids, const char *rows, int cap, bool is_whole,
                 const struct spot_trackeds *known)
{
    const struct spot_count_grid_ask ask = {
        .interval_s = 10, .cap = cap, .is_whole = is_whole, .warn = warn
    };
    struct spot_trace trace;
    struct spot_err err = { 0 };
    FILE *in = fmemopen((void *)(uintptr_t)rows, strlen(rows), "r");

    ck_assert_msg(!spot_trace_load(&trace, in, "rows", &err), "%s", err.msg);
    fclose(in);
    ck_assert_msg(!spot_count_grids_make(grids, &ask, &trace, known, &err), "%s", err.msg);
    spot_trace_release(&trace);
}

static void check_ints(const int *got, const char *want)
{
    char *end;
    int i = 0;

    for (const char *at = want; *at; at = end, i++)
        ck_assert_msg(got[i] == strtol(at, &end, 10), "%d at %d, want %s", got[i], i, want);
}

/* 5 until 10.4 (a row that is late by less than a twentieth of the interval still counts there),
 * then 3; a dip to 1 between 20 and 30 that the count at 30 does not show; 6 at 33. */
#define ROWS "time_s,available\n0,5\n10.4,3\n23,1\n26,4\n33,6\n"

START_TEST(counts_and_flows_are_those_worked_out_by_hand)
{
    struct spot_count_grids grids;
    const struct spot_count_grid *g;

    make(&grids, ROWS, 0, true, NULL);
    ck_assert_uint_eq(grids.n, 1);
    g = &grids.grid[0];
    ck_assert_uint_eq(g->n, 4);
    check_ints(g->y, "5 3 3 4");
    check_ints(g->lost, "0 2 0 2");
    check_ints(g->gained, "0 0 0 3");
    ck_assert_int_eq(g->cap, 5);
    ck_assert_uint_eq(g->n_change, 2);
    ck_assert(!g->is_open);
    spot_count_grids_release(&grids);
}
END_TEST

START_TEST(what_follows_the_last_interval_is_a_point_of_its_own)
{
    struct spot_count_grids grids;

    make(&grids, ROWS, 0, false, NULL);
    ck_assert_uint_eq(grids.grid[0].n, 5);
    ck_assert(grids.grid[0].is_open);
    ck_assert_double_eq(grids.grid[0].end_s, 33);
    check_ints(grids.grid[0].y, "5 3 3 4 6");
    spot_count_grids_release(&grids);
}
END_TEST

START_TEST(counts_above_the_cap_are_cut_and_told)
{
    struct spot_count_grids grids;

    n_warning = 0;
    make(&grids, ROWS, 3, true, NULL);
    check_ints(grids.grid[0].y, "3 3 3 3");
    ck_assert_uint_eq(grids.grid[0].n_clipped, 2);
    ck_assert_int_eq(n_warning, 1);
    spot_count_grids_release(&grids);
}
END_TEST

/* --- the state --- */

static const struct spot_tracked_key key = { .model = "empirical",
                                             .interval_s = 10,
                                             .horizon = HORIZON };
static struct spot_fc_spec spec = { .horizon = HORIZON, .day = 8640 };
static const struct spot_forecaster *model;
static char path[] = "/tmp/spot-state-XXXXXX";

static void setup(void)
{
    struct spot_err err = { 0 };
    const int fd = mkstemp(path);

    ck_assert_int_ge(fd, 0);
    close(fd);
    unlink(path);
    model = spot_forecaster_find("empirical", &spec, &err);
    ck_assert_ptr_nonnull(model);
}

static void teardown(void)
{
    unlink(path);
    memcpy(path + strlen(path) - 6, "XXXXXX", 6);
}

/* One call: load the state, take the rows in, save it. */
static void call(const char *rows)
{
    struct spot_trackeds state = { 0 };
    struct spot_count_grids grids;
    struct spot_err err = { 0 };

    ck_assert_msg(!spot_trackeds_load(&state, path, &key, model, &spec, &err), "%s", err.msg);
    make(&grids, rows, 8, false, &state);
    for (size_t i = 0; i < grids.n; i++)
        spot_trackeds_take(&state, model, spec, &grids.grid[i]);
    ck_assert(!spot_trackeds_save(&state, path, &key, &err));
    spot_count_grids_release(&grids);
    spot_trackeds_release(&state);
}

/* Rows at random times, some within a late row's reach of a grid point; `from` to `to` of them. */
static void random_rows(uint64_t seed, int from, int to, char *rows, size_t n_byte)
{
    struct spot_rng rng;
    double time_s = 0;
    size_t n = (size_t)snprintf(rows, n_byte, "time_s,available\n");

    spot_rng_init(&rng, seed, 0);
    for (int i = 0; i < to; i++) {
        const int count = (int)spot_rng_below(&rng, 9);

        if (i >= from)
            n += (size_t)snprintf(rows + n, n_byte - n, "%.2f,%d\n", time_s, count);
        time_s += spot_rng_below(&rng, 3) ? 0.2 * (double)(1 + spot_rng_below(&rng, 5))
                                          : (double)(1 + spot_rng_below(&rng, 25));
        if (!spot_rng_below(&rng, 3)) /* before a point, at it, behind it */
            time_s = ceil(time_s / 10) * 10 + 0.25 * (double)spot_rng_below(&rng, 5) - 0.5;
    }
}

/* What a call says of the series: the state, and with it what is not settled. */
static void say(const char *rows, char **said, size_t *n_byte)
{
    struct spot_trackeds state = { 0 };
    struct spot_count_grids grids;
    struct spot_tracked *t, newest;
    struct spot_err err = { 0 };
    double prob[HORIZON * 9];
    FILE *memory = spot_xmemory_open(said, n_byte);

    ck_assert_msg(!spot_trackeds_load(&state, path, &key, model, &spec, &err), "%s", err.msg);
    make(&grids, rows, 8, false, &state);
    t = spot_trackeds_take(&state, model, spec, &grids.grid[0]);
    ck_assert(!spot_trackeds_save(&state, path, &key, &err));
    spot_tracked_look(t, model, spec, &grids.grid[0], &newest);
    spot_predictor_predict(newest.predictor, prob);
    fwrite(prob, sizeof(prob), 1, memory);
    fprintf(memory, "%zu %zu %d %d %d %.17g %.17g %.17g %.17g", newest.n, newest.n_change,
            newest.now, newest.newest, newest.lowest, newest.time_s, newest.past.lost,
            newest.past.instance_s, newest.past.since_s);
    if (newest.predictor != t->predictor)
        spot_predictor_free(newest.predictor);
    spot_xmemory_close(memory);
    spot_count_grids_release(&grids);
    spot_trackeds_release(&state);
}

/* Wherever the calls cut the trace, and whether they get all rows again or the new ones only. */
START_TEST(calls_that_keep_a_state_know_what_one_call_knows)
{
    enum { N = 12 };
    char rows[1024], *want, *got;
    size_t n_want, n_got;

    for (uint64_t seed = 1; seed <= 8; seed++)
        for (int cut = 1; cut < N * N; cut++) {
            const int first = cut % N, second = cut / N, is_again = (int)(seed % 2);

            if (!first || second <= first)
                continue;
            unlink(path);
            random_rows(seed, 0, N, rows, sizeof(rows));
            say(rows, &want, &n_want);
            unlink(path);
            random_rows(seed, 0, first, rows, sizeof(rows));
            call(rows);
            random_rows(seed, is_again ? 0 : first, second, rows, sizeof(rows));
            call(rows);
            random_rows(seed, is_again ? 0 : second, N, rows, sizeof(rows));
            say(rows, &got, &n_got);
            ck_assert_msg(n_got == n_want && !memcmp(got, want, n_got), "seed %d, %d, %d: %s|%s",
                          (int)seed, first, second, got + sizeof(double[HORIZON * 9]),
                          want + sizeof(double[HORIZON * 9]));
            free(want);
            free(got);
        }
}
END_TEST

START_TEST(a_state_of_another_key_and_a_damaged_one_are_refused)
{
    struct spot_tracked_key other = key;
    struct spot_trackeds state = { 0 };
    struct spot_err err = { 0 };
    FILE *file;

    call(ROWS);
    other.interval_s = 11;
    ck_assert(spot_trackeds_load(&state, path, &other, model, &spec, &err));
    ck_assert_int_eq(err.code, SPOT_EDATA);
    ck_assert_ptr_nonnull(strstr(err.msg, "another version, model, interval"));
    file = fopen(path, "r+e");
    ck_assert_ptr_nonnull(file);
    fseek(file, -20, SEEK_END);
    fputc(0x5a ^ fgetc(file), file);
    fclose(file);
    ck_assert(spot_trackeds_load(&state, path, &key, model, &spec, &err));
    ck_assert_ptr_nonnull(strstr(err.msg, "is damaged"));
    ck_assert_uint_eq(state.n, 0);
}
END_TEST

/* What came after the last whole interval is looked at, and seen whole by the next call. */
START_TEST(an_interval_that_is_not_over_is_looked_at_and_not_kept)
{
    double kept[HORIZON * 9], seen[HORIZON * 9], again[HORIZON * 9];
    struct spot_trackeds state = { 0 };
    struct spot_count_grids grids;
    struct spot_tracked *t, newest;

    make(&grids, "time_s,available\n0,5\n10,3\n20,4\n25,6\n", 8, false, NULL);
    t = spot_trackeds_take(&state, model, spec, &grids.grid[0]);
    ck_assert(t->n == 3 && t->now == 4 && t->time_s == 20);
    spot_predictor_predict(t->predictor, kept);
    spot_tracked_look(t, model, spec, &grids.grid[0], &newest);
    ck_assert(newest.n == 4 && newest.now == 6 && newest.time_s == 25 && newest.n_change == 3);
    spot_predictor_predict(newest.predictor, seen);
    ck_assert_int_ne(memcmp(kept, seen, sizeof(kept)), 0);
    spot_predictor_free(newest.predictor);
    ck_assert(t->n == 3 && t->now == 4);
    spot_predictor_predict(t->predictor, again);
    ck_assert_mem_eq(kept, again, sizeof(kept));
    spot_count_grids_release(&grids);
    make(&grids, "time_s,available\n0,5\n10,3\n20,4\n", 8, true, NULL);
    spot_tracked_look(t, model, spec, &grids.grid[0], &newest); /* all is settled */
    ck_assert_ptr_eq(newest.predictor, t->predictor);
    ck_assert_int_eq(newest.now, 4);
    spot_count_grids_release(&grids);
    spot_trackeds_release(&state);
}
END_TEST

/* What a model counted is as wide as its cap: with another one it starts again from the values. */
START_TEST(another_cap_starts_again_with_the_values_that_are_kept)
{
    static const int value[] = { 5, 3, 4, 7 };
    struct spot_fc_spec wide = spec;
    struct spot_predictor *fresh;
    struct spot_trackeds state = { 0 };
    struct spot_count_grids grids;
    struct spot_tracked *t;
    double got[HORIZON * 10], want[HORIZON * 10];

    make(&grids, "time_s,available\n0,5\n10,3\n20,4\n", 8, true, NULL);
    spot_trackeds_take(&state, model, spec, &grids.grid[0]);
    spot_count_grids_release(&grids);
    make(&grids, "time_s,available\n20,4\n30,7\n", 9, true, &state);
    t = spot_trackeds_take(&state, model, spec, &grids.grid[0]);
    ck_assert(t->n == 4 && t->cap == 9 && t->now == 7);
    spot_predictor_predict(t->predictor, got);
    wide.cap = 9;
    fresh = spot_predictor_new(model, &wide);
    for (int i = 0; i < 4; i++)
        spot_predictor_observe(fresh, value[i]);
    spot_predictor_predict(fresh, want);
    ck_assert_mem_eq(got, want, sizeof(want));
    spot_predictor_free(fresh);
    spot_count_grids_release(&grids);
    spot_trackeds_release(&state);
}
END_TEST

/* Series are found whatever order they came in; one that the rows do not name stays as it was. */
START_TEST(series_are_sorted_by_name_and_go_on_without_rows)
{
    static const char *const zone[] = { "a", "a", "b", "c" };
    static const char *const type[] = { "g", "h", "g", "g" };
    struct spot_trackeds state = { 0 };
    struct spot_count_grids grids;

    make(&grids,
         "time_s,available,zone,instance_type\n0,3,c,g\n0,1,a,h\n0,2,b,g\n0,4,a,g\n10,5,b,g\n", 8,
         true, NULL);
    for (size_t i = grids.n; i-- > 0;)
        spot_trackeds_take(&state, model, spec, &grids.grid[i]);
    spot_count_grids_release(&grids);
    ck_assert_uint_eq(state.n, 4);
    for (size_t i = 0; i < 4; i++) {
        ck_assert_str_eq(state.series[i].zone, zone[i]);
        ck_assert_str_eq(state.series[i].instance_type, type[i]);
        ck_assert_ptr_eq(spot_trackeds_find(&state, zone[i], type[i]), &state.series[i]);
    }
    ck_assert_ptr_null(spot_trackeds_find(&state, "a", "i"));
    ck_assert_ptr_null(spot_trackeds_find(&state, "d", "g"));
    make(&grids, "time_s,available,zone,instance_type\n20,6,b,g\n30,7,b,g\n", 8, true, &state);
    ck_assert_uint_eq(grids.n, 4);
    ck_assert_str_eq(grids.grid[1].instance_type, "h");
    check_ints(grids.grid[1].y, "1 1 1"); /* from 10, where its newest value was */
    ck_assert_double_eq(grids.grid[1].start_s, 10);
    check_ints(grids.grid[2].y, "5 6 7");
    spot_count_grids_release(&grids);
    spot_trackeds_release(&state);
}
END_TEST

/* Records whose hash is right and that are none: only a program could write them. */
START_TEST(a_state_with_a_record_that_cannot_be_is_refused)
{
    static const char *const want[] = { "is cut", "is damaged" };
    struct spot_trackeds state = { 0 };
    struct spot_err err = { 0 };
    char bytes[8192], message[64];

    ck_assert_int_eq(spot_trackeds_save(&state, path, &key, &err), 0);
    for (int k = 0; k < 2; k++) {
        FILE *file = fopen(path, "r");
        size_t n = fread(bytes, 1, sizeof(bytes), file) - sizeof(uint64_t);
        uint64_t hash;

        fclose(file);
        ck_assert_uint_lt(n, 512);
        n = (size_t)(strchr(bytes, '\n') + 1 - bytes);
        memset(bytes + n, 0xFF, k ? 4096 : 3);
        n += k ? 4096 : 3;
        hash = spot_hash64(bytes, n);
        memcpy(bytes + n, &hash, sizeof(hash));
        file = fopen(path, "w");
        fwrite(bytes, 1, n + sizeof(hash), file);
        fclose(file);
        ck_assert_int_eq(spot_trackeds_load(&state, path, &key, model, &spec, &err), -1);
        snprintf(message, sizeof(message), "%s: %s", path, want[k]);
        ck_assert_str_eq(err.msg, message);
        ck_assert_uint_eq(state.n, 0);
    }
    ck_assert_int_eq(spot_trackeds_load(&state, "/tmp", &key, model, &spec, &err), -1);
    ck_assert_str_eq(err.msg, "cannot read the state '/tmp': Is a directory");
}
END_TEST

/* The newest number in the column `requested` is the cap, where none is asked for. */
START_TEST(the_cap_is_what_was_requested_last)
{
    struct spot_count_grids grids;

    make(&grids, "time_s,available,requested\n0,2,\n10,3,7\n20,1,6\n30,1,\n", 0, true, NULL);
    ck_assert_int_eq(grids.grid[0].cap, 6);
    spot_count_grids_release(&grids);
}
END_TEST

START_TEST(a_count_that_no_model_can_hold_is_refused)
{
    static const char rows[] = "time_s,available,zone\n0,1,a\n0,70000,b\n";
    const struct spot_count_grid_ask ask = { .interval_s = 10, .is_whole = true, .warn = warn };
    struct spot_count_grids grids;
    struct spot_trace trace;
    struct spot_err err = { 0 };
    FILE *in = fmemopen((void *)(uintptr_t)rows, strlen(rows), "r");
    char want[96];

    ck_assert_int_eq(spot_trace_load(&trace, in, "rows", &err), 0);
    fclose(in);
    ck_assert_int_eq(spot_count_grids_make(&grids, &ask, &trace, NULL, &err), -1);
    snprintf(want, sizeof(want), "series b: a count of 70000 is beyond the limit of %d; give --cap",
             SPOT_FC_CAP_MAX);
    ck_assert_str_eq(err.msg, want);
    ck_assert_ptr_null(grids.grid);
    spot_trace_release(&trace);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    tcase_add_test(tc, counts_and_flows_are_those_worked_out_by_hand);
    tcase_add_test(tc, what_follows_the_last_interval_is_a_point_of_its_own);
    tcase_add_test(tc, counts_above_the_cap_are_cut_and_told);
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, the_cap_is_what_was_requested_last);
    tcase_add_test(tc, a_count_that_no_model_can_hold_is_refused);
    tcase_add_test(tc, an_interval_that_is_not_over_is_looked_at_and_not_kept);
    tcase_add_test(tc, another_cap_starts_again_with_the_values_that_are_kept);
    tcase_add_test(tc, series_are_sorted_by_name_and_go_on_without_rows);
    tcase_add_test(tc, a_state_with_a_record_that_cannot_be_is_refused);
    tcase_add_test(tc, calls_that_keep_a_state_know_what_one_call_knows);
    tcase_add_test(tc, a_state_of_another_key_and_a_damaged_one_are_refused);
    return run_suite("count_grid", tc);
}
