/* SPDX-License-Identifier: MIT */
#include <math.h>

#include "common/rng.h"
#include "doc_rig.h"
#include "forecast/hazard.h"
#include "forecast/predictor.h"

/* Goal: a hazard table says what its integrals say, refuses what is none with its position, and
 * makes a forecast know the ages of instances; where a series is new the table of its provider
 * helps. */

enum { CAP = 8, H = 4 };

/* A bathtub: bad in the first hour, good for ten, bad at the end. */
static const char BATHTUB[] = "age_s,hazard_per_h\n0,1.2\n3600,0.06\n36000,0.6\n";

static void load(struct spot_hazard *hazard, const char *text)
{
    FILE *in = fmemopen((void *)(uintptr_t)text, strlen(text), "r");
    struct spot_err err = { 0 };

    ck_assert_msg(!spot_hazard_load(hazard, in, "t.csv", &err), "%s", err.msg);
    fclose(in);
}

static double per_h(double age_s)
{
    return age_s < 3600 ? 1.2 : age_s < 36000 ? 0.06 : 0.6;
}

/* Sums in steps of a second: P(alive) and the time lived. */
START_TEST(integrals_agree_with_sums_over_seconds)
{
    const double end_s = 400000;
    struct spot_hazard hazard;
    double sum = 0, lived_s = 0, whole_s = 0;

    load(&hazard, BATHTUB);
    for (double s = 0.5; s < end_s; s++) {
        whole_s += exp(-sum - 0.5 * per_h(s) / 3600);
        sum += per_h(s) / 3600;
    }
    sum = 0;
    for (int s = 0; s < 100000; s++) {
        if (s % 1237 == 0) {
            ck_assert_double_eq_tol(spot_hazard_sum(&hazard, s), sum, 1e-9);
            ck_assert_double_eq_tol(spot_hazard_sum_unknown(&hazard, s),
                                    -log(1 - lived_s / whole_s), 1e-6);
        }
        lived_s += exp(-sum - 0.5 * per_h(s + 0.5) / 3600);
        sum += per_h(s + 0.5) / 3600;
    }
    spot_hazard_release(&hazard);
}
END_TEST

START_TEST(who_lives_for_ever_is_not_lost_at_an_unknown_age)
{
    struct spot_hazard hazard;

    load(&hazard, "hazard_per_h,age_s\n2,0\n0,600\n");
    ck_assert_double_eq_tol(spot_hazard_sum(&hazard, 1e6), 2.0 / 6, 1e-12);
    ck_assert_double_eq(spot_hazard_sum_unknown(&hazard, 1e6), 0);
    spot_hazard_release(&hazard);
}
END_TEST

/* A fuzzer's: exp(-sum) is 0 long before the last row, yet the chance to last only falls. */
START_TEST(a_table_that_nobody_survives_stays_finite)
{
    struct spot_hazard hazard;
    double before = 0;

    load(&hazard, "age_s,hazard_per_h\n0,0.1\n10800,3600\n21600,0.01\n");
    for (double age_s = 0; age_s < 1e11; age_s = 2 * age_s + 1) {
        const double sum = spot_hazard_sum_unknown(&hazard, age_s);

        ck_assert(isfinite(sum) && sum >= before);
        before = sum;
    }
    ck_assert_double_gt(before, 10000);
    spot_hazard_release(&hazard);
}
END_TEST

START_TEST(refuses_malformed_with_position)
{
    static const struct {
        const char *text, *want;
    } bad[] = {
        { "age_s\n0\n", "hazard_per_h" },
        { "age_s,hazard_per_h\n", "t.csv: expected rows" },
        { "age_s,hazard_per_h\n5,1\n", "t.csv:2:1: age_s: the first age is 0, got 5" },
        { "age_s,hazard_per_h\n0,1\n60,1\n60,2\n", "t.csv:4:1: age_s: expected more than the 60" },
        { "age_s,hazard_per_h\n0,-1\n", "t.csv:2:3: hazard_per_h" },
        { "age_s,hazard_per_h\n0,nan\n", "t.csv:2:3: hazard_per_h" },
        { "age_s,hazard_per_h\n0,3601\n", "t.csv:2:3: hazard_per_h" },
    };

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        FILE *in = fmemopen((void *)(uintptr_t)bad[i].text, strlen(bad[i].text), "r");
        struct spot_hazard hazard;
        struct spot_err err = { 0 };

        ck_assert_int_eq(spot_hazard_load(&hazard, in, "t.csv", &err), -1);
        ck_assert_msg(strstr(err.msg, bad[i].want) != NULL, "%s", err.msg);
        ck_assert_ptr_null(hazard.age_s);
        fclose(in);
    }
}
END_TEST

/* What a model says after y[n], a value every `interval_s`. */
static void forecast(const char *name, const struct spot_hazard *hazard, double interval_s,
                     const int *y, int n, double *prob)
{
    struct spot_fc_spec spec = {
        .cap = CAP, .horizon = H, .day = 86400 / interval_s, .hazard = hazard
    };
    const struct spot_forecaster *model = spot_forecaster_find(name, &spec, NULL);
    struct spot_predictor *p = spot_predictor_new(model, &spec);

    for (int t = 0; t < n; t++)
        spot_predictor_observe(p, y[t]);
    spot_predictor_predict(p, prob);
    spot_predictor_free(p);
}

static double drop_of(const struct spot_hazard *hazard, const int *y, int n)
{
    double prob[H * (CAP + 1)], drop = 0;

    forecast("hazard", hazard, 600, y, n, prob);
    for (int k = 0; k < y[n - 1]; k++)
        drop += prob[k];
    return drop;
}

START_TEST(the_distribution_of_new_instances_is_the_table)
{
    const int y[] = { 0, CAP };
    struct spot_hazard hazard;
    double prob[H * (CAP + 1)], full = 1;

    load(&hazard, BATHTUB);
    forecast("hazard", &hazard, 1800, y, 2, prob);
    for (int h = 1; h <= H; h++) {
        /* lost at the hazard of that half hour of life; a place is filled again by half a birth in
         * the 8 places and 10 that were empty so far, and the 8 births seen */
        const double fill = (CAP + 0.5) / (CAP + 10), half_hour = h <= 2 ? 0.6 : 0.03;

        full *= exp(-half_hour);
        full += (1 - full) * fill;
        ck_assert_double_eq_tol(prob[(h - 1) * (CAP + 1) + CAP], pow(full, CAP), 1e-9);
    }
    spot_hazard_release(&hazard);
}
END_TEST

START_TEST(the_young_go_first_where_the_table_says_so)
{
    struct spot_hazard hazard, flat;
    int old[40], young[40];

    load(&hazard, BATHTUB);
    load(&flat, "age_s,hazard_per_h\n0,0.3\n");
    for (int t = 0; t < 40; t++) {
        old[t] = t == 0 ? 0 : 4;
        young[t] = t == 0 || t >= 30 ? 4 : 0; /* came to nothing, then four at t = 30 */
    }
    ck_assert_double_gt(drop_of(&hazard, young, 33), 3 * drop_of(&hazard, old, 33));
    for (int t = 30; t < 40; t++) /* four more, and after an interval four are gone */
        old[t] = t == 30 ? 8 : 4;
    /* the survivors are the old ones, unless the table says that age does not matter */
    ck_assert_double_lt(drop_of(&hazard, old, 33), 0.5 * drop_of(&hazard, young, 33));
    spot_hazard_release(&hazard);
    spot_hazard_release(&flat);
}
END_TEST

/* A machine room of CAP places under the bathtub: each is lost by its age, an empty one filled with
 * probability `fill` a step of ten minutes. */
static void simulate(struct spot_rng *rng, double worse, double fill, int *y, int n)
{
    int age[CAP];

    for (int i = 0; i < CAP; i++)
        age[i] = 0;
    for (int t = 0; t < n; t++) {
        y[t] = 0;
        for (int i = 0; i < CAP; i++) {
            const double risk = 1 - exp(-worse * per_h(age[i] * 600) / 6);

            if (age[i] < 0)
                age[i] = spot_rng_unit(rng) < fill ? 0 : -1;
            else
                age[i] = t && spot_rng_unit(rng) < risk ? -1 : age[i] + 1;
            y[t] += age[i] >= 0;
        }
    }
}

START_TEST(the_level_of_a_table_is_learned)
{
    enum { N = 12000 };
    static int y[N];
    struct spot_hazard hazard;
    struct spot_fc_spec spec = { .cap = CAP, .horizon = H, .day = 144, .hazard = &hazard };
    struct spot_predictor *p;
    struct spot_rng rng;
    double prob[H * (CAP + 1)], said = 0, came = 0;

    load(&hazard, BATHTUB);
    spot_rng_init(&rng, 3, 1);
    simulate(&rng, 4, 0.02, y, N); /* four times as bad as the table says */
    p = spot_predictor_new(spot_forecaster_named("hazard"), &spec);
    for (int t = 0; t + 1 < N; t++) {
        spot_predictor_observe(p, y[t]);
        if (t < N / 2)
            continue;
        spot_predictor_predict(p, prob);
        for (int k = 0; k < y[t]; k++)
            said += prob[k];
        came += y[t + 1] < y[t];
    }
    ck_assert_double_gt(came, 400);
    ck_assert_double_eq_tol(said / came, 1, 0.2); /* as it stands the table would say a third */
    spot_predictor_free(p);
    spot_hazard_release(&hazard);
}
END_TEST

static double crps(const double *p, int y)
{
    double sum = 0, below = 0;

    for (int k = 0; k <= CAP; k++) {
        below += p[k];
        sum += (below - (y <= k)) * (below - (y <= k));
    }
    return sum;
}

START_TEST(a_new_series_is_forecast_better_with_its_table)
{
    enum { N = 30, SERIES = 60 };
    struct spot_hazard hazard;
    double with = 0, without = 0;

    load(&hazard, BATHTUB);
    for (uint64_t seed = 1; seed <= SERIES; seed++) {
        double prob[H * (CAP + 1)];
        struct spot_rng rng;
        int y[N + H];

        spot_rng_init(&rng, seed, 1);
        simulate(&rng, 1, 0.2, y, N + H);
        for (int n = 2; n < N; n += 3)
            for (int h = 1; h <= H; h++) {
                forecast("pool", &hazard, 600, y, n, prob);
                with += crps(prob + (h - 1) * (CAP + 1), y[n - 1 + h]);
                forecast("pool", NULL, 600, y, n, prob);
                without += crps(prob + (h - 1) * (CAP + 1), y[n - 1 + h]);
            }
    }
    ck_assert_msg(with < 0.97 * without, "%g with, %g without", with, without);
    spot_hazard_release(&hazard);
}
END_TEST

START_TEST(a_table_is_read_from_its_file_or_the_file_is_named)
{
    struct spot_hazard hazard;
    struct spot_err err = { 0 };
    char path[32];

    put_file(path, BATHTUB, strlen(BATHTUB));
    ck_assert_msg(!spot_hazard_load_path(&hazard, path, &err), "%s", err.msg);
    unlink(path);
    ck_assert_double_eq_tol(spot_hazard_sum(&hazard, 3600), 1.2, 1e-12);
    spot_hazard_release(&hazard);
    expect_fail(spot_hazard_load_path(&hazard, "/nowhere/h.csv", &err), &err, SPOT_ESYS,
                "cannot open '/nowhere/h.csv': No such file or directory");
}
END_TEST

START_TEST(a_table_ends_at_its_limit)
{
    char *const text = malloc((SPOT_HAZARD_ROWS_MAX + 2) * 16);
    size_t at = (size_t)sprintf(text, "age_s,hazard_per_h\n");
    struct spot_hazard hazard;
    struct spot_err err = { 0 };
    char want[96];
    FILE *in;

    for (int i = 0; i <= SPOT_HAZARD_ROWS_MAX; i++)
        at += (size_t)sprintf(text + at, "%d,1\n", i);
    in = opened(text);
    snprintf(want, sizeof(want), "t:%d:1: age_s: more than %d rows", SPOT_HAZARD_ROWS_MAX + 2,
             SPOT_HAZARD_ROWS_MAX);
    expect_refused(spot_hazard_load(&hazard, in, "t", &err), &err, want);
    fclose(in);
    free(text);
}
END_TEST

int main(void)
{
    return run_suite("hazard", add_tests(tcase_create("core")));
}
