/* SPDX-License-Identifier: MIT */
#include "peers/parcae.h"

#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"

/* The best way found so far to (grid, unfinished or not). */
struct best {
    bool is_set;
    double samples, left_s;
    int first;  /* grid of the first step */
    int from_p; /* stages of the predecessor */
};

static bool better(const struct best *b, double samples, double left_s, int from_p)
{
    if (!b->is_set || samples != b->samples)
        return !b->is_set || samples > b->samples;
    if (left_s != b->left_s)
        return left_s < b->left_s;
    return from_p < b->from_p;
}

/* Extend predecessor `x`, which runs `from`, by one interval to every grid that fits n2; if none
 * does, the job is suspended: the state after all grids. */
static void relax(struct spot_cost_table *t, const struct best *x, int n, int from, int lost,
                  int n2, double interval_s, bool is_first, struct best *next)
{
    const double *cost = spot_cost_row(t, n, from, lost);
    const int from_p = from == SPOT_GRID_NONE ? 0 : t->p[from];
    struct best *none = &next[2 * t->n_grid];
    bool fits = false;

    for (int to = 0; to < t->n_grid; to++) {
        double total, left, samples = x->samples;
        struct best *b;

        if (t->d[to] * t->p[to] > n2)
            continue;
        fits = true;
        total = spot_cost_total_s(t, &(struct spot_cost_state){ n, from, x->left_s }, to, cost[to]);
        left = total > interval_s ? total - interval_s : 0;
        if (left <= 0)
            samples += t->samples_per_s[to] * (interval_s - total);
        b = &next[2 * to + (left > 0)];
        if (better(b, samples, left, from_p))
            *b = (struct best){ true, samples, left, is_first ? to : x->first, from_p };
    }
    if (!fits && better(none, x->samples, 0, from_p))
        *none = (struct best){ true, x->samples, 0, is_first ? SPOT_GRID_NONE : x->first, from_p };
}

int spot_parcae_choose(struct spot_cost_table *t, const struct spot_cost_state *state,
                       const int *gained, const int *lost, int n_step, double interval_s,
                       double *value)
{
    const size_t n_state = 2 * (size_t)t->n_grid + 1;
    struct best *now = spot_xcalloc(2 * n_state, sizeof(*now)), *next = now + n_state;
    struct best *memory = now, start = { .is_set = true, .left_s = state->carry_s };
    const struct best *end = NULL;
    int n = state->n, first = SPOT_GRID_NONE;

    for (int i = 0; i < n_step; i++) {
        const int n2 = n + gained[i] - lost[i];
        struct best *swap = now;

        memset(next, 0, n_state * sizeof(*next));
        if (!i)
            relax(t, &start, n, state->grid, lost[0], n2, interval_s, true, next);
        for (int from = 0; i && from < t->n_grid; from++)
            for (int s = 0; s < 2; s++)
                if (now[2 * from + s].is_set)
                    relax(t, &now[2 * from + s], n, from, lost[i], n2, interval_s, false, next);
        if (i && now[2 * t->n_grid].is_set)
            relax(t, &now[2 * t->n_grid], n, SPOT_GRID_NONE, 0, n2, interval_s, false, next);
        now = next;
        next = swap;
        n = n2;
    }
    for (size_t i = 0; i < n_state; i++)
        if (now[i].is_set && (!end || better(end, now[i].samples, now[i].left_s, end->from_p)))
            end = &now[i];
    if (end) {
        first = end->first;
        if (value)
            *value = end->samples;
    }
    free(memory);
    return first;
}
