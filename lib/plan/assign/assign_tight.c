/* SPDX-License-Identifier: MIT */
#include "plan/assign/assign_tight.h"

#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "plan/assign/row_scan.h"

static void put_pair(struct spot_tight *g, int r, int j)
{
    spot_bit_put(spot_takes_of(g, r), j);
    spot_bit_put(spot_takers_of(g, j), r);
}

/* --- which pairs are tight --- */

/* The tight columns of a row of the problem into `as`, and the row into the columns' sets. */
static void find_tight_row(const struct spot_row_scan *scan, const int64_t *cost, int64_t u,
                           const int64_t *v, int n, uint64_t *as, uint64_t *set, size_t set_word,
                           int row)
{
    scan->equal(cost, v, u, n, as);
    for (int j0 = 0; j0 < n; j0 += 64)
        for (uint64_t bits = as[j0 / 64]; bits; bits &= bits - 1)
            spot_bit_put(set + (size_t)(j0 + __builtin_ctzll(bits)) * set_word, row);
}

/* Row by row, in the order in which the costs lie in memory, where prices fit 62 bits: then no sum
 * of two is SPOT_ASSIGN_FORBIDDEN. */
static bool find_tight_narrow(struct spot_tight *g, const struct spot_matching *matching)
{
    const struct spot_assign_problem *p = g->t->problem;
    const struct spot_row_scan *scan = spot_row_scan();
    const int64_t sign = p->is_max ? -1 : 1;
    const spot_int128 most = INT64_C(1) << 61;
    int64_t *price = spot_xcalloc((size_t)g->n + (size_t)g->m, sizeof *price);
    int64_t *u = g->t->is_turned ? price + g->n : price; /* of the problem's rows */
    int64_t *v = g->t->is_turned ? price : price + g->n;
    bool is_narrow = true;

    for (int k = 0; k < g->n + g->m; k++) {
        const spot_int128 x = k < g->n ? matching->u[k] : matching->v[k - g->n];

        is_narrow = is_narrow && x < most && x > -most;
        price[k] = is_narrow ? sign * (int64_t)x : 0;
    }
    for (int i = 0; i < p->n_row && is_narrow; i++) {
        const int64_t *cost = p->cost + (size_t)i * (size_t)p->n_col;

        if (g->t->is_turned)
            find_tight_row(scan, cost, u[i], v, p->n_col, spot_takers_of(g, i), g->takes, g->m_word,
                           i);
        else
            find_tight_row(scan, cost, u[i], v, p->n_col, spot_takes_of(g, i), g->takers, g->n_word,
                           i);
    }
    free(price);
    return is_narrow;
}

static void find_tight_pairs(struct spot_tight *g, const struct spot_matching *matching)
{
    if (find_tight_narrow(g, matching))
        return;
    for (int r = 0; r < g->n; r++)
        for (int j = 0; j < g->m; j++) {
            spot_int128 c;

            if (spot_turned_cost(g->t, r, j, &c) && c == matching->u[r] + matching->v[j])
                put_pair(g, r, j);
        }
}

/* One set for all rows of a class, one for all columns of a class. */
static void find_tight_classes(struct spot_tight *g, const struct spot_classes *c)
{
    for (int r = 0; r < g->n; r++) {
        const int a = c->row_class[r];

        if (c->row_first[a] != r) {
            memcpy(spot_takes_of(g, r), spot_takes_of(g, c->row_first[a]),
                   g->m_word * sizeof(uint64_t));
            continue;
        }
        for (int j = 0; j < g->m; j++)
            if (c->tight[a * c->n_col_class + c->col_class[j]])
                spot_bit_put(spot_takes_of(g, r), j);
    }
    for (int j = 0; j < g->m; j++) {
        const int b = c->col_class[j];

        if (c->col_first[b] != j) {
            memcpy(spot_takers_of(g, j), spot_takers_of(g, c->col_first[b]),
                   g->n_word * sizeof(uint64_t));
            continue;
        }
        for (int r = 0; r < g->n; r++)
            if (c->tight[c->row_class[r] * c->n_col_class + b])
                spot_bit_put(spot_takers_of(g, j), r);
    }
}

static void find_nobody(struct spot_tight *g, const struct spot_matching *matching)
{
    for (int j = 0; j < g->m; j++) {
        bool is_contested = false;

        if (g->n == g->m || matching->v[j] != 0)
            continue;
        for (size_t w = 0; w < g->n_word; w++)
            is_contested = is_contested || spot_takers_of(g, j)[w];
        if (is_contested)
            g->contested[g->n_contested++] = j;
        put_pair(g, g->nobody, j);
    }
}

void spot_tight_init(struct spot_tight *g, const struct spot_turned *t,
                     const struct spot_matching *matching, const struct spot_classes *classes)
{
    const size_t n = (size_t)t->n, m = (size_t)t->m;

    *g = (struct spot_tight){ .t = t, .n = t->n, .m = t->m, .nobody = t->n };
    g->n_word = (n + 1 + 63) / 64;
    g->m_word = (m + 63) / 64;
    g->takes = spot_xcalloc((n + 1) * g->m_word, sizeof(uint64_t));
    g->takers = spot_xcalloc(m * g->n_word, sizeof(uint64_t));
    g->holder = spot_xcalloc(m, sizeof(int));
    g->col_of = spot_xcalloc(n + 1, sizeof(int));
    g->contested = spot_xcalloc(m, sizeof(int));
    g->open_holder = spot_xcalloc(2 * g->n_word, sizeof(uint64_t));
    g->seen = g->open_holder + g->n_word;
    g->open_col = spot_xcalloc(2 * g->m_word, sizeof(uint64_t));
    g->unasked = g->open_col + g->m_word;
    g->queue = spot_xcalloc(3 * (n + 1), sizeof(int));
    g->via = g->queue + n + 1;
    g->via_col = g->via + n + 1;
    for (int j = 0; j < g->m; j++) {
        spot_own(g, matching->row_of[j] < 0 ? g->nobody : matching->row_of[j], j);
        spot_bit_put(g->open_col, j);
    }
    for (int r = 0; r < g->n + (g->m > g->n); r++)
        spot_bit_put(g->open_holder, r);
    if (classes)
        find_tight_classes(g, classes);
    else
        find_tight_pairs(g, matching);
    find_nobody(g, matching);
}

void spot_tight_release(struct spot_tight *g)
{
    free(g->takes), free(g->takers), free(g->holder), free(g->col_of), free(g->contested);
    free(g->open_holder), free(g->open_col), free(g->queue);
}

/* --- walks, breadth first --- */

static void visit(struct spot_tight *g, int holder, int via, int col, int *n)
{
    spot_bit_put(g->seen, holder);
    g->via[holder] = via;
    g->via_col[holder] = col;
    g->queue[(*n)++] = holder;
}

/* Visit all holders that can take the column, up to one that owns what the goal can take. */
static void give_column(struct spot_tight *g, int giver, int col, int goal, int *n)
{
    const uint64_t *takers = spot_takers_of(g, col);
    const uint64_t *wanted = goal >= 0 ? spot_takes_of(g, goal) : NULL;

    for (size_t w = 0; w < g->n_word; w++)
        for (uint64_t new = takers[w] & g->open_holder[w] & ~g->seen[w]; new; new &= new - 1) {
            const int x = (int)w * 64 + __builtin_ctzll(new);

            visit(g, x, giver, col, n);
            if (wanted && x != goal && x != g->nobody && spot_bit(wanted, g->col_of[x])) {
                if (!spot_bit(g->seen, goal))
                    visit(g, goal, x, g->col_of[x], n);
                return;
            }
        }
}

bool spot_tight_gifts(struct spot_tight *g, int root, int goal)
{
    int n = 0;

    memset(g->seen, 0, g->n_word * sizeof *g->seen);
    visit(g, root, -1, -1, &n);
    for (int k = 0; k < n && (goal < 0 || !spot_bit(g->seen, goal)); k++) {
        const int giver = g->queue[k];

        if (giver != g->nobody) {
            give_column(g, giver, g->col_of[giver], goal, &n);
            continue;
        }
        for (int i = 0; i < g->n_contested; i++)
            if (g->holder[g->contested[i]] == giver && spot_bit(g->open_col, g->contested[i]))
                give_column(g, giver, g->contested[i], goal, &n);
    }
    return goal >= 0 && spot_bit(g->seen, goal);
}

/* The columns of a holder need not be asked for again. */
static void mark_asked(struct spot_tight *g, int holder)
{
    if (holder != g->nobody) {
        spot_bit_drop(g->unasked, g->col_of[holder]);
        return;
    }
    for (int j = 0; j < g->m; j++)
        if (g->holder[j] == holder)
            spot_bit_drop(g->unasked, j);
}

/* All holders of a column that y can take. */
static void ask_all(struct spot_tight *g, int y, int *n)
{
    const uint64_t *takes = spot_takes_of(g, y);

    for (size_t w = 0; w < g->m_word; w++) {
        uint64_t new;

        while ((new = takes[w] & g->unasked[w])) {
            const int j = (int)w * 64 + __builtin_ctzll(new), x = g->holder[j];

            visit(g, x, y, j, n);
            mark_asked(g, x);
        }
    }
}

bool spot_tight_wishes(struct spot_tight *g, int root, int goal)
{
    int n = 0;

    memset(g->seen, 0, g->n_word * sizeof *g->seen);
    memcpy(g->unasked, g->open_col, g->m_word * sizeof *g->unasked);
    visit(g, root, -1, -1, &n);
    mark_asked(g, root);
    for (int k = 0; k < n && (goal < 0 || !spot_bit(g->seen, goal)); k++) {
        const int y = g->queue[k];

        if (goal >= 0 && goal != g->nobody && spot_bit(g->unasked, g->col_of[goal]) &&
            spot_bit(spot_takes_of(g, y), g->col_of[goal]))
            visit(g, goal, y, g->col_of[goal], &n);
        else
            ask_all(g, y, &n);
    }
    return goal >= 0 && spot_bit(g->seen, goal);
}

/* --- parts (Kosaraju and Sharir 1981) --- */

struct descent {
    uint64_t *gifts;        /* [n_word] takers of what "nobody" owns */
    int *stack, *at, *done; /* [n + 1] each; the word up to which a holder's takers are seen */
    int n_stack, n_done;
};

static void enter(struct spot_tight *g, struct descent *d, int holder)
{
    spot_bit_put(g->seen, holder);
    d->at[holder] = 0;
    d->stack[d->n_stack++] = holder;
}

/* Depth first along gifts from `root`; done[] gets the holders, each after all it leads to. */
static void descend(struct spot_tight *g, struct descent *d, int root)
{
    enter(g, d, root);
    while (d->n_stack) {
        const int h = d->stack[d->n_stack - 1];
        const uint64_t *takers = h == g->nobody ? d->gifts : spot_takers_of(g, g->col_of[h]);
        size_t w = (size_t)d->at[h];

        while (w < g->n_word && !(takers[w] & ~g->seen[w]))
            w++;
        d->at[h] = (int)w;
        if (w < g->n_word)
            enter(g, d, (int)w * 64 + __builtin_ctzll(takers[w] & ~g->seen[w]));
        else
            d->done[d->n_done++] = d->stack[--d->n_stack];
    }
}

static void descend_all(struct spot_tight *g, struct descent *d)
{
    for (int i = 0; i < g->n_contested; i++)
        for (size_t w = 0; w < g->n_word && g->holder[g->contested[i]] == g->nobody; w++)
            d->gifts[w] |= spot_takers_of(g, g->contested[i])[w];
    memset(g->seen, 0, g->n_word * sizeof *g->seen);
    for (int h = 0; h <= g->n; h++)
        if (spot_bit(g->open_holder, h) && !spot_bit(g->seen, h))
            descend(g, d, h);
}

/* The columns of a part; returns how many. */
static int list_columns(const struct spot_tight *g, const int *holder, int n, int *col)
{
    int n_col = 0;

    for (int k = 0; k < n; k++) {
        if (holder[k] != g->nobody)
            col[n_col++] = g->col_of[holder[k]];
        for (int j = 0; j < g->m && holder[k] == g->nobody; j++)
            if (g->holder[j] == g->nobody)
                col[n_col++] = j;
    }
    return n_col;
}

/* Pairs of a holder and a column of two parts. The sets are empty before and after. */
static void drop_pairs_across(struct spot_tight *g, const int *holder, int n, const int *col,
                              int n_col, uint64_t *holders, uint64_t *cols)
{
    for (int k = 0; k < n; k++)
        spot_bit_put(holders, holder[k]);
    for (int k = 0; k < n_col; k++)
        spot_bit_put(cols, col[k]);
    for (int k = 0; k < n; k++)
        for (size_t w = 0; w < g->m_word; w++)
            spot_takes_of(g, holder[k])[w] &= cols[w];
    for (int k = 0; k < n_col; k++)
        for (size_t w = 0; w < g->n_word; w++)
            spot_takers_of(g, col[k])[w] &= holders[w];
    for (int k = 0; k < n; k++)
        spot_bit_drop(holders, holder[k]);
    for (int k = 0; k < n_col; k++)
        spot_bit_drop(cols, col[k]);
}

/* Against the gifts, from the holder that was done last on: what leads to it and is left is its
 * part. The parts are left in g->queue. */
static int split_by(struct spot_tight *g, const struct descent *d, int *begin)
{
    int n_part = 0, n = 0;

    begin[0] = 0;
    memcpy(g->unasked, g->open_col, g->m_word * sizeof *g->unasked);
    memset(g->seen, 0, g->n_word * sizeof *g->seen);
    for (int i = d->n_done - 1; i >= 0; i--) {
        if (spot_bit(g->seen, d->done[i]))
            continue;
        visit(g, d->done[i], -1, -1, &n);
        mark_asked(g, d->done[i]);
        for (int k = begin[n_part]; k < n; k++)
            ask_all(g, g->queue[k], &n);
        begin[++n_part] = n;
    }
    return n_part;
}

int spot_tight_split(struct spot_tight *g, int *holder, int *begin)
{
    const size_t n = (size_t)g->n + 1;
    uint64_t *set = spot_xcalloc(g->n_word + g->m_word, sizeof *set);
    int *mem = spot_xcalloc(3 * n + (size_t)g->m, sizeof *mem), n_part;
    struct descent d = { .gifts = set, .stack = mem, .at = mem + n, .done = mem + 2 * n };

    descend_all(g, &d);
    n_part = split_by(g, &d, begin);
    memcpy(holder, g->queue, (size_t)begin[n_part] * sizeof *holder);
    memset(set, 0, g->n_word * sizeof *set);
    for (int k = 0; k < n_part; k++) {
        const int *part = holder + begin[k], size = begin[k + 1] - begin[k];
        int *col = mem + 3 * n;

        drop_pairs_across(g, part, size, col, list_columns(g, part, size, col), set,
                          set + g->n_word);
    }
    free(set), free(mem);
    return n_part;
}
