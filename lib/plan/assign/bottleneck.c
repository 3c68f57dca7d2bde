/* SPDX-License-Identifier: MIT */
#include "plan/bottleneck.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/num.h"
#include "common/xalloc.h"

/* Rows are the shorter side. */
struct matcher {
    int n, m;
    bool is_turned;
    const double *cost;
    size_t n_word;
    uint64_t *allowed; /* [n * n_word] pairs under the threshold */
    uint64_t *unseen;  /* [n_word] columns not yet reached */
    int *row_of;       /* [m] */
    int *from;         /* [m] row from which a column was reached */
    int *queue;        /* [n] */
};

static double cost_of(const struct matcher *w, int i, int j)
{
    return w->is_turned ? w->cost[(size_t)j * (size_t)w->n + (size_t)i]
                        : w->cost[(size_t)i * (size_t)w->m + (size_t)j];
}

static void allow(struct matcher *w, double limit)
{
    memset(w->allowed, 0, (size_t)w->n * w->n_word * sizeof *w->allowed);
    for (int i = 0; i < w->n; i++)
        for (int j = 0; j < w->m; j++)
            if (cost_of(w, i, j) <= limit)
                w->allowed[(size_t)i * w->n_word + (size_t)j / 64] |= UINT64_C(1) << (j % 64);
}

/* Breadth-first search from row `root`; each column is visited once. Returns a free column, or -1.
 */
static int reach(struct matcher *w, int root)
{
    int n = 0;

    memset(w->unseen, 0xff, w->n_word * sizeof *w->unseen);
    w->queue[n++] = root;
    for (int k = 0; k < n; k++) {
        const uint64_t *allowed = w->allowed + (size_t)w->queue[k] * w->n_word;

        for (size_t word = 0; word < w->n_word; word++)
            for (uint64_t new = allowed[word] & w->unseen[word]; new; new &= new - 1) {
                const int j = (int)word * 64 + __builtin_ctzll(new);

                w->unseen[word] &= ~(new & -new);
                w->from[j] = w->queue[k];
                if (w->row_of[j] < 0)
                    return j;
                w->queue[n++] = w->row_of[j];
            }
    }
    return -1;
}

static bool is_matched(struct matcher *w, double limit, int *col_of)
{
    allow(w, limit);
    for (int j = 0; j < w->m; j++)
        w->row_of[j] = -1;
    for (int i = 0; i < w->n; i++)
        col_of[i] = -1;
    for (int i = 0; i < w->n; i++) {
        int j = reach(w, i);

        if (j < 0)
            return false;
        while (j >= 0) {
            const int row = w->from[j], next = col_of[row];

            w->row_of[j] = row;
            col_of[row] = j;
            j = row == i ? -1 : next;
        }
    }
    return true;
}

/* The distinct finite costs, ascending; returns their number. */
static size_t list_values(const struct matcher *w, double *value)
{
    const size_t n_all = (size_t)w->n * (size_t)w->m;
    size_t n = 0, n_distinct = 0;

    for (size_t k = 0; k < n_all; k++)
        if (isfinite(w->cost[k]))
            value[n++] = w->cost[k];
    qsort(value, n, sizeof *value, spot_num_compare);
    for (size_t k = 0; k < n; k++)
        if (!k || value[k] != value[n_distinct - 1])
            value[n_distinct++] = value[k];
    return n_distinct;
}

static bool search(struct matcher *w, double *least, int *col_of)
{
    double *value = spot_xcalloc((size_t)w->n * (size_t)w->m, sizeof *value);
    size_t lo = 0, hi = list_values(w, value);
    const bool is_possible = hi && is_matched(w, value[hi - 1], col_of);

    hi = hi ? hi - 1 : 0;
    while (is_possible && lo < hi) {
        const size_t mid = (lo + hi) / 2;

        if (is_matched(w, value[mid], col_of))
            hi = mid;
        else
            lo = mid + 1;
    }
    if (is_possible) {
        *least = value[lo];
        is_matched(w, *least, col_of);
    }
    free(value);
    return is_possible;
}

bool spot_bottleneck(int n_row, int n_col, const double *cost, double *least, int *col_of_row)
{
    struct matcher w = { .is_turned = n_row > n_col, .cost = cost };
    int *col_of;
    bool is_possible;

    *least = 0;
    w.n = w.is_turned ? n_col : n_row;
    w.m = w.is_turned ? n_row : n_col;
    w.n_word = ((size_t)w.m + 63) / 64;
    w.allowed = spot_xcalloc((size_t)w.n * w.n_word, sizeof *w.allowed);
    w.unseen = spot_xcalloc(w.n_word, sizeof *w.unseen);
    w.row_of = spot_xcalloc((size_t)w.m, sizeof(int));
    w.from = spot_xcalloc((size_t)w.m, sizeof(int));
    w.queue = spot_xcalloc((size_t)w.n + 1, sizeof(int));
    col_of = spot_xcalloc((size_t)w.n, sizeof(int));
    is_possible = !w.n || search(&w, least, col_of);
    for (int i = 0; i < n_row && is_possible; i++)
        col_of_row[i] = !w.is_turned ? col_of[i] : w.n ? w.row_of[i] : -1;
    free(w.allowed), free(w.unseen), free(w.row_of), free(w.from), free(w.queue), free(col_of);
    return is_possible;
}
