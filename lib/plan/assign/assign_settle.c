/* SPDX-License-Identifier: MIT */
/* Among optimal matchings: the one that keeps most rows in place, then the lexicographically
 * smallest. Both are choices among the perfect matchings of the tight graph (assign_tight.h), made
 * by turning cycles in it. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "plan/assign/assign_dense.h"
#include "plan/assign/assign_inner.h"
#include "plan/assign/assign_tight.h"

struct settler {
    struct spot_tight g;
    int *stay; /* [n] column that keeps row r in place, -1 none */
};

/* Close a pair: walks leave it alone from now on. */
static void fix(struct spot_tight *g, int holder, int col)
{
    spot_bit_drop(g->open_col, col);
    if (holder != g->nobody)
        spot_bit_drop(g->open_holder, holder);
}

/* After a walk by gifts from r that reached the holder of column j: r gets it. */
static void turn_gifts(struct spot_tight *g, int r, int j)
{
    for (int x = g->holder[j]; x != r; x = g->via[x])
        spot_own(g, x, g->via_col[x]);
    spot_own(g, r, j);
}

/* --- most rows in place --- */

struct part {
    const int *holder;
    int n;
    int *row, n_row; /* its holders but nobody */
    int *col, n_col;
    int *was; /* [n_col] holders before */
    int stride;
    bool has_nobody;
};

static void list_part(const struct spot_tight *g, struct part *part)
{
    part->n_row = part->n_col = 0;
    part->has_nobody = false;
    for (int k = 0; k < part->n; k++) {
        const int h = part->holder[k];

        if (h != g->nobody) {
            part->row[part->n_row++] = h;
            part->col[part->n_col++] = g->col_of[h];
            continue;
        }
        part->has_nobody = true;
        for (int j = 0; j < g->m; j++)
            if (g->holder[j] == h)
                part->col[part->n_col++] = j;
    }
    part->stride = (part->n_col + SPOT_DENSE_LANES - 1) / SPOT_DENSE_LANES * SPOT_DENSE_LANES;
}

static bool can_stay(const struct settler *s, int r)
{
    return s->stay[r] >= 0 && spot_bit(spot_takes_of(&s->g, r), s->stay[r]);
}

/* Keep every row of the part that could stay in place, one after another, those before fixed. Where
 * ties are many that mostly goes; where it does not, all is as before and the answer false. */
static bool keep_all(struct settler *s, const struct part *part)
{
    struct spot_tight *g = &s->g;
    bool is_kept = true;

    for (int b = 0; b < part->n_col; b++)
        part->was[b] = g->holder[part->col[b]];
    for (int a = 0; a < part->n_row && is_kept; a++) {
        const int r = part->row[a], j = s->stay[r];

        if (!can_stay(s, r))
            continue;
        is_kept = g->col_of[r] == j || spot_tight_gifts(g, r, g->holder[j]);
        if (is_kept && g->col_of[r] != j)
            turn_gifts(g, r, j);
        if (is_kept)
            fix(g, r, j);
    }
    for (int b = 0; b < part->n_col && !is_kept; b++) {
        spot_own(g, part->was[b], part->col[b]);
        spot_bit_put(g->open_col, part->col[b]);
        spot_bit_put(g->open_holder, part->was[b]);
    }
    return is_kept;
}

/* -1 for a row in place; columns that "nobody" may not own are worth more than all rows. */
static void fill_part(const struct settler *s, const struct part *part, int64_t *cost)
{
    const struct spot_tight *g = &s->g;

    for (int a = 0; a < part->n_row; a++)
        for (int b = 0; b < part->stride; b++) {
            const int r = part->row[a], j = b < part->n_col ? part->col[b] : -1;
            int64_t *c = cost + (size_t)a * (size_t)part->stride + (size_t)b;

            *c = SPOT_DENSE_FORBIDDEN;
            if (j >= 0 && spot_bit(spot_takes_of(g, r), j))
                *c = -(s->stay[r] == j) -
                     (part->has_nobody && !spot_bit(spot_takers_of(g, j), g->nobody)
                          ? part->n_row + 1
                          : 0);
        }
}

static void drop_pair(struct spot_tight *g, int holder, int col)
{
    spot_bit_drop(spot_takes_of(g, holder), col);
    spot_bit_drop(spot_takers_of(g, col), holder);
}

/* Take over the best matching of the part, and keep only the pairs of equally good ones. */
static void narrow_part(struct spot_tight *g, const struct part *part, const struct spot_dense *d)
{
    for (int b = 0; b < part->n_col; b++) {
        const int j = part->col[b];

        spot_own(g, d->row_of[b] < 0 ? g->nobody : part->row[d->row_of[b]], j);
        if (d->v[b] != 0)
            drop_pair(g, g->nobody, j);
        for (int a = 0; a < part->n_row; a++) {
            const int64_t c = d->cost[(size_t)a * (size_t)part->stride + (size_t)b];

            if (c != d->u[a] + d->v[b])
                drop_pair(g, part->row[a], j);
        }
    }
}

/* Not all can stay: which do is a small assignment. */
static void keep_most(struct settler *s, const struct part *part)
{
    const size_t n = (size_t)part->n_row, width = (size_t)part->stride;
    int64_t *cost = spot_alloc_aligned(n * width, sizeof *cost);
    int64_t *price = spot_alloc_aligned(width + n, sizeof *price);
    int *match = spot_xcalloc(n + (size_t)part->n_col, sizeof *match);
    const struct spot_dense d = {
        part->n_row, part->n_col, part->stride, cost, price ? price + width : NULL,
        price,       match,       match + n
    };

    assert(cost && price);
    fill_part(s, part, cost);
    if (spot_dense_solve(&d) != SPOT_DENSE_OK)
        assert(!"a part of a matching has a matching");
    narrow_part(&s->g, part, &d);
    spot_free_aligned(cost), spot_free_aligned(price), free(match);
}

static void keep_in_place(struct settler *s)
{
    const size_t n = (size_t)s->g.n + 1, m = (size_t)s->g.m;
    int *mem = spot_xcalloc(3 * n + 1 + 2 * m, sizeof *mem);
    int *holder = mem, *begin = mem + n;
    const int n_part = spot_tight_split(&s->g, holder, begin);
    struct part part = { .row = mem + 2 * n + 1, .col = mem + 3 * n + 1 };

    part.was = part.col + m;
    for (int k = 0; k < n_part; k++) {
        bool is_any = false;

        part.holder = holder + begin[k];
        part.n = begin[k + 1] - begin[k];
        for (int i = 0; i < part.n && !is_any; i++)
            is_any = part.holder[i] != s->g.nobody && can_stay(s, part.holder[i]);
        if (!is_any || part.n == 1)
            continue;
        list_part(&s->g, &part);
        if (!keep_all(s, &part))
            keep_most(s, &part);
    }
    free(mem);
}

/* --- lexicographic order --- */

/* The first column that row r could own instead, if any is before its own; *is_walked if there was
 * a walk that found its holder. Mostly the first that it can take at all is one, and a short walk
 * shows it. */
static int better_column(struct spot_tight *g, int r)
{
    bool is_walked = false;

    for (size_t w = 0; w < g->m_word; w++)
        for (uint64_t set = spot_takes_of(g, r)[w] & g->open_col[w]; set; set &= set - 1) {
            const int j = (int)w * 64 + __builtin_ctzll(set);

            if (j == g->col_of[r])
                return j;
            if (is_walked ? spot_bit(g->seen, g->holder[j]) : spot_tight_gifts(g, r, g->holder[j]))
                return j;
            is_walked = true; /* in vain, so everywhere */
        }
    return g->col_of[r];
}

static void order_rows(struct spot_tight *g)
{
    for (int r = 0; r < g->n; r++) {
        int j;

        if (!spot_bit(g->open_holder, r))
            continue;
        j = better_column(g, r);
        if (j != g->col_of[r])
            turn_gifts(g, r, j);
        fix(g, r, j);
    }
}

/* The first row that could own column j instead, if any is before its holder. */
static int better_holder(struct spot_tight *g, int j)
{
    const int h = g->holder[j];
    bool is_walked = false;

    for (size_t w = 0; w < g->n_word; w++)
        for (uint64_t set = spot_takers_of(g, j)[w] & g->open_holder[w]; set; set &= set - 1) {
            const int x = (int)w * 64 + __builtin_ctzll(set);

            if (x == h)
                return h;
            if (is_walked ? spot_bit(g->seen, x) : spot_tight_wishes(g, h, x))
                return x;
            is_walked = true;
        }
    return h;
}

static void order_columns(struct spot_tight *g)
{
    for (int j = 0; j < g->m; j++) {
        const int h = g->holder[j];
        int x;

        if (!spot_bit(g->open_col, j))
            continue;
        x = better_holder(g, j);
        for (int giver = x; giver != h;) {
            const int taker = g->via[giver];

            spot_own(g, taker, g->via_col[giver]);
            giver = taker;
        }
        spot_own(g, x, j);
        fix(g, x, j);
    }
}

/* --- */

static void read_stays(struct settler *s)
{
    const struct spot_turned *t = s->g.t;
    const struct spot_assign_problem *p = t->problem;

    for (int r = 0; r < s->g.n; r++)
        s->stay[r] = p->stay ? -1 : r;
    for (int i = 0; i < p->n_row && p->stay; i++)
        if (p->stay[i] >= 0 && t->is_turned)
            s->stay[p->stay[i]] = i;
        else if (p->stay[i] >= 0)
            s->stay[i] = p->stay[i];
}

void spot_assign_settle(const struct spot_turned *t, struct spot_matching *matching,
                        const struct spot_classes *classes)
{
    struct settler s;

    spot_tight_init(&s.g, t, matching, classes);
    s.stay = spot_xcalloc((size_t)s.g.n, sizeof(int));
    read_stays(&s);
    keep_in_place(&s);
    if (t->is_turned)
        order_columns(&s.g);
    else
        order_rows(&s.g);
    for (int j = 0; j < s.g.m; j++) {
        matching->row_of[j] = s.g.holder[j] == s.g.nobody ? -1 : s.g.holder[j];
        if (s.g.holder[j] != s.g.nobody)
            matching->col_of[s.g.holder[j]] = j;
    }
    free(s.stay);
    spot_tight_release(&s.g);
}
