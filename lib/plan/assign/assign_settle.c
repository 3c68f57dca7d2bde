/* SPDX-License-Identifier: MIT */
/* The lexicographically smallest of the optimal matchings.
 *
 * The optimal matchings are the full matchings on tight pairs (reduced cost 0) that cover every
 * line of the longer side whose price is not 0. Two dummies make this uniform: the row "nobody"
 * owns the unmatched columns and may own any column of price 0; the column "none" belongs to the
 * unmatched rows and may belong to any row of price 0. Row by row, the first column that the row
 * could own becomes its own, and both are then fixed. Rows exchange columns along walks in which
 * each row takes the column that the next one gives up. */
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "plan/assign/assign_inner.h"

static void put(struct spot_pairs *s, int row, int col)
{
    spot_bit_put(spot_pairs_takers(s, col), row);
    spot_bit_put(s->wishes + (size_t)row * s->m_word, col);
}

/* Sums are compared by their low words first. */
static void find_tight(struct spot_pairs *s, const struct spot_turned *t,
                       const struct spot_matching *matching)
{
    const int nobody = s->n - 1, none = s->m - 1;
    const uint64_t scale = (uint64_t)(t->problem->is_max ? -(int64_t)t->scale : t->scale);
    uint64_t *price = spot_xcalloc((size_t)(s->n + s->m), sizeof *price);

    for (int k = 0; k < nobody; k++)
        price[k] = (uint64_t)(t->is_turned ? matching->v : matching->u)[k];
    for (int k = 0; k < none; k++)
        price[s->n + k] = (uint64_t)(t->is_turned ? matching->u : matching->v)[k];
    for (int r = 0; r < nobody; r++)
        for (int c = 0; c < none; c++) {
            const int64_t cost = t->problem->cost[(size_t)r * (size_t)none + (size_t)c];
            const int i = t->is_turned ? c : r, j = t->is_turned ? r : c;
            spot_int128 x;

            if ((uint64_t)cost * scale - (price[r] + price[s->n + c]) <= 1 &&
                spot_turned_cost(t, i, j, &x) && x == matching->u[i] + matching->v[j])
                put(s, r, c);
        }
    free(price);
    for (int j = 0; j < t->m && t->n < t->m; j++)
        if (matching->v[j] == 0)
            put(s, t->is_turned ? j : nobody, t->is_turned ? none : j);
}

/* Queue the open rows that may have the column and have not been seen; `near`: the columns that
 * they can give up. */
static void give(struct spot_pairs *s, uint64_t *near, int giver, int col)
{
    int k = s->n_queue;

    spot_pairs_give(s, giver, col);
    for (; k < s->n_queue; k++) {
        const int x = s->queue[k];

        if (x != s->n - 1)
            spot_bit_put(near, s->col_of[x]);
        if (s->col_of[x] == s->m - 1)
            s->holder[s->m - 1] = x; /* of the rows without a column, one that can give that up */
        for (int j = 0; j < s->m && x == s->n - 1; j++)
            if (s->holder[j] == x)
                spot_bit_put(near, j);
    }
}

/* True if the walk can reach row x: by a column of a row that was seen, or of one that those let
 * in. Continues where the previous call stopped. */
static bool reaches(struct spot_pairs *s, uint64_t *near, int x)
{
    const uint64_t *const wishes = s->wishes + (size_t)x * s->m_word;
    const int nobody = s->n - 1;

    for (;;) {
        if (spot_bit_has(s->seen, x))
            return true;
        for (size_t w = 0; w < s->m_word; w++)
            if (wishes[w] & near[w]) {
                const int j = (int)w * 64 + __builtin_ctzll(wishes[w] & near[w]);

                s->giver[x] = s->holder[j];
                s->given[x] = j;
                return true;
            }
        if (s->n_walked == s->n_queue)
            return false;
        const int y = s->queue[s->n_walked++];

        if (y != nobody)
            give(s, near, y, s->col_of[y]);
        for (int j = 0; j < s->m && y == nobody; j++)
            if (s->holder[j] == y)
                give(s, near, y, j);
    }
}

/* Start with the column that row r gives up. */
static void start(struct spot_pairs *s, uint64_t *near, int r)
{
    memset(s->seen, 0, s->n_word * sizeof *s->seen);
    memset(near, 0, s->m_word * sizeof *near);
    s->n_queue = s->n_walked = 0;
    spot_bit_put(s->seen, r);
    give(s, near, r, s->col_of[r]);
}

/* The first column that row r can own. `loose`: the columns of open rows. */
static int first_column(struct spot_pairs *s, const uint64_t *loose, uint64_t *near, int r)
{
    const uint64_t *wishes = s->wishes + (size_t)r * s->m_word;
    bool is_started = false;

    for (size_t w = 0; w < s->m_word; w++)
        for (uint64_t rest = wishes[w] & loose[w]; rest; rest &= rest - 1) {
            const int j = (int)w * 64 + __builtin_ctzll(rest);

            if (j >= s->col_of[r])
                return s->col_of[r];
            if (!is_started)
                start(s, near, r);
            is_started = true;
            if (reaches(s, near, s->holder[j]))
                return j;
        }
    return s->col_of[r];
}

/* Row r keeps its column. */
static void settle(struct spot_pairs *s, uint64_t *loose, int r)
{
    spot_bit_drop(s->open, r);
    spot_bit_drop(loose, s->col_of[r]);
}

/* A walk that tried such a row would see all others in vain. */
static bool has_one_wish(const struct spot_pairs *s, int r)
{
    int n = 0;

    for (size_t w = 0; w < s->m_word && n < 2; w++)
        n += __builtin_popcountll(s->wishes[(size_t)r * s->m_word + w]);
    return n == 1;
}

void spot_assign_order(struct spot_pairs *s)
{
    const int nobody = s->n - 1, none = s->m - 1;
    uint64_t *const loose = spot_xcalloc(2 * s->m_word, sizeof *loose), *near = loose + s->m_word;

    memset(loose, 0xff, s->m_word * sizeof *loose);
    for (int r = 0; r < nobody; r++)
        if (has_one_wish(s, r))
            settle(s, loose, r);
    for (int r = 0; r < nobody; r++) {
        const int j = first_column(s, loose, near, r);
        int x = j == s->col_of[r] ? r : s->holder[j];

        while (x != r) {
            const int col = s->given[x];

            if (col != none)
                s->holder[col] = x;
            s->col_of[x] = col;
            x = s->giver[x];
        }
        s->col_of[r] = j;
        if (j != none)
            s->holder[j] = r;
        settle(s, loose, r);
    }
    free(loose);
}

void spot_assign_settle(const struct spot_turned *t, struct spot_matching *matching)
{
    const int n = t->problem->n_row, m = t->problem->n_col;
    int *const col_of = t->is_turned ? matching->row_of : matching->col_of;
    int *const row_of = t->is_turned ? matching->col_of : matching->row_of;
    struct spot_pairs s;

    spot_pairs_init(&s, n + 1, m + 1);
    find_tight(&s, t, matching);
    for (int i = 0; i < n; i++)
        s.col_of[i] = col_of[i] < 0 ? m : col_of[i];
    for (int j = 0; j < m; j++)
        s.holder[j] = row_of[j] < 0 ? n : row_of[j];
    spot_assign_order(&s);
    for (int i = 0; i < n; i++)
        col_of[i] = s.col_of[i] == m ? -1 : s.col_of[i];
    for (int j = 0; j < m; j++)
        row_of[j] = s.holder[j] == n ? -1 : s.holder[j];
    spot_pairs_release(&s);
}
