/* SPDX-License-Identifier: MIT */
/* Goal: the shipped jobs carry the published cost tables: every figure exported from them is
 * reproduced. Skips where the exports are absent. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/csv_reader.h"
#include "model/migrate_cost.h"
#include "model/stage_split.h"
#include "model/throughput.h"
#include "suite.h"

#define GOLDEN "../shared/data/golden/parcae/"

static const char *const job_name[] = { "gpt-1.5b", "gpt-6.7b", "bert", "resnet152", "vgg19" };
enum { JOBS = 5 };

struct fixture {
    struct spot_job_doc job[JOBS];
    struct spot_migrate_cost cost[JOBS];
    int n_row;
};

static void load(struct fixture *f)
{
    struct spot_err err = { 0 };
    char path[64];

    memset(f, 0, sizeof(*f));
    for (int i = 0; i < JOBS; i++) {
        snprintf(path, sizeof(path), "examples/jobs/%s.json", job_name[i]);
        ck_assert_msg(!spot_job_doc_load(&f->job[i], path, &err), "%s", err.msg);
        spot_migrate_cost_init(&f->cost[i], &f->job[i], 32);
    }
}

static void unload(struct fixture *f)
{
    for (int i = 0; i < JOBS; i++) {
        spot_migrate_cost_release(&f->cost[i]);
        spot_job_doc_release(&f->job[i]);
    }
}

static int job_of(const char *name)
{
    int i = 0;

    while (i < JOBS && strcmp(name, job_name[i]) != 0)
        i++;
    return i;
}

static double number(const struct spot_csv_row *row, size_t k)
{
    return strtod(row->field[k], NULL);
}

static void near(double got, double want, const struct spot_csv_row *row, const char *what)
{
    ck_assert_msg(fabs(got - want) <= 1e-6 * (1 + fabs(want)), "%s:%lu: %s %.9g, got %.9g",
                  row->source, row->line, what, want, got);
}

/* model,D,P,add_ms,remove_ms,restart_add_ms,restart_remove_ms,intra_ms */
static int on_regroup(const struct spot_csv_row *row, void *user, struct spot_err *err)
{
    struct fixture *f = user;
    const int i = job_of(row->field[0]), d = (int)number(row, 1), p = (int)number(row, 2);
    const struct spot_job_cost *c = &f->job[i].cost;

    (void)err;
    near(spot_migrate_regroup_s(c, d, p, SPOT_CHANGE_ADD) * 1e3, number(row, 3), row, "add");
    near(spot_migrate_regroup_s(c, d, p, SPOT_CHANGE_REMOVE) * 1e3, number(row, 4), row, "remove");
    near(spot_migrate_restart_s(c, d, p, SPOT_CHANGE_ADD) * 1e3, number(row, 5), row, "restart");
    near(spot_migrate_restart_s(c, d, p, SPOT_CHANGE_REMOVE) * 1e3, number(row, 6), row,
         "restart without joiners");
    near(spot_migrate_intra_s(c, d, p) * 1e3, number(row, 7), row, "intra");
    f->n_row++;
    return 0;
}

/* model,P,stage,first_layer,end_layer,params,state_bytes,p2p_ms */
static int on_stage(const struct spot_csv_row *row, void *user, struct spot_err *err)
{
    struct fixture *f = user;
    const int i = job_of(row->field[0]), p = (int)number(row, 1), k = (int)number(row, 2);
    const struct spot_stage_span span = spot_stage_split((int)f->job[i].n_layer, p, k);

    (void)err;
    ck_assert_int_eq(span.first, (int)number(row, 3));
    ck_assert_int_eq(span.end, (int)number(row, 4));
    near(f->cost[i].params[p * 32 + k], number(row, 5), row, "params");
    near(spot_migrate_stage_s(&f->cost[i], p, k) * 1e3, number(row, 7), row, "transfer");
    f->n_row++;
    return 0;
}

/* instances,D,P,samples_per_s */
static int on_best(const struct spot_csv_row *row, void *user, struct spot_err *err)
{
    struct spot_throughput *t = user;
    int d, p;
    const double x = spot_throughput_best(t, (int)number(row, 0), &d, &p);

    (void)err;
    ck_assert_int_eq(d, (int)number(row, 1));
    ck_assert_int_eq(p, (int)number(row, 2));
    near(x, number(row, 3), row, "samples_per_s");
    return 0;
}

static int read_all(const char *path, const char *const *want, size_t n, spot_csv_row_fn *on_row,
                    void *user)
{
    struct spot_err err = { 0 };
    FILE *in = fopen(path, "re");
    int rc;

    if (!in)
        return 0;
    rc = spot_csv_read(in, path, want, n, on_row, user, NULL, &err);
    ck_assert_msg(!rc, "%s", err.msg);
    fclose(in);
    return 1;
}

START_TEST(regroup_restart_and_intra_are_the_published_ones)
{
    static const char *const want[] = {
        "model", "D", "P", "add_ms", "remove_ms", "restart_add_ms", "restart_remove_ms", "intra_ms"
    };
    struct fixture f;

    load(&f);
    if (read_all(GOLDEN "regroup_ms.csv", want, 8, on_regroup, &f))
        ck_assert_int_gt(f.n_row, 200);
    unload(&f);
}
END_TEST

START_TEST(stages_and_their_transfers_are_the_published_ones)
{
    static const char *const want[] = { "model",     "P",      "stage",       "first_layer",
                                        "end_layer", "params", "state_bytes", "p2p_ms" };
    struct fixture f;

    load(&f);
    if (read_all(GOLDEN "stage_params.csv", want, 8, on_stage, &f))
        ck_assert_int_gt(f.n_row, 800);
    unload(&f);
}
END_TEST

START_TEST(the_best_grid_of_every_count_is_the_published_one)
{
    static const char *const want[] = { "instances", "D", "P", "samples_per_s" };
    static const char *const name[] = { "bert", "gpt-1.5b", "gpt-6.7b" };
    struct spot_err err = { 0 };
    struct spot_throughput t;
    struct fixture f;
    char path[96];

    load(&f);
    ck_assert(!spot_throughput_init(&t, &f.job[job_of(name[_i])], 32, SPOT_THROUGHPUT_TABLE, &err));
    snprintf(path, sizeof(path), GOLDEN "best_by_instances_%s.csv", name[_i]);
    read_all(path, want, 4, on_best, &t);
    spot_throughput_release(&t);
    unload(&f);
}
END_TEST

/* Fits of the measured tables, as in training-baselines.md section 2.4. */
START_TEST(the_fitted_distribution_is_as_close_as_the_reference_fit)
{
    struct spot_step_curve curve;
    struct fixture f;

    load(&f);
    spot_step_curve_fit(&curve, &f.job[0], NULL);
    ck_assert_uint_eq(curve.n_point, 47);
    ck_assert_double_le(fabs(curve.error_mean - 0.023), 0.002);
    ck_assert_double_le(curve.error_max, 0.10);
    spot_step_curve_fit(&curve, &f.job[1], NULL);
    ck_assert_uint_eq(curve.n_point, 9); /* 2 x 16 is an outlier */
    ck_assert_uint_eq(curve.n_outlier, 1);
    ck_assert_double_le(curve.error_mean, 0.018);
    unload(&f);
}
END_TEST

START_TEST(stages_cover_all_layers_once_for_every_count)
{
    for (int n = 1; n <= 64; n++)
        for (int p = 1; p <= n; p++) {
            int at = 0;

            for (int k = 0; k < p; k++) {
                const struct spot_stage_span s = spot_stage_split(n, p, k);

                ck_assert_int_eq(s.first, at);
                ck_assert_int_ge(s.end, s.first);
                at = s.end;
            }
            ck_assert_int_eq(at, n);
        }
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("published");

    tcase_add_loop_test(tc, the_best_grid_of_every_count_is_the_published_one, 0, 3);
    add_tests(tc);
    return run_suite("migrate_cost", tc);
}
