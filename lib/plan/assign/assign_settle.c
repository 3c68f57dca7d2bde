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

struct settler {
    int n, m, nobody, none; /* rows and columns of the original problem; nobody = n, none = m */
    size_t n_word;          /* words of a bit set of rows and nobody */
    uint64_t *takers;       /* [m + 1][n_word] */
    uint64_t *open, *seen;  /* [n_word] */
    int *col_of, *holder;   /* [n], [m] */
    int *queue, *via, *via_col, n_queue, n_walked;
};

static bool has(const uint64_t *set, int k)
{
    return set[k / 64] >> (k % 64) & 1;
}

static void put(uint64_t *set, int k)
{
    set[k / 64] |= UINT64_C(1) << (k % 64);
}

static uint64_t *takers_of(const struct settler *s, int col)
{
    return s->takers + (size_t)col * s->n_word;
}

/* Sums are compared by their low words first. */
static void find_tight(struct settler *s, const struct spot_turned *t,
                       const struct spot_matching *matching)
{
    const uint64_t scale = (uint64_t)(t->problem->is_max ? -(int64_t)t->scale : t->scale);
    uint64_t *price = spot_xcalloc((size_t)(s->n + s->m), sizeof *price);

    for (int k = 0; k < s->n; k++)
        price[k] = (uint64_t)(t->is_turned ? matching->v : matching->u)[k];
    for (int k = 0; k < s->m; k++)
        price[s->n + k] = (uint64_t)(t->is_turned ? matching->u : matching->v)[k];
    for (int r = 0; r < s->n; r++)
        for (int c = 0; c < s->m; c++) {
            const int64_t cost = t->problem->cost[(size_t)r * (size_t)s->m + (size_t)c];
            const int i = t->is_turned ? c : r, j = t->is_turned ? r : c;
            spot_int128 x;

            if ((uint64_t)cost * scale - (price[r] + price[s->n + c]) <= 1 &&
                spot_turned_cost(t, i, j, &x) && x == matching->u[i] + matching->v[j])
                put(takers_of(s, c), r);
        }
    free(price);
    for (int j = 0; j < t->m && t->n < t->m; j++)
        if (matching->v[j] == 0)
            put(takers_of(s, t->is_turned ? s->none : j), t->is_turned ? j : s->nobody);
}

static void give(struct settler *s, int giver, int col)
{
    const uint64_t *takers = takers_of(s, col);

    for (size_t w = 0; w < s->n_word; w++)
        for (uint64_t new = takers[w] & s->open[w] & ~s->seen[w]; new; new &= new - 1) {
            const int x = (int)w * 64 + __builtin_ctzll(new);

            put(s->seen, x);
            s->via[x] = giver;
            s->via_col[x] = col;
            s->queue[s->n_queue++] = x;
        }
}

/* Start with the column that row r gives up. */
static void start(struct settler *s, int r)
{
    memset(s->seen, 0, s->n_word * sizeof *s->seen);
    s->n_queue = s->n_walked = 0;
    put(s->seen, r);
    give(s, r, s->col_of[r]);
}

/* True if the walk can reach row x. Continues where the previous call stopped. */
static bool reaches(struct settler *s, int x)
{
    while (!has(s->seen, x) && s->n_walked < s->n_queue) {
        const int y = s->queue[s->n_walked++];

        if (y != s->nobody)
            give(s, y, s->col_of[y]);
        for (int j = 0; j < s->m && y == s->nobody; j++)
            if (s->holder[j] == y)
                give(s, y, j);
    }
    return has(s->seen, x);
}

static void own(struct settler *s, int row, int col)
{
    if (col != s->none)
        s->holder[col] = row;
    if (row != s->nobody)
        s->col_of[row] = col;
}

/* The first column that row r can own. */
static int first_column(struct settler *s, int r)
{
    bool is_started = false;

    for (int j = 0; j < s->m && j != s->col_of[r]; j++) {
        if (!has(takers_of(s, j), r) || !has(s->open, s->holder[j]))
            continue;
        if (!is_started)
            start(s, r);
        is_started = true;
        if (reaches(s, s->holder[j]))
            return j;
    }
    return s->col_of[r];
}

static void order(struct settler *s)
{
    for (int r = 0; r < s->n; r++) {
        const int j = first_column(s, r);

        for (int x = j == s->col_of[r] ? r : s->holder[j]; x != r;) {
            const int giver = s->via[x];

            own(s, x, s->via_col[x]);
            x = giver;
        }
        own(s, r, j);
        s->open[r / 64] &= ~(UINT64_C(1) << (r % 64));
    }
}

void spot_assign_settle(const struct spot_turned *t, struct spot_matching *matching)
{
    const size_t n = (size_t)t->problem->n_row, m = (size_t)t->problem->n_col;
    struct settler s = { .n = (int)n, .m = (int)m, .nobody = (int)n, .none = (int)m };
    int *const col_of = t->is_turned ? matching->row_of : matching->col_of;
    int *const row_of = t->is_turned ? matching->col_of : matching->row_of;
    int *mem = spot_xcalloc(4 * (n + 1) + m, sizeof *mem);

    s.n_word = (n + 1 + 63) / 64;
    s.takers = spot_xcalloc((m + 3) * s.n_word, sizeof *s.takers);
    s.open = takers_of(&s, s.none + 1);
    s.seen = s.open + s.n_word;
    s.queue = mem;
    s.via = s.queue + n + 1;
    s.via_col = s.via + n + 1;
    s.col_of = s.via_col + n + 1;
    s.holder = s.col_of + n + 1;
    find_tight(&s, t, matching);
    for (int i = 0; i <= s.n; i++)
        put(s.open, i);
    for (int i = 0; i < s.n; i++)
        s.col_of[i] = col_of[i] < 0 ? s.none : col_of[i];
    for (int j = 0; j < s.m; j++)
        s.holder[j] = row_of[j] < 0 ? s.nobody : row_of[j];
    order(&s);
    for (int i = 0; i < s.n; i++)
        col_of[i] = s.col_of[i] == s.none ? -1 : s.col_of[i];
    for (int j = 0; j < s.m; j++)
        row_of[j] = s.holder[j] == s.nobody ? -1 : s.holder[j];
    free(s.takers), free(mem);
}
