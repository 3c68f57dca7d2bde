/* SPDX-License-Identifier: MIT */
/* A new table of costs holds what is known of each grid; prices are computed on demand
 * (cost_table.c). */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "plan/cost_table.h"

/* The time to restart a grid from its checkpoint: the cost of resuming after a suspension. */
static double resume_s(const struct spot_cost_table *t, int to)
{
    return t->restart_s[2 * to + SPOT_CHANGE_ADD] + t->job->cost.checkpoint_s +
           t->migrate.all_s[t->p[to]];
}

static void sort_by_stages(struct spot_cost_table *t)
{
    int n = 0;

    for (int p = 1; p <= t->p_max; p++)
        for (int g = 0; g < t->n_grid; g++)
            if (t->p[g] == p)
                t->by_p[n++] = g;
}

void spot_cost_table_init_window(struct spot_cost_table *t, const struct spot_job_doc *job,
                                 const struct spot_throughput *throughput, int n_low, int n_max,
                                 int lost_max, const int *grid, int n_grid)
{
    const size_t n = (size_t)n_max + 1, p = (size_t)throughput->p_max + 1, m = (size_t)n_grid;

    assert(lost_max <= SPOT_COST_LOST_MAX && n_max <= throughput->n_max && n_low <= n_max);
    *t = (struct spot_cost_table){ .job = job,
                                   .throughput = throughput,
                                   .n_low = n_low,
                                   .n_max = n_max,
                                   .lost_max = lost_max,
                                   .p_max = throughput->p_max,
                                   .n_grid = n_grid };
    spot_migrate_cost_init(&t->migrate, job, t->p_max);
    t->d = spot_xcalloc(m, sizeof(int));
    t->p = spot_xcalloc(m, sizeof(int));
    t->samples_per_s = spot_xcalloc(m, sizeof(double));
    t->index = spot_xcalloc(n * p, sizeof(int));
    t->restart_s = spot_xcalloc(m * 2, sizeof(double));
    t->resume = spot_xcalloc(m, sizeof(double));
    t->by_p = spot_xcalloc(m, sizeof(int));
    t->same = spot_xcalloc(m * n, sizeof(double *));
    t->other = spot_xcalloc(m * p, sizeof(double *));
    t->share = spot_xcalloc(m * ((size_t)lost_max + 1), sizeof(double *));
    t->row = spot_xcalloc((n - (size_t)n_low) * m * ((size_t)lost_max + 1),
                          sizeof(struct spot_cost_changes *));
    for (size_t i = 0; i < n * p; i++)
        t->index[i] = SPOT_GRID_NONE;
    for (int g = 0; g < n_grid; g++) {
        t->d[g] = grid[g] / (int)p;
        t->p[g] = grid[g] % (int)p;
        t->index[grid[g]] = g;
        t->samples_per_s[g] = spot_throughput_at(throughput, t->d[g], t->p[g]);
        for (int kind = 0; kind < 2; kind++)
            t->restart_s[2 * g + kind] =
                spot_migrate_restart_s(&job->cost, t->d[g], t->p[g], (enum spot_change_kind)kind);
        t->resume[g] = resume_s(t, g);
    }
    sort_by_stages(t);
}

void spot_cost_table_init(struct spot_cost_table *t, const struct spot_job_doc *job,
                          const struct spot_throughput *throughput)
{
    const int n = throughput->n_max;

    assert(n <= SPOT_COST_INSTANCES_MAX);
    spot_cost_table_init_window(t, job, throughput, 0, n, n, throughput->grid_order,
                                throughput->n_grid);
}

static void free_all(double **of, size_t n)
{
    for (size_t i = 0; of && i < n; i++)
        free(of[i]);
    free(of);
}

static void free_outcomes(struct spot_cost_table *t)
{
    for (size_t i = 0; t->outcomes && i < spot_cost_n_row(t); i++)
        if (t->outcomes[i]) {
            free(t->outcomes[i]->pipelines);
            free(t->outcomes[i]->prob);
            free(t->outcomes[i]);
        }
    free(t->outcomes);
}

static void free_warmed(struct spot_cost_table *t)
{
    const size_t n = ((size_t)t->n_max + 1) * ((size_t)t->lost_max + 1);

    for (size_t i = 0; t->warmed && i < (size_t)(t->warm + 1) * (size_t)t->n_grid; i++) {
        for (size_t k = 0; t->warmed[i] && k < n; k++)
            free(t->warmed[i][k]);
        free(t->warmed[i]);
    }
    free(t->warmed);
}

void spot_cost_table_release(struct spot_cost_table *t)
{
    const size_t wide = (size_t)t->lost_max + 1;

    free_all(t->same, spot_cost_n_same(t));
    free_all(t->other, spot_cost_n_other(t));
    free_all(t->share, (size_t)t->n_grid * wide);
    free_all(t->same_most, spot_cost_n_same(t) * wide);
    free_all(t->other_most, spot_cost_n_other(t) * wide);
    for (size_t i = 0; t->row && i < spot_cost_n_row(t); i++)
        free(t->row[i]);
    free(t->row);
    free_outcomes(t);
    free_warmed(t);
    free(t->warm_rate);
    free(t->resume);
    free(t->by_p);
    free(t->d);
    free(t->p);
    free(t->samples_per_s);
    free(t->index);
    free(t->restart_s);
    spot_migrate_cost_release(&t->migrate);
    memset(t, 0, sizeof(*t));
}
