/* SPDX-License-Identifier: MIT */
/* Among optimal matchings: the one that keeps most rows in place, then the lexicographically
 * smallest.
 *
 * The optimal matchings are the full matchings of the tight pairs (reduced cost 0) that cover
 * every column whose price is not 0. An extra holder, "nobody", owns the unmatched columns and may
 * own any column of price 0, so that each of them is a perfect matching of holders and columns. A
 * holder can change columns exactly along a cycle of "g gives a column that x can take". */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "plan/assign_dense.h"
#include "plan/assign_inner.h"

struct settler {
    const struct spot_turned *t;
    int n, m, nobody;            /* holders 0..n, columns 0..m-1; nobody = n */
    size_t n_word, m_word;       /* of a set of holders, of columns */
    uint64_t *takes;             /* [n * m_word] columns that a row can take */
    uint64_t *takers;            /* [m * n_word] holders that can take a column */
    int *holder;                 /* [m] */
    int *col_of;                 /* [n + 1]; of nobody: unused */
    int *contested, n_contested; /* columns of price 0 that some row can take */
    uint64_t *open_holder, *open_col;
    uint64_t *seen;             /* [n_word] by the last walk */
    int *queue, *via, *via_col; /* [n + 1] of the last walk */
    int *stay;                  /* [n] column that keeps row r in place, -1 none */
};

static bool has(const uint64_t *set, int k)
{
    return set[k / 64] >> (k % 64) & 1;
}
static void put(uint64_t *set, int k)
{
    set[k / 64] |= UINT64_C(1) << (k % 64);
}
static void drop(uint64_t *set, int k)
{
    set[k / 64] &= ~(UINT64_C(1) << (k % 64));
}

static uint64_t *takes_of(const struct settler *s, int r)
{
    return s->takes + (size_t)r * s->m_word;
}
static uint64_t *takers_of(const struct settler *s, int j)
{
    return s->takers + (size_t)j * s->n_word;
}

static void put_pair(struct settler *s, int r, int j)
{
    put(takes_of(s, r), j);
    put(takers_of(s, j), r);
}

/* Pair by pair, in the order in which the costs lie in memory, where prices fit 62 bits: then no
 * sum of two is SPOT_ASSIGN_FORBIDDEN. */
static bool find_tight_narrow(struct settler *s, const struct spot_matching *matching)
{
    const struct spot_assign_problem *p = s->t->problem;
    const int64_t sign = p->is_max ? -1 : 1;
    const spot_int128 most = INT64_C(1) << 61;
    int64_t *price = spot_xcalloc((size_t)s->n + (size_t)s->m, sizeof *price);
    int64_t *u = s->t->is_turned ? price + s->n : price; /* of the problem's rows */
    int64_t *v = s->t->is_turned ? price : price + s->n;
    bool is_narrow = true;

    for (int k = 0; k < s->n + s->m; k++) {
        const spot_int128 x = k < s->n ? matching->u[k] : matching->v[k - s->n];

        is_narrow = is_narrow && x < most && x > -most;
        price[k] = is_narrow ? sign * (int64_t)x : 0;
    }
    for (int i = 0; i < p->n_row && is_narrow; i++) {
        const int64_t *cost = p->cost + (size_t)i * (size_t)p->n_col;

        for (int j = 0; j < p->n_col; j++)
            if (cost[j] == u[i] + v[j])
                put_pair(s, s->t->is_turned ? j : i, s->t->is_turned ? i : j);
    }
    free(price);
    return is_narrow;
}

static void find_tight_pairs(struct settler *s, const struct spot_matching *matching)
{
    if (find_tight_narrow(s, matching))
        return;
    for (int r = 0; r < s->n; r++)
        for (int j = 0; j < s->m; j++) {
            spot_int128 c;

            if (spot_turned_cost(s->t, r, j, &c) && c == matching->u[r] + matching->v[j])
                put_pair(s, r, j);
        }
}

/* One set for all rows of a class, one for all columns of a class. */
static void find_tight_classes(struct settler *s, const struct spot_classes *c)
{
    for (int r = 0; r < s->n; r++) {
        const int a = c->row_class[r];

        if (c->row_first[a] != r) {
            memcpy(takes_of(s, r), takes_of(s, c->row_first[a]), s->m_word * sizeof(uint64_t));
            continue;
        }
        for (int j = 0; j < s->m; j++)
            if (c->tight[a * c->n_col_class + c->col_class[j]])
                put(takes_of(s, r), j);
    }
    for (int j = 0; j < s->m; j++) {
        const int b = c->col_class[j];

        if (c->col_first[b] != j) {
            memcpy(takers_of(s, j), takers_of(s, c->col_first[b]), s->n_word * sizeof(uint64_t));
            continue;
        }
        for (int r = 0; r < s->n; r++)
            if (c->tight[c->row_class[r] * c->n_col_class + b])
                put(takers_of(s, j), r);
    }
}

static void find_nobody(struct settler *s, const struct spot_matching *matching)
{
    for (int j = 0; j < s->m; j++) {
        bool is_contested = false;

        if (s->n == s->m || matching->v[j] != 0)
            continue;
        for (size_t w = 0; w < s->n_word; w++)
            is_contested = is_contested || takers_of(s, j)[w];
        if (is_contested)
            s->contested[s->n_contested++] = j;
        put(takers_of(s, j), s->nobody);
    }
}

static void visit(struct settler *s, int holder, int via, int col, int *n)
{
    put(s->seen, holder);
    s->via[holder] = via;
    s->via_col[holder] = col;
    s->queue[(*n)++] = holder;
}

static void give_column(struct settler *s, int g, int col, int *n)
{
    for (size_t w = 0; w < s->n_word; w++)
        for (uint64_t new = takers_of(s, col)[w] & s->open_holder[w] & ~s->seen[w]; new;
             new &= new - 1)
            visit(s, (int)w * 64 + __builtin_ctzll(new), g, col, n);
}

/* Whom can a column given up by `root` reach? via_col[x] is what x would take from via[x]. */
static int walk_gifts(struct settler *s, int root)
{
    int n = 0;

    memset(s->seen, 0, s->n_word * sizeof *s->seen);
    visit(s, root, -1, -1, &n);
    for (int k = 0; k < n; k++) {
        const int g = s->queue[k];

        if (g != s->nobody) {
            give_column(s, g, s->col_of[g], &n);
            continue;
        }
        for (int i = 0; i < s->n_contested; i++)
            if (s->holder[s->contested[i]] == g && has(s->open_col, s->contested[i]))
                give_column(s, g, s->contested[i], &n);
    }
    return n;
}

static void ask_for(struct settler *s, int y, int col, int *n)
{
    const int x = s->holder[col];

    if (has(s->open_col, col) && has(s->open_holder, x) && !has(s->seen, x))
        visit(s, x, y, col, n);
}

/* Who could give a column so that `root` receives one? via_col[x] is what x gives to via[x]. */
static int walk_wishes(struct settler *s, int root)
{
    int n = 0;

    memset(s->seen, 0, s->n_word * sizeof *s->seen);
    visit(s, root, -1, -1, &n);
    for (int k = 0; k < n; k++) {
        const int y = s->queue[k];

        if (y == s->nobody) {
            for (int j = 0; j < s->m; j++)
                if (has(takers_of(s, j), y))
                    ask_for(s, y, j, &n);
            continue;
        }
        for (size_t w = 0; w < s->m_word; w++)
            for (uint64_t set = takes_of(s, y)[w] & s->open_col[w]; set; set &= set - 1)
                ask_for(s, y, (int)w * 64 + __builtin_ctzll(set), &n);
    }
    return n;
}

static void own(struct settler *s, int holder, int col)
{
    s->holder[col] = holder;
    if (holder != s->nobody)
        s->col_of[holder] = col;
}

/* --- most rows in place --- */

/* The holders that could swap around with r: a strongly connected part. Returns their number. */
static int find_part(struct settler *s, int r, int *part)
{
    uint64_t *gifts = spot_xcalloc(s->n_word, sizeof *gifts);
    int n = 0, n_wish;

    walk_gifts(s, r);
    memcpy(gifts, s->seen, s->n_word * sizeof *gifts);
    n_wish = walk_wishes(s, r);
    for (int k = 0; k < n_wish; k++)
        if (has(gifts, s->queue[k]))
            part[n++] = s->queue[k];
    free(gifts);
    return n;
}

struct part {
    int n_row, n_col, stride;
    int *row, *col;
    bool has_nobody;
};

static void list_part(const struct settler *s, const int *holder, int n, struct part *part)
{
    bool *is_in = spot_xcalloc((size_t)s->n + 1, sizeof(bool));

    for (int k = 0; k < n; k++) {
        is_in[holder[k]] = true;
        if (holder[k] == s->nobody)
            part->has_nobody = true;
        else
            part->row[part->n_row++] = holder[k];
    }
    for (int j = 0; j < s->m; j++)
        if (is_in[s->holder[j]])
            part->col[part->n_col++] = j;
    part->stride = (part->n_col + SPOT_DENSE_LANES - 1) / SPOT_DENSE_LANES * SPOT_DENSE_LANES;
    free(is_in);
}

/* -1 for a row in place; columns that nobody may not own are worth more than all rows. */
static void fill_part(const struct settler *s, const struct part *part, int64_t *cost)
{
    for (int a = 0; a < part->n_row; a++)
        for (int b = 0; b < part->stride; b++) {
            const int r = part->row[a], j = b < part->n_col ? part->col[b] : -1;
            int64_t *c = cost + (size_t)a * (size_t)part->stride + (size_t)b;

            *c = SPOT_DENSE_FORBIDDEN;
            if (j >= 0 && has(takes_of(s, r), j))
                *c = -(s->stay[r] == j) -
                     (part->has_nobody && !has(takers_of(s, j), s->nobody) ? part->n_row + 1 : 0);
        }
}

/* Take over the best matching of the part, and keep only the pairs of equally good ones. */
static void narrow_part(struct settler *s, const struct part *part, const struct spot_dense *d)
{
    for (int b = 0; b < part->n_col; b++) {
        const int j = part->col[b];

        own(s, d->row_of[b] < 0 ? s->nobody : part->row[d->row_of[b]], j);
        if (d->v[b] != 0)
            drop(takers_of(s, j), s->nobody);
        for (int a = 0; a < part->n_row; a++) {
            const int64_t c = d->cost[(size_t)a * (size_t)part->stride + (size_t)b];

            if (c != d->u[a] + d->v[b]) {
                drop(takes_of(s, part->row[a]), j);
                drop(takers_of(s, j), part->row[a]);
            }
        }
    }
}

static void settle_part(struct settler *s, const int *holder, int n)
{
    struct part part = { 0 };
    struct spot_dense d = { 0 };
    int64_t *cost, *price;

    part.row = spot_xcalloc((size_t)n, sizeof(int));
    part.col = spot_xcalloc((size_t)s->m, sizeof(int));
    list_part(s, holder, n, &part);
    cost = spot_alloc_aligned((size_t)part.n_row * (size_t)part.stride, sizeof *cost);
    price = spot_alloc_aligned((size_t)part.stride + (size_t)part.n_row, sizeof *price);
    d = (struct spot_dense){ part.n_row,
                             part.n_col,
                             part.stride,
                             cost,
                             price + part.stride,
                             price,
                             spot_xcalloc((size_t)part.n_row, sizeof(int)),
                             spot_xcalloc((size_t)part.n_col, sizeof(int)) };
    fill_part(s, &part, cost);
    if (spot_dense_solve(&d) != SPOT_DENSE_OK)
        assert(!"a part of a matching has a matching");
    narrow_part(s, &part, &d);
    free(cost), free(price), free(d.col_of), free(d.row_of), free(part.row), free(part.col);
}

static void keep_in_place(struct settler *s)
{
    bool *is_settled = spot_xcalloc((size_t)s->n + 1, sizeof(bool));
    int *part = spot_xcalloc((size_t)s->n + 1, sizeof(int));

    for (int r = 0; r < s->n; r++) {
        const int j = s->stay[r];
        bool is_inside = false;
        int n;

        if (is_settled[r] || j < 0 || !has(takes_of(s, r), j))
            continue;
        n = find_part(s, r, part);
        for (int k = 0; k < n; k++)
            is_inside = is_inside || part[k] == s->holder[j];
        if (!is_inside || n == 1)
            continue;
        for (int k = 0; k < n; k++)
            is_settled[part[k]] = true;
        settle_part(s, part, n);
    }
    free(is_settled), free(part);
}

/* --- lexicographic order --- */

/* The first column that row r could own instead, if any is before its own. */
static int better_column(struct settler *s, int r)
{
    bool is_walked = false;

    for (size_t w = 0; w < s->m_word; w++)
        for (uint64_t set = takes_of(s, r)[w] & s->open_col[w]; set; set &= set - 1) {
            const int j = (int)w * 64 + __builtin_ctzll(set);

            if (j == s->col_of[r])
                return j;
            if (!is_walked)
                walk_gifts(s, r);
            is_walked = true;
            if (has(s->seen, s->holder[j]))
                return j;
        }
    return s->col_of[r];
}

static void order_rows(struct settler *s)
{
    for (int r = 0; r < s->n; r++) {
        const int j = better_column(s, r);

        if (j != s->col_of[r]) {
            int x = s->holder[j];

            while (x != r) {
                const int giver = s->via[x];

                own(s, x, s->via_col[x]);
                x = giver;
            }
            own(s, r, j);
        }
        drop(s->open_holder, r);
        drop(s->open_col, j);
    }
}

/* The first row that could own column j instead, if any is before its holder. */
static int better_holder(struct settler *s, int j)
{
    const int h = s->holder[j];
    bool is_walked = false;

    for (size_t w = 0; w < s->n_word; w++)
        for (uint64_t set = takers_of(s, j)[w] & s->open_holder[w]; set; set &= set - 1) {
            const int g = (int)w * 64 + __builtin_ctzll(set);

            if (g == h)
                return h;
            if (!is_walked)
                walk_wishes(s, h);
            is_walked = true;
            if (has(s->seen, g))
                return g;
        }
    return h;
}

static void order_columns(struct settler *s)
{
    for (int j = 0; j < s->m; j++) {
        const int h = s->holder[j], g = better_holder(s, j);

        for (int x = g; x != h;) {
            const int taker = s->via[x], col = s->via_col[x];

            own(s, taker, col);
            x = taker;
        }
        own(s, g, j);
        drop(s->open_col, j);
        if (g != s->nobody)
            drop(s->open_holder, g);
    }
}

/* --- */

static void read_stays(struct settler *s)
{
    const struct spot_assign_problem *p = s->t->problem;

    for (int r = 0; r < s->n; r++)
        s->stay[r] = p->stay ? -1 : r;
    for (int i = 0; i < p->n_row && p->stay; i++)
        if (p->stay[i] >= 0 && s->t->is_turned)
            s->stay[p->stay[i]] = i;
        else if (p->stay[i] >= 0)
            s->stay[i] = p->stay[i];
}

static void init(struct settler *s, const struct spot_turned *t)
{
    const size_t n = (size_t)t->n, m = (size_t)t->m;

    *s = (struct settler){ .t = t, .n = t->n, .m = t->m, .nobody = t->n };
    s->n_word = (n + 1 + 63) / 64;
    s->m_word = (m + 63) / 64;
    s->takes = spot_xcalloc(n * s->m_word, sizeof(uint64_t));
    s->takers = spot_xcalloc(m * s->n_word, sizeof(uint64_t));
    s->holder = spot_xcalloc(m, sizeof(int));
    s->col_of = spot_xcalloc(n + 1, sizeof(int));
    s->contested = spot_xcalloc(m, sizeof(int));
    s->open_holder = spot_xcalloc(s->n_word, sizeof(uint64_t));
    s->open_col = spot_xcalloc(s->m_word, sizeof(uint64_t));
    s->seen = spot_xcalloc(s->n_word, sizeof(uint64_t));
    s->queue = spot_xcalloc(3 * (n + 1), sizeof(int));
    s->via = s->queue + n + 1;
    s->via_col = s->via + n + 1;
    s->stay = spot_xcalloc(n, sizeof(int));
}

static void release(struct settler *s)
{
    free(s->takes), free(s->takers), free(s->holder), free(s->col_of), free(s->contested);
    free(s->open_holder), free(s->open_col), free(s->seen), free(s->queue), free(s->stay);
}

void spot_assign_settle(const struct spot_turned *t, struct spot_matching *matching,
                        const struct spot_classes *classes)
{
    struct settler s;

    init(&s, t);
    read_stays(&s);
    for (int j = 0; j < s.m; j++) {
        own(&s, matching->row_of[j] < 0 ? s.nobody : matching->row_of[j], j);
        put(s.open_col, j);
    }
    for (int r = 0; r <= s.n; r++)
        if (r < s.n || s.m > s.n)
            put(s.open_holder, r);
    if (classes)
        find_tight_classes(&s, classes);
    else
        find_tight_pairs(&s, matching);
    find_nobody(&s, matching);
    keep_in_place(&s);
    if (t->is_turned)
        order_columns(&s);
    else
        order_rows(&s);
    for (int j = 0; j < s.m; j++) {
        matching->row_of[j] = s.holder[j] == s.nobody ? -1 : s.holder[j];
        if (s.holder[j] != s.nobody)
            matching->col_of[s.holder[j]] = j;
    }
    release(&s);
}
