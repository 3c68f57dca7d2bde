/* SPDX-License-Identifier: MIT */
/* Equal rows and equal columns merged: replicas of one layout position cost the same everywhere,
 * so a migration matrix of n nodes is a transportation problem of a few dozen classes. */
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "plan/assign/assign_inner.h"

enum { SAMPLES = 16, GAIN = 4 }; /* classes pay when GAIN * K * K' <= n * m */

#define NO_PATH INT64_MAX

/* A transportation problem: every row class ships its transport flow, no column gets above its
 * demand. */
struct transport {
    int n, m;
    int64_t *cost; /* [n * m], NO_PATH: forbidden */
    int *transport, *demand;
    int *flow; /* [n * m] */
    int64_t *u, *v;
    int64_t *distance, *row_distance;
    int *from, *row_from; /* the row that reached a column, the column that reached a row */
    bool *is_done, *is_reached;
    int *order, n_order; /* columns in the order in which they were finished */
};

/* --- finding classes --- */

static uint64_t key_of(const int64_t *row, int m)
{
    uint64_t key = 0;

    for (int k = 0; k < SAMPLES; k++)
        key = (key ^ (uint64_t)row[(size_t)k * (size_t)m / SAMPLES]) * UINT64_C(0x9e3779b97f4a7c15);
    return key;
}

/* class_of[i] and the first row of each class; returns their number, -1 above `most`. */
static int find_row_classes(const struct spot_assign_problem *p, int most, int *class_of,
                            int *first)
{
    const size_t m = (size_t)p->n_col;
    uint64_t *key = spot_xcalloc((size_t)most, sizeof *key);
    int n = 0;

    for (int i = 0; i < p->n_row && n >= 0; i++) {
        const int64_t *row = p->cost + (size_t)i * m;
        const uint64_t mine = key_of(row, p->n_col);
        int k = 0;

        while (k < n && (key[k] != mine ||
                         memcmp(p->cost + (size_t)first[k] * m, row, m * sizeof *row) != 0))
            k++;
        if (k == most) {
            n = -1;
            break;
        }
        if (k == n) {
            key[k] = mine;
            first[n++] = i;
        }
        class_of[i] = k;
    }
    free(key);
    return n;
}

static bool is_equal_column(const struct spot_assign_problem *p, const int *first, int n, int a,
                            int b)
{
    for (int k = 0; k < n; k++) {
        const int64_t *row = p->cost + (size_t)first[k] * (size_t)p->n_col;

        if (row[a] != row[b])
            return false;
    }
    return true;
}

/* The same for columns, which need comparing on one row of each class only. */
static int find_column_classes(const struct spot_assign_problem *p, const int *row_first,
                               int n_row_class, int most, int *class_of, int *first)
{
    const size_t m = (size_t)p->n_col;
    uint64_t *key = spot_xcalloc(m, sizeof *key), *class_key = spot_xcalloc((size_t)most, 8);
    int n = 0;

    for (int k = 0; k < n_row_class; k++) {
        const int64_t *row = p->cost + (size_t)row_first[k] * m;

        for (size_t j = 0; j < m; j++)
            key[j] = (key[j] ^ (uint64_t)row[j]) * UINT64_C(0x9e3779b97f4a7c15);
    }
    for (int j = 0; j < p->n_col && n >= 0; j++) {
        int k = 0;

        while (k < n &&
               (class_key[k] != key[j] || !is_equal_column(p, row_first, n_row_class, first[k], j)))
            k++;
        if (k == most) {
            n = -1;
            break;
        }
        if (k == n) {
            class_key[k] = key[j];
            first[n++] = j;
        }
        class_of[j] = k;
    }
    free(key), free(class_key);
    return n;
}

/* --- transportation --- */

static void reach(struct transport *w, int row, int from, int64_t at)
{
    w->is_reached[row] = true;
    w->row_from[row] = from;
    w->row_distance[row] = at;
    for (int j = 0; j < w->m; j++) {
        const int64_t c = w->cost[(size_t)row * (size_t)w->m + (size_t)j];
        const int64_t x = c == NO_PATH ? NO_PATH : c - w->u[row] - w->v[j] + at;

        if (!w->is_done[j] && x < w->distance[j]) {
            w->distance[j] = x;
            w->from[j] = row;
        }
    }
}

/* The nearest column with demand left, -1 if none. */
static int search(struct transport *w, int root)
{
    w->n_order = 0;
    for (int j = 0; j < w->m; j++)
        w->distance[j] = NO_PATH, w->is_done[j] = false;
    memset(w->is_reached, 0, (size_t)w->n * sizeof(bool));
    reach(w, root, -1, 0);
    for (;;) {
        int best = -1;

        for (int j = 0; j < w->m; j++)
            if (!w->is_done[j] && w->distance[j] != NO_PATH &&
                (best < 0 || w->distance[j] < w->distance[best] ||
                 (w->distance[j] == w->distance[best] && w->demand[j] && !w->demand[best])))
                best = j;
        if (best < 0 || w->demand[best])
            return best;
        w->is_done[best] = true;
        w->order[w->n_order++] = best;
        for (int k = 0; k < w->n; k++)
            if (!w->is_reached[k] && w->flow[(size_t)k * (size_t)w->m + (size_t)best])
                reach(w, k, best, w->distance[best]);
    }
}

static void ship(struct transport *w, int root, int end)
{
    const int64_t at = w->distance[end];
    int n = w->transport[root] < w->demand[end] ? w->transport[root] : w->demand[end];

    for (int j = end; w->from[j] != root; j = w->row_from[w->from[j]]) {
        const int back =
            w->flow[(size_t)w->from[j] * (size_t)w->m + (size_t)w->row_from[w->from[j]]];

        n = back < n ? back : n;
    }
    for (int j = end;;) {
        const int row = w->from[j];

        w->flow[(size_t)row * (size_t)w->m + (size_t)j] += n;
        if (row == root)
            break;
        j = w->row_from[row];
        w->flow[(size_t)row * (size_t)w->m + (size_t)j] -= n;
    }
    for (int k = 0; k < w->n; k++)
        if (w->is_reached[k])
            w->u[k] += at - w->row_distance[k];
    for (int k = 0; k < w->n_order; k++)
        w->v[w->order[k]] -= at - w->distance[w->order[k]];
    w->transport[root] -= n;
    w->demand[end] -= n;
}

static bool solve(struct transport *w)
{
    for (int k = 0; k < w->n; k++)
        while (w->transport[k]) {
            const int end = search(w, k);

            if (end < 0)
                return false;
            ship(w, k, end);
        }
    return true;
}

static void init(struct transport *w, int n, int m)
{
    const size_t rows = (size_t)n, cols = (size_t)m;

    *w = (struct transport){ .n = n, .m = m };
    w->cost = spot_xcalloc(rows * cols, sizeof *w->cost);
    w->flow = spot_xcalloc(rows * cols, sizeof *w->flow);
    w->u = spot_xcalloc(2 * (rows + cols), sizeof *w->u);
    w->v = w->u + rows;
    w->distance = w->v + cols;
    w->row_distance = w->distance + cols;
    w->transport = spot_xcalloc(2 * rows + 3 * cols, sizeof(int));
    w->row_from = w->transport + rows;
    w->demand = w->row_from + rows;
    w->from = w->demand + cols;
    w->order = w->from + cols;
    w->is_done = spot_xcalloc(rows + cols, sizeof(bool));
    w->is_reached = w->is_done + cols;
}

static void release(struct transport *w)
{
    free(w->cost), free(w->flow), free(w->u), free(w->transport), free(w->is_done);
}

/* --- between the two --- */

/* Costs of the classes; false if their sums could leave 64 bits. */
static bool fill_cost(const struct spot_turned *t, const struct spot_classes *c,
                      struct transport *w)
{
    const int64_t most = INT64_MAX / 8 / (w->n + w->m + 2);

    for (int a = 0; a < w->n; a++)
        for (int b = 0; b < w->m; b++) {
            spot_int128 cost;

            if (!spot_turned_cost(t, c->row_first[a], c->col_first[b], &cost))
                cost = NO_PATH;
            else if (cost > most || cost < -most)
                return false;
            w->cost[(size_t)a * (size_t)w->m + (size_t)b] = (int64_t)cost;
        }
    return true;
}

/* Rows of a class take columns of the classes it ships to, both ascending. */
static void expand(const struct spot_turned *t, const struct spot_classes *c,
                   const struct transport *w, struct spot_matching *matching)
{
    int *next = spot_xcalloc((size_t)t->m, sizeof(int)); /* the next column of the same class */
    int *head = spot_xcalloc((size_t)w->m, sizeof(int));

    for (int b = 0; b < w->m; b++)
        head[b] = -1;
    for (int j = t->m - 1; j >= 0; j--) {
        next[j] = head[c->col_class[j]];
        head[c->col_class[j]] = j;
        matching->row_of[j] = -1;
        matching->v[j] = w->v[c->col_class[j]];
    }
    for (int i = 0; i < t->n; i++) {
        int *flow = w->flow + (size_t)c->row_class[i] * (size_t)w->m;
        int b = 0;

        while (!flow[b])
            b++;
        flow[b]--;
        matching->col_of[i] = head[b];
        matching->row_of[head[b]] = i;
        matching->u[i] = w->u[c->row_class[i]];
        head[b] = next[head[b]];
    }
    free(next), free(head);
}

/* Which classes are tight, and whether the prices are a proof: u + v <= c, tight where something
 * is shipped, v <= 0, and 0 where demand is left. */
static bool prove(const struct spot_turned *t, const struct transport *w, bool *tight)
{
    bool ok = true;

    for (int k = 0; k < w->n * w->m; k++) {
        const int64_t sum = w->u[k / w->m] + w->v[k % w->m];

        tight[k] = w->cost[k] != NO_PATH && sum == w->cost[k];
        ok = ok && (w->cost[k] == NO_PATH || sum <= w->cost[k]) && (!w->flow[k] || tight[k]);
    }
    for (int b = 0; b < w->m; b++)
        ok = ok && (t->n == t->m || w->v[b] <= 0) && (!w->demand[b] || w->v[b] == 0);
    return ok;
}

void spot_classes_release(struct spot_classes *c)
{
    free(c->row_class), free(c->col_class), free(c->row_first), free(c->col_first);
    free(c->tight);
    *c = (struct spot_classes){ 0 };
}

static bool find_classes(const struct spot_turned *t, struct spot_classes *c)
{
    const struct spot_assign_problem *p = t->problem;
    const double most = (double)p->n_row * p->n_col / GAIN;
    int n, m = -1;

    c->row_class = spot_xcalloc((size_t)p->n_row, sizeof(int));
    c->col_class = spot_xcalloc((size_t)p->n_col, sizeof(int));
    c->row_first = spot_xcalloc((size_t)p->n_row / 2 + 1, sizeof(int));
    c->col_first = spot_xcalloc((size_t)p->n_col / 2 + 1, sizeof(int));
    n = find_row_classes(p, p->n_row / 2 + 1, c->row_class, c->row_first);
    if (n > 0)
        m = find_column_classes(p, c->row_first, n, p->n_col / 2 + 1, c->col_class, c->col_first);
    c->n_row_class = n;
    c->n_col_class = m;
    if (t->is_turned) {
        int *class = c->row_class, *first = c->row_first;

        c->row_class = c->col_class, c->col_class = class;
        c->row_first = c->col_first, c->col_first = first;
        c->n_row_class = m, c->n_col_class = n;
    }
    return n > 0 && m > 0 && (double)n * m <= most;
}

bool spot_assign_classes(const struct spot_turned *t, struct spot_matching *matching,
                         struct spot_classes *c)
{
    struct transport w;
    bool is_solved = false;

    *c = (struct spot_classes){ 0 };
    if (!t->n || !find_classes(t, c))
        return false;
    init(&w, c->n_row_class, c->n_col_class);
    c->tight = spot_xcalloc((size_t)w.n * (size_t)w.m, sizeof(bool));
    for (int i = 0; i < t->n; i++)
        w.transport[c->row_class[i]]++;
    for (int j = 0; j < t->m; j++)
        w.demand[c->col_class[j]]++;
    is_solved = fill_cost(t, c, &w) && solve(&w) && prove(t, &w, c->tight);
    if (is_solved)
        expand(t, c, &w, matching);
    release(&w);
    return is_solved;
}
