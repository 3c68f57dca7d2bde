/* SPDX-License-Identifier: MIT */
#include "plan/train/grid_window.h"

#include <stdbool.h>
#include <stdlib.h>

#include "common/xalloc.h"

static int d_of(const struct spot_throughput *t, int i)
{
    return t->grid_order[i] / (t->p_max + 1);
}

static int p_of(const struct spot_throughput *t, int i)
{
    return t->grid_order[i] % (t->p_max + 1);
}

/* For n instances: the index of the fastest grid of each stage count; -1: none. */
static void fastest_of(const struct spot_throughput *t, int n, int *of_p)
{
    for (int p = 0; p <= t->p_max; p++)
        of_p[p] = -1;
    for (int i = 0; i < t->n_grid; i++) {
        const int p = p_of(t, i);
        const double x = d_of(t, i) * p <= n ? t->samples_per_s[t->grid_order[i]] : 0;

        if (x > 0 && (of_p[p] < 0 || x > t->samples_per_s[t->grid_order[of_p[p]]]))
            of_p[p] = i;
    }
}

/* Keep the grid at index `best` and, for n instances, the widest with its P and the deepest with
 * its D. Pipelines beyond the fastest D are spares that already hold the state; stages beyond the
 * fastest P have less state each to move. */
static void keep_with_kin(const struct spot_throughput *t, int n, int best, bool *keep)
{
    const int d = d_of(t, best), p = p_of(t, best);
    int widest = best, deepest = best;

    for (int i = best; i < t->n_grid && d_of(t, i) <= n / p; i++) {
        if (t->samples_per_s[t->grid_order[i]] <= 0)
            continue;
        if (p_of(t, i) == p)
            widest = i;
        if (d_of(t, i) == d && p_of(t, i) <= n / d)
            deepest = i;
    }
    keep[best] = keep[widest] = keep[deepest] = true;
}

static void keep_best(const struct spot_throughput *t, int n, int *of_p, int n_stage, bool *keep)
{
    for (int k = 0; k < n_stage; k++) {
        int best = -1;

        for (int p = 1; p <= t->p_max; p++)
            if (of_p[p] >= 0 && (best < 0 || t->samples_per_s[t->grid_order[of_p[p]]] >
                                                 t->samples_per_s[t->grid_order[of_p[best]]]))
                best = p;
        if (best < 0)
            return;
        keep_with_kin(t, n, of_p[best], keep);
        of_p[best] = -1;
    }
}

int spot_grid_window(const struct spot_throughput *t, int n_low, int n_high, int n_stage, int d,
                     int p, int *grid)
{
    bool *keep = spot_xcalloc((size_t)t->n_grid, sizeof(*keep));
    int *of_p = spot_xcalloc((size_t)t->p_max + 1, sizeof(*of_p)), n = 0;

    for (int at = n_low; at <= n_high; at++) {
        fastest_of(t, at, of_p);
        keep_best(t, at, of_p, n_stage, keep);
    }
    for (int i = 0; i < t->n_grid; i++)
        if (keep[i] || (d > 0 && t->grid_order[i] == d * (t->p_max + 1) + p))
            grid[n++] = t->grid_order[i];
    free(keep);
    free(of_p);
    return n;
}
