/* SPDX-License-Identifier: MIT */
/* Goal: with is_released a change costs what Parcae's released code says. Oracle: that code
 * (JF-D/Parcae efedee7, liveput/monte_carlo.py, try_migration), called with every set of victims of
 * a few changes of all five jobs and averaged: tests/data/parcae/released_costs.csv. A row without
 * a grid to come from is the first interval. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/csv_reader.h"
#include "plan/cost_table.h"
#include "suite.h"

struct fixture {
    char name[32]; /* of the job that is loaded */
    struct spot_job_doc job;
    struct spot_throughput throughput;
    struct spot_cost_table table;
    int n_row, n_other; /* compared; of these such whose price the rules without it differ from */
    double most_off;
};

static void unload(struct fixture *f)
{
    if (!*f->name)
        return;
    spot_cost_table_release(&f->table);
    spot_throughput_release(&f->throughput);
    spot_job_doc_release(&f->job);
}

static void load(struct fixture *f, const char *name, bool is_released)
{
    struct spot_err err = { 0 };
    char path[96];

    unload(f);
    snprintf(f->name, sizeof(f->name), "%s", name);
    snprintf(path, sizeof(path), "examples/jobs/%s.json", name);
    ck_assert_msg(!spot_job_doc_load(&f->job, path, &err), "%s", err.msg);
    ck_assert(!spot_throughput_init(&f->throughput, &f->job, 32, SPOT_THROUGHPUT_TABLE, &err));
    spot_cost_table_init(&f->table, &f->job, &f->throughput);
    f->table.is_released = is_released;
}

static bool is_released;

static int on_row(const struct spot_csv_row *row, void *user, struct spot_err *err)
{
    struct fixture *f = user;
    int x[6], from, to;
    double got;

    (void)err;
    if (strcmp(f->name, row->field[0]) != 0)
        load(f, row->field[0], is_released);
    for (int k = 0; k < 6; k++)
        x[k] = atoi(row->field[1 + k]);
    from = spot_cost_grid(&f->table, x[1], x[2]);
    to = spot_cost_grid(&f->table, x[4], x[5]);
    ck_assert_int_ne(to, SPOT_GRID_NONE);
    got = x[1] ? spot_cost_row(&f->table, x[0], from, x[3])[to] : spot_cost_start_s(&f->table, to);
    f->n_row++;
    f->n_other += fabs(got - atof(row->field[7])) > 1e-6;
    f->most_off = fmax(f->most_off, fabs(got - atof(row->field[7])));
    return 0;
}

static void compare(struct fixture *f)
{
    static const char path[] = "tests/data/parcae/released_costs.csv";
    static const char *const want[] = { "job", "N", "D", "P", "lost", "to_D", "to_P", "cost_s" };
    struct spot_err err = { 0 };
    FILE *in = fopen(path, "re");

    ck_assert_msg(in != NULL, "%s is missing", path);
    memset(f, 0, sizeof(*f));
    ck_assert_msg(!spot_csv_read(in, path, want, 8, on_row, f, NULL, &err), "%s", err.msg);
    fclose(in);
    unload(f);
    ck_assert_int_eq(f->n_row, 289);
}

START_TEST(prices_are_those_of_the_release)
{
    struct fixture f;

    is_released = true;
    compare(&f);
    ck_assert_msg(!f.n_other, "%d of %d prices differ, by up to %g s", f.n_other, f.n_row,
                  f.most_off);
}
END_TEST

/* The file tells the two apart: else it would prove nothing. */
START_TEST(without_it_starts_and_ties_differ)
{
    struct fixture f;

    is_released = false;
    compare(&f);
    ck_assert_int_ge(f.n_other, 50);
    ck_assert_double_ge(f.most_off, 0.5);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    tcase_add_test(tc, prices_are_those_of_the_release);
    tcase_add_test(tc, without_it_starts_and_ties_differ);
    return run_suite("cost_released", tc);
}
