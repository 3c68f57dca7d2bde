/* SPDX-License-Identifier: MIT */
/* The intervals whose changes are known: forward over (grid, rest of the migration). Of two ways to
 * a grid, one with fewer samples and a larger rest is dropped, since a larger rest is never better.
 * Nothing else is dropped, so this part is exact even if migrations outlast their interval. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "plan/train/liveput_inner.h"

struct label {
    double samples, left_s;
    int rank, first; /* current grid; grid chosen in the first interval */
    int next;        /* next label of the same rank: index + 1 */
};

struct front {
    struct label *label;
    size_t n, cap;
    int *head; /* [n_grid + 1] index + 1 */
};

static void clear(struct front *f, int n_grid)
{
    f->n = 0;
    memset(f->head, 0, ((size_t)n_grid + 1) * sizeof(*f->head));
}

/* Add the label unless an existing one is at least as good; drop those that it dominates. */
static void offer(struct front *f, const struct label *more)
{
    for (int i = f->head[more->rank]; i; i = f->label[i - 1].next) {
        const struct label *old = &f->label[i - 1];

        if (old->samples >= more->samples && old->left_s <= more->left_s)
            return;
    }
    for (int i = f->head[more->rank]; i; i = f->label[i - 1].next) {
        struct label *old = &f->label[i - 1];

        if (more->samples >= old->samples && more->left_s <= old->left_s)
            old->samples = -INFINITY;
    }
    f->label = spot_xgrow(f->label, &f->cap, f->n + 1, sizeof(*f->label));
    f->label[f->n] = *more;
    f->label[f->n].next = f->head[more->rank];
    f->head[more->rank] = (int)++f->n;
}

/* Extend a label by every choice when n instances become n2. drawn_s: the cost to each grid if
 * known, else NULL. */
static void extend(const struct spot_liveput_dp *dp, const struct label *from, int n, int n2,
                   const double *drawn_s, bool is_first, struct front *to)
{
    struct spot_cost_table *t = dp->table;
    const int grid = from->rank == dp->n_grid ? SPOT_GRID_NONE : dp->by_size[from->rank];
    const struct spot_cost_state state = { n, grid, from->left_s };
    const double *cost = drawn_s ? drawn_s : spot_cost_row(t, n, grid, n2 < n ? n - n2 : 0);

    offer(to,
          &(struct label){ from->samples, 0, dp->n_grid, is_first ? dp->n_grid : from->first, 0 });
    for (int r = 0; r < dp->n_fit[n2]; r++) {
        const int g = dp->by_size[r];
        const double total = spot_cost_total_s(t, &state, g, cost[g]);
        const double left = total > dp->interval_s ? total - dp->interval_s : 0;
        const double got =
            left > 0 ? 0 : spot_cost_rate(t, n2 < n ? n2 : n, g) * (dp->interval_s - total);

        offer(to, &(struct label){ from->samples + got, left, r, is_first ? r : from->first, 0 });
    }
}

void spot_liveput_known(const struct spot_liveput_dp *dp, const struct spot_liveput_view *v,
                        const double *value, double *score)
{
    struct front front[2] = { { 0 } };
    int n = v->n;

    for (int i = 0; i < 2; i++)
        front[i].head = spot_xcalloc((size_t)dp->n_grid + 1, sizeof(*front[i].head));
    offer(&front[0], &(struct label){ 0, v->carry_s,
                                      v->from == SPOT_GRID_NONE ? dp->n_grid : dp->rank[v->from],
                                      dp->n_grid, 0 });
    for (int k = 0; k < v->n_known; k++) {
        const struct front *from = &front[k % 2];
        struct front *to = &front[(k + 1) % 2];

        clear(to, dp->n_grid);
        for (size_t i = 0; i < from->n; i++)
            if (from->label[i].samples > -INFINITY)
                extend(dp, &from->label[i], n, n + v->change[k], k ? NULL : v->cost_s, k == 0, to);
        n += v->change[k];
    }
    for (int r = 0; r <= dp->n_grid; r++)
        score[r] = -INFINITY;
    for (size_t i = 0; i < front[v->n_known % 2].n; i++) {
        const struct label *end = &front[v->n_known % 2].label[i];
        const double then = spot_liveput_owing(dp, value, end->rank, end->left_s);

        score[end->first] = fmax(score[end->first], end->samples + then);
    }
    for (int i = 0; i < 2; i++) {
        free(front[i].label);
        free(front[i].head);
    }
}
