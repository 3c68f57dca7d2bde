/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "plan/assign/assign_inner.h"

struct tree {
    spot_int128 *distance;
    int *parent;
    bool *is_done;
    struct spot_matching *at;
};

/* Grow a shortest path tree from a free row to the nearest free column, or -1. */
static int grow(const struct spot_turned *t, struct tree *tree, int root)
{
    int row = root;
    spot_int128 base = 0;

    for (int j = 0; j < t->m; j++)
        tree->parent[j] = -1, tree->is_done[j] = false;
    for (;;) {
        int best = -1;

        for (int j = 0; j < t->m; j++) {
            spot_int128 c;

            if (tree->is_done[j])
                continue;
            if (spot_turned_cost(t, row, j, &c)) {
                c += base - tree->at->u[row] - tree->at->v[j];
                if (tree->parent[j] < 0 || c < tree->distance[j])
                    tree->distance[j] = c, tree->parent[j] = row;
            }
            if (tree->parent[j] >= 0 && (best < 0 || tree->distance[j] < tree->distance[best] ||
                                         (tree->distance[j] == tree->distance[best] &&
                                          tree->at->row_of[j] < 0 && tree->at->row_of[best] >= 0)))
                best = j;
        }
        if (best < 0)
            return -1;
        base = tree->distance[best];
        tree->is_done[best] = true;
        row = tree->at->row_of[best];
        if (row < 0)
            return best;
    }
}

static void augment(const struct spot_turned *t, struct tree *tree, int root, int end)
{
    const spot_int128 least = tree->distance[end];

    tree->at->u[root] += least;
    for (int j = 0; j < t->m; j++)
        if (tree->is_done[j] && j != end) {
            tree->at->u[tree->at->row_of[j]] += least - tree->distance[j];
            tree->at->v[j] -= least - tree->distance[j];
        }
    for (int j = end;;) {
        const int row = tree->parent[j], next = tree->at->col_of[row];

        tree->at->row_of[j] = row;
        tree->at->col_of[row] = j;
        if (row == root)
            return;
        j = next;
    }
}

static int ascending(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

/* The rows of the tree that did not find a free column can only use the columns of the tree. */
static void name_violator(const struct spot_turned *t, const struct tree *tree, int root,
                          struct spot_assignment *answer)
{
    int *row = spot_xcalloc((size_t)t->n, sizeof(int));
    int *col = spot_xcalloc((size_t)t->n, sizeof(int));
    int n = 0;

    row[n] = root;
    for (int j = 0; j < t->m; j++)
        if (tree->is_done[j])
            col[n] = j, row[++n] = tree->at->row_of[j];
    qsort(row, (size_t)n + 1, sizeof *row, ascending);
    answer->bad_row = t->is_turned ? col : row;
    answer->bad_col = t->is_turned ? row : col;
    answer->n_bad_row = t->is_turned ? n : n + 1;
    answer->n_bad_col = t->is_turned ? n + 1 : n;
}

bool spot_assign_wide(const struct spot_turned *t, struct spot_matching *matching,
                      struct spot_assignment *answer)
{
    const size_t m = (size_t)t->m;
    struct tree tree = { spot_xcalloc(m, sizeof *tree.distance), spot_xcalloc(m, sizeof(int)),
                         spot_xcalloc(m, sizeof(bool)), matching };
    bool is_feasible = true;

    memset(matching->u, 0, (size_t)t->n * sizeof *matching->u);
    memset(matching->v, 0, m * sizeof *matching->v);
    for (int i = 0; i < t->n; i++)
        matching->col_of[i] = -1;
    for (int j = 0; j < t->m; j++)
        matching->row_of[j] = -1;
    for (int i = 0; i < t->n && is_feasible; i++) {
        const int end = grow(t, &tree, i);

        is_feasible = end >= 0;
        if (is_feasible)
            augment(t, &tree, i, end);
        else
            name_violator(t, &tree, i, answer);
    }
    free(tree.distance), free(tree.parent), free(tree.is_done);
    return is_feasible;
}
