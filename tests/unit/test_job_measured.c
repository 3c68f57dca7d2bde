/* SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/rng.h"
#include "model/job_measured.h"
#include "suite.h"

/* Goal: the fit of latency and rate finds what made the points, and no pair on a fine grid around
 * it has a smaller error; what is written under "measured" does not disturb a reader. */

static double error_of(const struct spot_job_link *l, double a, double b)
{
    double sum = 0;

    for (size_t i = 0; i < l->n_point; i++)
        sum += pow((a + b * l->point[i].x) / l->point[i].y - 1, 2);
    return sum;
}

START_TEST(exact_points_give_their_line)
{
    struct spot_job_xy point[] = { { 1e3, 0 }, { 1e4, 0 }, { 1e5, 0 }, { 1e6, 0 } };
    struct spot_job_link l = { .point = point, .n_point = 4 };

    for (int k = 0; k < 4; k++)
        point[k].y = 2e-5 + point[k].x / 4e9;
    spot_job_link_fit(&l);
    ck_assert_double_eq_tol(l.latency_s, 2e-5, 1e-14);
    ck_assert_double_eq_tol(l.byte_per_s, 4e9, 1);
}
END_TEST

START_TEST(no_other_line_is_nearer)
{
    struct spot_rng rng;

    spot_rng_init(&rng, 11, 0);
    for (int k = 0; k < (is_long() ? 300 : 30); k++) {
        struct spot_job_xy point[6];
        struct spot_job_link l = { .point = point, .n_point = 6 };
        double best, b;

        for (int i = 0; i < 6; i++)
            point[i] = (struct spot_job_xy){ 1000 * pow(4, i),
                                             1e-6 * (1 + (double)spot_rng_below(&rng, 1000)) };
        spot_job_link_fit(&l);
        b = l.byte_per_s > 0 ? 1 / l.byte_per_s : 0;
        ck_assert_double_ge(l.latency_s, 0);
        best = error_of(&l, l.latency_s, b);
        for (int i = 0; i <= 200; i++)
            for (int j = 0; j <= 200; j++)
                if (error_of(&l, 1e-5 * i, 1e-11 * j * j) < best * (1 - 1e-9))
                    ck_abort_msg("%d: the line of %g and %g is nearer", k, 1e-5 * i, 1e-11 * j * j);
    }
}
END_TEST

/* Oracle: the line between neighbours of the sorted sample, found by walking it. */
static double quantile_of(const double *sorted, size_t n, double q)
{
    for (size_t i = 0; i + 1 < n; i++) {
        const double low = (double)i / (double)(n - 1), high = (double)(i + 1) / (double)(n - 1);

        if (q <= high)
            return sorted[i] + (q - low) / (high - low) * (sorted[i + 1] - sorted[i]);
    }
    return sorted[n - 1];
}

START_TEST(steps_are_summed_up_by_their_quartiles)
{
    double sorted[9], step_s[9];

    for (size_t n = 1; n <= 9; n++) {
        struct spot_job_cell cell = { 0 };

        for (size_t i = 0; i < n; i++)
            sorted[i] = 1 + 0.01 * (double)(i * i);
        for (size_t i = 0; i < n; i++)
            step_s[i] = sorted[(5 * i + 2) % n]; /* in another order; of five the same one */
        if (n == 5)
            memcpy(step_s, sorted, sizeof(step_s));
        spot_job_cell_sum_up(&cell, step_s, n);
        ck_assert_int_eq(cell.steps, (int64_t)n);
        ck_assert_double_eq_tol(cell.low_s, quantile_of(sorted, n, 0.25), 1e-12);
        ck_assert_double_eq_tol(cell.step_s, quantile_of(sorted, n, 0.5), 1e-12);
        ck_assert_double_eq_tol(cell.high_s, quantile_of(sorted, n, 0.75), 1e-12);
        ck_assert_double_eq_tol(spot_job_cell_spread(&cell),
                                (quantile_of(sorted, n, 0.75) - quantile_of(sorted, n, 0.25)) /
                                    quantile_of(sorted, n, 0.5),
                                1e-12);
        ck_assert(!cell.is_outlier);
    }
}
END_TEST

START_TEST(steps_that_scatter_by_more_than_half_are_an_outlier)
{
    double calm[] = { 10, 8, 12, 7.51, 12.5 }, wild[] = { 10, 7.4, 12.5, 1, 90 };
    struct spot_job_cell cell = { 0 };

    spot_job_cell_sum_up(&cell, calm, 5);
    ck_assert(!cell.is_outlier);
    spot_job_cell_sum_up(&cell, wild, 5);
    ck_assert(cell.is_outlier);
}
END_TEST

START_TEST(time_that_does_not_grow_has_no_rate)
{
    struct spot_job_xy point[] = { { 10, 3 }, { 100, 2 }, { 1000, 1 } };
    struct spot_job_link l = { .point = point, .n_point = 3 };

    spot_job_link_fit(&l);
    ck_assert_double_eq(l.byte_per_s, 0);
    ck_assert_double_gt(l.latency_s, 0);
}
END_TEST

START_TEST(readers_skip_what_was_measured)
{
    struct spot_job_stage_memory stage[] = { { 100, 200 } };
    struct spot_job_cell cell = {
        .grid = { 1, 1, 1 }, .micro_batch = 1, .steps = 3, .step_s = 0.5, .stage = stage
    };
    const struct spot_job_measured measured = { .workers = 1, .cell = &cell, .n_cell = 1 };
    struct spot_job_profile profile = { .grid = { 1, 1, 1 }, .micro_batch = 1, .step_s = 0.5 };
    struct spot_job_doc job = { .name = "x",
                                .global_batch = 4,
                                .micro_batch = 1,
                                .seq = 8,
                                .memory = { .state_byte_per_param = 16, .p_min = 1, .d_min = 1 },
                                .profile = &profile,
                                .n_profile = 1,
                                .measured = &measured },
                        got;
    char *text = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&text, &n);

    ck_assert_int_eq(spot_job_doc_write(&job, NULL, out, NULL), 0);
    fclose(out);
    ck_assert_ptr_nonnull(strstr(text, "\"measured\""));
    ck_assert_int_eq(spot_job_doc_parse(&got, text, n, "x", NULL), 0);
    ck_assert_uint_eq(got.n_profile, 1);
    ck_assert_ptr_null(got.measured);
    spot_job_doc_release(&got);
    free(text);
}
END_TEST

/* Every key that the page of the document names, in its place. */
START_TEST(what_was_measured_is_written_and_what_was_not_is_left_out)
{
    struct spot_job_stage_memory stage[] = { { 100, 200 }, { 101, 201 } };
    struct spot_job_cell cell = { .grid = { 1, 2, 1 },
                                  .micro_batch = 4,
                                  .steps = 3,
                                  .runs = 2,
                                  .step_s = 0.5,
                                  .low_s = 0.25,
                                  .high_s = 0.75,
                                  .curve_s = 0.625,
                                  .forward_s = 1,
                                  .backward_s = 2,
                                  .reduce_s = 3,
                                  .read_s = 4,
                                  .is_outlier = true,
                                  .stage = stage };
    struct spot_job_xy p2p[] = { { 10, 1 }, { 20, 2 } }, sum[] = { { 30, 3 } };
    struct spot_job_measured m = { .workers = 2,
                                   .warm_up = 1,
                                   .cell = &cell,
                                   .n_cell = 1,
                                   .curve = { 1.5, 2.5, 3.5, 6, 1, 0.125, 0.25, 0 },
                                   .p2p = { 2, 1e-3, 10, p2p, 2 },
                                   .sum = { 3, 3, 0, sum, 1 },
                                   .stall = { 2, 5, 1, 2, 3, 4, 5, 15 },
                                   .change = { 7, 3, 0.5, 1.5, 2e-3 } };
    struct spot_jw jw;
    struct spot_err err = { 0 };
    char *text = NULL;
    size_t n;

    for (int is_all = 1; is_all >= 0; is_all--) {
        FILE *const out = open_memstream(&text, &n);

        spot_jw_init(&jw, out, false);
        spot_jw_object(&jw, NULL);
        spot_job_measured_write(&jw, &m);
        spot_jw_end(&jw);
        ck_assert_int_eq(spot_jw_close(&jw, &err), 0);
        fclose(out);
        ck_assert_str_eq(
            text,
            is_all
                ? "{\"measured\":{\"workers\":2,\"warm_up\":1,\"cells\":[{\"D\":1,\"P\":2,\"M\":1,"
                  "\"B\":4,\"steps\":3,\"runs\":2,\"step_s\":0.5,\"low_s\":0.25,\"high_s\":0.75,"
                  "\"law_s\":0.625,\"forward_s\":1,\"backward_s\":2,\"reduce_s\":3,\"read_s\":4,"
                  "\"outlier\":true,\"stages\":[{\"planned_byte\":100,\"resident_byte\":200},"
                  "{\"planned_byte\":101,\"resident_byte\":201}]}],"
                  "\"law\":{\"pipe\":1.5,\"fill_s\":2.5,\"fixed_s\":3.5,\"points\":6,\"outliers\":"
                  "1,"
                  "\"error_mean\":0.125,\"error_max\":0.25},"
                  "\"p2p\":{\"members\":2,\"latency_s\":0.001,\"byte_per_s\":10,"
                  "\"points\":[{\"byte\":10,\"s\":1},{\"byte\":20,\"s\":2}]},"
                  "\"sum\":{\"members\":3,\"latency_s\":3,\"points\":[{\"byte\":30,\"s\":3}]},"
                  "\"stall\":{\"D\":2,\"steps\":5,\"step_s\":15,\"compute_s\":1,"
                  "\"interconnect_s\":2,\"network_s\":3,\"prep_s\":4,\"fetch_s\":5},"
                  "\"change\":{\"changes\":7,\"joins\":3,\"leave_s\":0.5,\"join_s\":1.5,"
                  "\"s_per_byte\":0.002}}}\n"
                : "{\"measured\":{\"workers\":2,\"warm_up\":1,\"cells\":[]}}\n");
        free(text);
        m = (struct spot_job_measured){ .workers = 2, .warm_up = 1 };
    }
}
END_TEST

int main(void)
{
    return run_suite("job_measured", add_tests(tcase_create("core")));
}
