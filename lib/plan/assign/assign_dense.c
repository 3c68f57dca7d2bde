/* SPDX-License-Identifier: MIT */
/* Shortest augmenting paths in 64 bits. A square matrix starts with column reduction and reduction
 * transfer. Then rows bid for columns, with a limit on the number of bids, and each row that is
 * still free searches a path.
 *
 * Bids and searches read a short list of each row's cheapest columns. Column prices never rise, so
 * that the reduced cost of a pair that is not listed stays at least the row's bound. A bid whose
 * second best exceeds the bound makes the list again; a search that comes to the bound reads the
 * whole row. Where searches come to many bounds, they read whole rows from then on. */
#include <stdlib.h>
#include <string.h>

#include "common/simd.h"
#include "common/xalloc.h"
#include "plan/assign/assign_inner.h"

/* With |cost| below 2^55 and prices and path lengths up to 2^57, a real reduced path stays below
 * 2^59, while one through a forbidden pair or a finished column exceeds 2^60: no sum overflows, and
 * the two kinds cannot be confused. */
#define COST_MAX  (INT64_C(1) << 55)
#define PRICE_MAX (INT64_C(1) << 57)
#define NO_PATH   (INT64_C(1) << 60)
#define FORBIDDEN (INT64_C(1) << 61)
#define FINISHED  (-(INT64_C(1) << 61)) /* price of a column whose distance is final */

enum { CHUNK = 64, NEAR = 24, N_PASS = 8 };

struct near {
    int64_t cost;
    int col;
};

struct solver {
    const struct spot_turned *t;
    int stride;    /* columns, padded to a multiple of CHUNK */
    int64_t *cost; /* [n][stride], padded with FORBIDDEN */
    int64_t *v;    /* [stride] prices of columns */
    int *col_of, *row_of;
    int64_t *own; /* [n] cost of the pair chosen */

    struct near *near; /* [n][NEAR] */
    int *n_near;       /* [n] */
    int64_t *bound;    /* [n] of the reduced costs of all other pairs; NO_PATH: there are none */
    int *free_row, n_free;
    bool *is_shared; /* [n] the row has the least cost of several columns */

    /* The current search. Places are columns and, from `stride` on, rows, whose pairs that are not
     * listed lead at least so far. */
    int n_place;       /* padded to a multiple of CHUNK */
    int64_t *distance; /* [n_place] NO_PATH: never or no longer to be visited */
    int64_t *best;     /* [n_place / CHUNK] least distances */
    int64_t nearest;   /* least of all */
    int64_t *price;    /* [stride] v, or FINISHED */
    int64_t *from;     /* [stride] row */
    int *finished;     /* [n] columns whose distance is final ... */
    int64_t *final;    /* [n] ... and that distance */
    int end;           /* free column */

    long n_step, n_read; /* rows that searches reached, and those read for their bound */
};

/* --- the hottest loops --- */

/* Costs c become (flip ? -c : c) * scale, in place or not. */
SPOT_SIMD_INLINE void scale_inline(const int64_t *from, int n, int64_t flip, int64_t scale,
                                   int64_t *to, bool *is_large)
{
    const int64_t most = COST_MAX / scale - 1;
    int64_t more = 0;

    for (int j = 0; j < n; j++) {
        const int64_t c = from[j], is_none = -(int64_t)(c == SPOT_ASSIGN_FORBIDDEN);
        const uint64_t x = (((uint64_t)c ^ (uint64_t)flip) - (uint64_t)flip) * (uint64_t)scale;

        more |= ((c > most) | (c < -most)) & ~is_none;
        to[j] = is_none ? FORBIDDEN : (int64_t)x;
    }
    *is_large |= more != 0;
}

/* distance[j] = min(distance[j], cost[j] - price[j] + shift); from[j] = row where that lowered it;
 * best: the least distance of each chunk. */
SPOT_SIMD_INLINE void relax_inline(const int64_t *cost, const int64_t *price, int64_t shift,
                                   int64_t row, int n, int64_t *distance, int64_t *from,
                                   int64_t *best)
{
    for (int j0 = 0; j0 < n; j0 += CHUNK) {
        int64_t least = INT64_MAX;

        for (int j = j0; j < j0 + CHUNK; j++) {
            const int64_t x = cost[j] - price[j] + shift, d = distance[j], kept = x < d ? x : d;

            from[j] = x < d ? row : from[j];
            distance[j] = kept;
            least = kept < least ? kept : least;
        }
        best[j0 / CHUNK] = least;
    }
}

SPOT_SIMD_INLINE void least_inline(const int64_t *x, int n, int64_t *least)
{
    int64_t best = INT64_MAX;

    for (int k = 0; k < n; k++)
        best = x[k] < best ? x[k] : best;
    *least = best;
}

/* The set of the columns of a chunk with cost[j] - v[j] < limit. */
SPOT_SIMD_INLINE void compare_inline(const int64_t *cost, const int64_t *v, int64_t limit,
                                     uint64_t *below)
{
    uint64_t set = 0;

    for (int j = 0; j < CHUNK; j++)
        set |= (uint64_t)(cost[j] - v[j] < limit) << j;
    *below = set;
}

SPOT_SIMD_TWICE(scale,
                (const int64_t *from, int n, int64_t flip, int64_t scale, int64_t *to,
                 bool *is_large),
                (from, n, flip, scale, to, is_large))
SPOT_SIMD_TWICE(relax,
                (const int64_t *cost, const int64_t *price, int64_t shift, int64_t row, int n,
                 int64_t *distance, int64_t *from, int64_t *best),
                (cost, price, shift, row, n, distance, from, best))
SPOT_SIMD_TWICE(least, (const int64_t *x, int n, int64_t *out), (x, n, out))
SPOT_SIMD_TWICE(compare, (const int64_t *cost, const int64_t *v, int64_t limit, uint64_t *below),
                (cost, v, limit, below))

/* --- the matrix and first prices --- */

/* Copies a matrix whose columns are the rows here, in blocks. */
static void turn(struct solver *s)
{
    for (int j0 = 0; j0 < s->t->m; j0 += CHUNK)
        for (int i = 0; i < s->t->n; i++)
            for (int j = j0; j < s->t->m && j < j0 + CHUNK; j++)
                s->cost[(size_t)i * (size_t)s->stride + (size_t)j] =
                    s->t->problem->cost[(size_t)j * (size_t)s->t->n + (size_t)i];
}

/* Returns false if a cost is too large. The least cost of each column goes to `distance`, and to
 * `from` a row that has it. */
static bool fill(struct solver *s)
{
    const struct spot_turned *t = s->t;
    bool is_large = false;

    for (int j = 0; j < s->stride; j++)
        s->distance[j] = FORBIDDEN, s->from[j] = -1;
    if (t->is_turned)
        turn(s);
    for (int i = 0; i < t->n && !is_large; i++) {
        int64_t *const to = s->cost + (size_t)i * (size_t)s->stride;
        const int stay = t->stay[i];

        scale(t->is_turned ? to : t->problem->cost + (size_t)i * (size_t)t->m, t->m,
              -(int64_t)t->problem->is_max, t->scale, to, &is_large);
        for (int j = t->m; j < s->stride; j++)
            to[j] = FORBIDDEN;
        if (!is_large && stay >= 0 && to[stay] != FORBIDDEN)
            to[stay]--;
        relax(to, s->price, 0, i, s->stride, s->distance, s->from, s->best);
    }
    return !is_large;
}

static const int64_t *row_of_cost(const struct solver *s, int i)
{
    return s->cost + (size_t)i * (size_t)s->stride;
}

static void match(const struct solver *s, int i, int j)
{
    s->col_of[i] = j;
    s->row_of[j] = i;
    s->own[i] = row_of_cost(s, i)[j];
}

/* v[j] = least cost of column j; a row with that cost gets the column unless it already has one.
 * False: a column has no row. */
static bool reduce_columns(struct solver *s)
{
    for (int j = s->t->m - 1; j >= 0; j--) {
        const int i = (int)s->from[j];

        if (i < 0)
            return false;
        s->v[j] = s->distance[j];
        if (s->col_of[i] < 0)
            match(s, i, j);
        else
            s->is_shared[i] = true;
    }
    return true;
}

/* --- lists of near columns --- */

/* Lists the cheapest columns of row i. */
static void list(const struct solver *s, int i)
{
    const int64_t *const cost = row_of_cost(s, i);
    struct near *const near = s->near + (size_t)i * NEAR;
    int64_t key[NEAR], limit = NO_PATH;
    int n = 0;

    for (int j0 = 0; j0 < s->stride; j0 += CHUNK) {
        uint64_t below;

        for (compare(cost + j0, s->v + j0, limit, &below); below; below &= below - 1) {
            const int j = j0 + __builtin_ctzll(below);
            const int64_t x = cost[j] - s->v[j];
            int at;

            if (x >= limit)
                continue;
            for (at = n < NEAR ? n++ : NEAR - 1; at && key[at - 1] > x; at--)
                key[at] = key[at - 1], near[at] = near[at - 1];
            key[at] = x;
            near[at] = (struct near){ cost[j], j };
            if (n == NEAR)
                limit = key[NEAR - 1];
        }
    }
    s->n_near[i] = n;
    s->bound[i] = limit;
}

struct two_least {
    int64_t least, second;
    int least_at, second_at;
};

static struct two_least two_least_of(const struct solver *s, int i)
{
    for (;;) {
        const struct near *const near = s->near + (size_t)i * NEAR;
        struct two_least two = { NO_PATH, NO_PATH, -1, -1 };

        for (int k = 0; k < s->n_near[i]; k++) {
            const int j = near[k].col;
            const int64_t x = near[k].cost - s->v[j];

            if (x < two.least)
                two = (struct two_least){ x, two.least, j, two.least_at };
            else if (x < two.second)
                two.second = x, two.second_at = j;
        }
        if (two.second <= s->bound[i])
            return two;
        list(s, i);
    }
}

/* A row that is the least of one column only passes its slack to that column. */
static void transfer(struct solver *s)
{
    for (int i = 0; i < s->t->n; i++)
        if (s->col_of[i] >= 0 && !s->is_shared[i]) {
            const struct two_least two = two_least_of(s, i);

            if (two.second < NO_PATH)
                s->v[s->col_of[i]] -= two.least_at == s->col_of[i] ? two.second : two.least;
        }
}

/* Free rows bid for their best column, by the margin over the second best; a row that is outbid
 * bids again. Ends when no row is left or the budget of bids is spent. */
static bool bid(struct solver *s)
{
    const int n = s->n_free;
    long n_bid = 0;
    int at = 0;

    s->n_free = 0;
    while (at < n) {
        const int i = s->free_row[at++];
        const struct two_least two = two_least_of(s, i);
        int j = two.least_at, loser;

        if (j < 0)
            return false;
        loser = s->row_of[j];
        if (two.second < NO_PATH && two.least < two.second) {
            s->v[j] -= two.second - two.least;
        } else if (loser >= 0 && two.second < NO_PATH) {
            j = two.second_at; /* a tie: the other column may be free */
            loser = s->row_of[j];
        } else if (loser >= 0) { /* the row's only column: left to the path search */
            s->free_row[s->n_free++] = i;
            continue;
        }
        if (s->v[j] < -PRICE_MAX)
            return false;
        match(s, i, j);
        if (loser < 0)
            continue;
        s->col_of[loser] = -1;
        if (two.least < two.second && ++n_bid < 4L * s->t->n)
            s->free_row[--at] = loser;
        else
            s->free_row[s->n_free++] = loser;
    }
    return true;
}

/* --- shortest augmenting paths --- */

static void put(struct solver *s, int place, int64_t distance)
{
    int64_t *const best = &s->best[place / CHUNK];

    s->distance[place] = distance;
    *best = distance < *best ? distance : *best;
}

static void drop(struct solver *s, int place)
{
    s->distance[place] = NO_PATH;
    least(s->distance + place / CHUNK * CHUNK, CHUNK, &s->best[place / CHUNK]);
}

/* The nearest place: a free column if there is one, else the first. -1: they are too far. */
static int pick(struct solver *s)
{
    int first = -1;

    least(s->best, s->n_place / CHUNK, &s->nearest);
    if (s->nearest > PRICE_MAX || s->nearest < -PRICE_MAX)
        return -1;
    for (int c = 0; c < s->n_place / CHUNK; c++)
        for (int k = c * CHUNK; s->best[c] == s->nearest && k < (c + 1) * CHUNK; k++)
            if (s->distance[k] == s->nearest) {
                if (k < s->stride && s->row_of[k] < 0)
                    return k;
                first = first < 0 ? k : first;
            }
    return first;
}

/* The whole row is read where lists proved of little use. */
static void reach(struct solver *s, int row, int64_t shift)
{
    const struct near *const near = s->near + (size_t)row * NEAR;

    if (s->n_read > s->t->n / 4 + s->n_step / 2) {
        relax(row_of_cost(s, row), s->price, shift, row, s->stride, s->distance, s->from, s->best);
        return;
    }
    s->n_step++;
    for (int k = 0; k < s->n_near[row]; k++) {
        const int j = near[k].col;
        const int64_t distance = shift + near[k].cost - s->price[j];

        if (distance < s->distance[j])
            put(s, j, distance), s->from[j] = row;
    }
    if (s->bound[row] < NO_PATH)
        put(s, s->stride + row, shift + s->bound[row]);
}

/* Sets s->end, and returns the number of columns whose distance is final; -1: there is no path, or
 * it is too long. */
static int search(struct solver *s, int root)
{
    int n = 0, at;

    for (int k = 0; k < s->n_place; k++)
        s->distance[k] = s->best[k / CHUNK] = NO_PATH;
    reach(s, root, 0);
    while ((at = pick(s)) >= 0) {
        int row = at - s->stride;

        drop(s, at);
        if (row >= 0) {
            relax(row_of_cost(s, row), s->price, s->nearest - s->bound[row], row, s->stride,
                  s->distance, s->from, s->best);
            list(s, row);
            s->n_read++;
            continue;
        }
        row = s->row_of[at];
        s->end = at;
        if (row < 0)
            return n;
        s->finished[n] = at;
        s->final[n++] = s->nearest;
        s->price[at] = FINISHED;
        reach(s, row, s->nearest - (s->own[row] - s->v[at]));
    }
    return -1;
}

/* Augment along the shortest path from free row `root` to a free column, and update the prices. */
static bool augment(struct solver *s, int root)
{
    const int n = search(s, root);

    if (n < 0)
        return false;
    for (int k = 0; k < n; k++) {
        const int col = s->finished[k];

        s->v[col] += s->final[k] - s->nearest;
        s->price[col] = s->v[col];
        if (s->v[col] < -PRICE_MAX)
            return false;
    }
    for (int j = s->end, next; j >= 0; j = next) {
        const int i = (int)s->from[j];

        next = s->col_of[i];
        match(s, i, j);
    }
    return true;
}

static void list_free(struct solver *s)
{
    s->n_free = 0;
    for (int i = 0; i < s->t->n; i++)
        if (s->col_of[i] < 0)
            s->free_row[s->n_free++] = i;
}

static bool run(struct solver *s)
{
    if (!fill(s) || (s->t->n == s->t->m && !reduce_columns(s)))
        return false;
    for (int i = 0; i < s->t->n; i++)
        list(s, i);
    if (s->t->n == s->t->m)
        transfer(s);
    list_free(s);
    for (int pass = 0; pass < N_PASS; pass++)
        if (!bid(s))
            return false;
    memcpy(s->price, s->v, (size_t)s->stride * sizeof *s->price);
    list_free(s);
    for (int k = 0; k < s->n_free; k++)
        if (!augment(s, s->free_row[k]))
            return false;
    return true;
}

bool spot_assign_dense(const struct spot_turned *t, struct spot_matching *matching)
{
    struct solver s = { .t = t, .col_of = matching->col_of, .row_of = matching->row_of };
    const size_t n = (size_t)t->n, width = ((size_t)t->m + CHUNK - 1) / CHUNK * CHUNK;
    const size_t n_place = (width + n + CHUNK - 1) / CHUNK * CHUNK;
    bool is_solved;

    s.stride = (int)width, s.n_place = (int)n_place;
    s.cost = spot_xcalloc(n * width + 2 * n_place + 3 * width + 3 * n, sizeof *s.cost);
    spot_prefer_huge_pages(s.cost, n * width * sizeof *s.cost);
    s.v = s.cost + n * width;
    s.price = s.v + width;
    s.from = s.price + width;
    s.distance = s.from + width;
    s.best = s.distance + n_place;
    s.final = s.best + n_place;
    s.own = s.final + n;
    s.bound = s.own + n;
    s.is_shared = spot_xcalloc(n, 1);
    s.near = spot_xcalloc(n * NEAR, sizeof *s.near);
    s.finished = spot_xcalloc(3 * n, sizeof(int));
    s.free_row = s.finished + n;
    s.n_near = s.free_row + n;
    for (int i = 0; i < t->n; i++)
        s.col_of[i] = -1;
    for (int j = 0; j < t->m; j++)
        s.row_of[j] = -1;
    is_solved = run(&s);
    for (int i = 0; i < t->n && is_solved; i++)
        matching->u[i] = s.own[i] - s.v[s.col_of[i]];
    for (int j = 0; j < t->m && is_solved; j++)
        matching->v[j] = s.v[j];
    free(s.cost), free(s.near), free(s.finished), free(s.is_shared);
    return is_solved;
}
