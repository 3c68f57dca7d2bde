/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "suite.h"
#include "train/history.h"

/* Goal: a history of any length has few points, evenly spread, and always the newest; what a
 * rollback took back is gone; the newest pauses stay. Read through the JSON that it writes. */

static struct spot_history history;

static void add(int64_t step)
{
    spot_history_add(&history, &(struct spot_history_point){ .time_s = (double)step,
                                                             .step = step,
                                                             .loss = 1.0 / (double)step,
                                                             .n_member = 4,
                                                             .grid = { 2, 2, 1 } });
}

/* The numbers in column `column` of an array of arrays; returns how many. */
static size_t read_column(const char *key, size_t column, double *value, size_t cap)
{
    struct spot_json_doc json;
    char *text = NULL;
    size_t n = 0, n_text = 0;
    FILE *const memory = open_memstream(&text, &n_text);
    const struct spot_json_value *rows;
    struct spot_err err;
    struct spot_jw jw;

    spot_jw_init(&jw, memory, false);
    spot_jw_object(&jw, NULL);
    spot_history_put(&history, &jw);
    spot_jw_end(&jw);
    ck_assert_int_eq(spot_jw_close(&jw, NULL), 0);
    fclose(memory);
    ck_assert_msg(!spot_json_parse(&json, text, n_text, "history", &err), "%s", err.msg);
    rows = spot_json_get(json.root, key);
    for (; n < spot_json_array_size(rows) && n < cap; n++)
        value[n] = spot_json_number(spot_json_entry(spot_json_entry(rows, n), column));
    spot_json_release(&json);
    free(text);
    return n;
}

static void setup(void)
{
    memset(&history, 0, sizeof(history));
}

START_TEST(few_steps_are_all_there)
{
    double step[10];

    for (int64_t i = 1; i <= 10; i++)
        add(i);
    ck_assert_uint_eq(read_column("points", 1, step, 10), 10);
    for (int i = 0; i < 10; i++)
        ck_assert_double_eq(step[i], i + 1);
}
END_TEST

START_TEST(many_steps_are_evenly_spread_and_end_in_the_newest)
{
    static double step[2 * SPOT_HISTORY_POINTS];

    for (int64_t last = 1; last < 20000; last++) {
        size_t n;

        add(last);
        if (last % 997)
            continue;
        n = read_column("points", 1, step, 2 * SPOT_HISTORY_POINTS);
        ck_assert_uint_le(n, SPOT_HISTORY_POINTS + 1);
        ck_assert(n > SPOT_HISTORY_POINTS / 2 || n == (size_t)last);
        ck_assert_double_eq(step[0], 1);
        ck_assert_double_eq(step[n - 1], (double)last);
        for (size_t i = 2; i + 1 < n; i++)
            ck_assert_double_eq(step[i] - step[i - 1], step[1] - step[0]);
        ck_assert_double_le(step[n - 1] - step[n - 2], step[1] - step[0]);
    }
}
END_TEST

START_TEST(what_a_rollback_took_back_is_gone)
{
    static double step[2 * SPOT_HISTORY_POINTS];
    size_t n;

    for (int64_t i = 1; i <= 1500; i++)
        add(i);
    for (int64_t i = 700; i <= 720; i++)
        add(i);
    n = read_column("points", 1, step, 2 * SPOT_HISTORY_POINTS);
    ck_assert_double_eq(step[n - 1], 720);
    for (size_t i = 1; i < n; i++)
        ck_assert_double_gt(step[i], step[i - 1]);
}
END_TEST

START_TEST(the_newest_pauses_stay_oldest_first)
{
    static double time_s[2 * SPOT_HISTORY_PAUSES];

    for (int i = 0; i < SPOT_HISTORY_PAUSES + 5; i++)
        spot_history_add_pause(&history, &(struct spot_history_pause){ i, 0.5, i, "kill" });
    ck_assert_uint_eq(read_column("pauses", 0, time_s, 2 * SPOT_HISTORY_PAUSES),
                      SPOT_HISTORY_PAUSES);
    for (int i = 0; i < SPOT_HISTORY_PAUSES; i++)
        ck_assert_double_eq(time_s[i], i + 5);
}
END_TEST

int main(void)
{
    TCase *const c = tcase_create("history");

    tcase_add_checked_fixture(c, setup, NULL);
    add_tests(c);
    return run_suite("history", c);
}
