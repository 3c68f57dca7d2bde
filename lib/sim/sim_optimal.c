/* SPDX-License-Identifier: MIT */
/* The optimum with the whole trace known: no policy that pays the same costs does better.
 *
 * Forward dynamic programming over (grid, unfinished migration). Of two ways into one grid, one
 * with fewer samples and more left to migrate can be dropped: more left is never better, since what
 * is left only delays what follows. Everything else is kept, so the optimum is exact. */
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "sim/sim_policy.h"

enum { INTERVALS_MAX = 100000 };

struct label {
    double samples, left_s;
    int grid;   /* or SPOT_GRID_NONE */
    int parent; /* index among the labels of the previous interval */
};

struct front {
    struct label *label;
    size_t n, cap;
};

/* Labels that no other dominates. Adding one drops those that it dominates. start[] are linked
 * lists by grid: head and next are indices + 1. */
struct frontier {
    struct front *front;
    int *head; /* [n_grid + 1] */
    int *next;
    bool *dead;
    size_t cap;
};

static void offer(struct frontier *f, const struct label *more)
{
    int *head = &f->head[more->grid + 1];

    for (int i = *head; i; i = f->next[i - 1]) {
        const struct label *old = &f->front->label[i - 1];

        if (!f->dead[i - 1] && old->samples >= more->samples && old->left_s <= more->left_s)
            return;
    }
    for (int i = *head; i; i = f->next[i - 1]) {
        const struct label *old = &f->front->label[i - 1];

        if (more->samples >= old->samples && more->left_s <= old->left_s)
            f->dead[i - 1] = true;
    }
    f->front->label =
        spot_xgrow(f->front->label, &f->front->cap, f->front->n + 1, sizeof(*f->front->label));
    if (f->front->n + 1 > f->cap) {
        f->cap = 2 * (f->front->n + 1);
        f->next = spot_xrealloc(f->next, f->cap, sizeof(*f->next));
        f->dead = spot_xrealloc(f->dead, f->cap, sizeof(*f->dead));
    }
    f->front->label[f->front->n++] = *more;
    f->next[f->front->n - 1] = *head;
    f->dead[f->front->n - 1] = false;
    *head = (int)f->front->n;
}

/* Remove dominated labels. */
static void settle(struct frontier *f, int n_grid)
{
    size_t n = 0;

    for (size_t i = 0; i < f->front->n; i++)
        if (!f->dead[i])
            f->front->label[n++] = f->front->label[i];
    f->front->n = n;
    f->front->label = spot_xrealloc(f->front->label, n, sizeof(*f->front->label));
    f->front->cap = n;
    memset(f->head, 0, ((size_t)n_grid + 1) * sizeof(*f->head));
}

static void offer_run(const struct spot_sim_train *sim, struct frontier *f, double samples,
                      double total_s, int to, int parent)
{
    const double t = sim->interval_s, left = total_s > t ? total_s - t : 0;
    const double rate = sim->table->samples_per_s[to];
    const struct label more = { samples + (left > 0 ? 0 : rate * (t - total_s)), left, to, parent };

    offer(f, &more);
}

static void extend(const struct spot_sim_train *sim, const struct spot_sim_row *row, int n_before,
                   const struct label *from, int parent, struct frontier *f)
{
    struct spot_cost_table *t = sim->table;
    const struct spot_cost_state state = { n_before, from->grid, from->left_s };
    const double *cost = spot_cost_row(t, n_before, from->grid, row->lost);
    bool fits = false;

    for (int to = 0; to < t->n_grid; to++) {
        if (t->d[to] * t->p[to] > row->available)
            continue;
        fits = true;
        offer_run(sim, f, from->samples, spot_cost_total_s(t, &state, to, cost[to]), to, parent);
    }
    if (!fits)
        offer(f, &(struct label){ from->samples, 0, SPOT_GRID_NONE, parent });
}

static void start(const struct spot_sim_train *sim, const struct spot_sim_row *row,
                  struct frontier *f)
{
    const struct spot_cost_table *t = sim->table;
    bool fits = false;

    for (int to = 0; to < t->n_grid; to++)
        if (t->d[to] * t->p[to] <= row->available) {
            fits = true;
            offer_run(sim, f, 0, spot_cost_start_s(t, to), to, 0);
        }
    if (!fits)
        offer(f, &(struct label){ 0, 0, SPOT_GRID_NONE, 0 });
}

/* Walk back from the best end: the grid of every interval. */
static void trace_back(const struct front *front, size_t n, int *grid)
{
    int at = 0;

    for (size_t k = 1; k < front[n - 1].n; k++)
        if (front[n - 1].label[k].samples > front[n - 1].label[at].samples)
            at = (int)k;
    for (size_t i = n; i-- > 0;) {
        grid[i] = front[i].label[at].grid;
        at = front[i].label[at].parent;
    }
}

int spot_sim_optimal(const struct spot_sim_train *sim, struct spot_sim_row *row,
                     struct spot_err *err)
{
    const size_t n = sim->n_interval;
    struct spot_sim_state state = { 0 };
    struct frontier f = { 0 };
    struct front *front;
    int *grid;

    if (n > INTERVALS_MAX)
        return spot_err_set(err, SPOT_EINFEASIBLE,
                            "optimal: %zu intervals, more than %d: give a longer --interval, or "
                            "less of the trace (--from, --to)",
                            n, INTERVALS_MAX);
    front = spot_xcalloc(n, sizeof(*front));
    grid = spot_xcalloc(n, sizeof(*grid));
    f.head = spot_xcalloc((size_t)sim->table->n_grid + 1, sizeof(*f.head));
    for (size_t i = 0; i < n; i++) {
        f.front = &front[i];
        if (!i)
            start(sim, &row[0], &f);
        for (size_t k = 0; i && k < front[i - 1].n; k++)
            extend(sim, &row[i], row[i - 1].available, &front[i - 1].label[k], (int)k, &f);
        settle(&f, sim->table->n_grid);
    }
    trace_back(front, n, grid);
    for (size_t i = 0; i < n; i++) {
        if (i)
            spot_sim_migrate(sim, &state, grid[i], &row[i]);
        else
            spot_sim_start(sim, &state, grid[i], &row[i]);
        free(front[i].label);
    }
    free(front);
    free(grid);
    free(f.head);
    free(f.next);
    free(f.dead);
    return 0;
}
