/* SPDX-License-Identifier: MIT */
/* A full matrix of 64-bit costs. A square matrix starts with one column reduction and reduction
 * transfer. Then augmenting row reduction with a limit on the number of bids, and shortest
 * augmenting paths. */
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

enum { LANES = 8, BLOCK = 32 };

#define RELAX_ARGS                                                                            \
    const int64_t *cost, const int64_t *price, int64_t shift, int64_t row, int64_t *distance, \
        int64_t *from, int n
#define LEAST_ARGS const int64_t *cost, const int64_t *price, int n, int64_t *second

struct solver {
    const struct spot_turned *t;
    int stride;    /* columns, padded to a multiple of LANES */
    int64_t *cost; /* [n][stride], padded with FORBIDDEN */
    /* [stride] v: column prices; price: the same, FINISHED for columns with a final distance */
    int64_t *v, *price;
    int64_t *distance, *from; /* [stride] state of the current search */
    int64_t *final;           /* [m] final distances of columns */
    int *finished, *free_row, n_free, *free_col, n_free_col;
    int *col_of, *row_of;
    int64_t (*relax)(RELAX_ARGS);
    int64_t (*least)(LEAST_ARGS);
};

/* --- the hottest loops, compiled for wider vectors as well --- */

typedef int64_t lanes __attribute__((vector_size(LANES * sizeof(int64_t)), aligned(8)));

#define LESS(a, b) (((a) & ((a) < (b))) | ((b) & ~((a) < (b))))
#define LOAD(p, j) (*(const lanes *)((p) + (j)))
#define INLINE     static inline __attribute__((always_inline))
/* distance[j] = min(distance[j], cost[j] - price[j] + shift); from[j] = row where that lowered it.
 * Returns the smallest distance. */
INLINE int64_t relax_inline(RELAX_ARGS)
{
    lanes least = { 0 };
    int64_t best = INT64_MAX;

    least += INT64_MAX;
    for (int j = 0; j < n; j += LANES) {
        lanes *d = (lanes *)(distance + j), *f = (lanes *)(from + j);
        const lanes x = LOAD(cost, j) - LOAD(price, j) + shift;
        const lanes is_less = x < *d, kept = (x & is_less) | (*d & ~is_less);

        *d = kept;
        *f = (row & is_less) | (*f & ~is_less);
        least = LESS(kept, least);
    }
    for (int k = 0; k < LANES; k++)
        best = least[k] < best ? least[k] : best;
    return best;
}

/* The smallest and the second smallest cost[j] - price[j]. */
INLINE int64_t least_inline(LEAST_ARGS)
{
    lanes least = { 0 }, next;
    int64_t best = INT64_MAX;

    least += INT64_MAX;
    next = least;
    for (int j = 0; j < n; j += LANES) {
        const lanes x = LOAD(cost, j) - LOAD(price, j), larger = x ^ least ^ LESS(x, least);

        next = LESS(larger, next);
        least = LESS(x, least);
    }
    *second = INT64_MAX;
    for (int k = 0; k < 2 * LANES; k++) {
        const int64_t x = k < LANES ? least[k] : next[k - LANES];

        *second = x < best ? best : x < *second ? x : *second;
        best = x < best ? x : best;
    }
    return best;
}

#define LOOPS(name, attribute)                                           \
    attribute static int64_t relax_##name(RELAX_ARGS)                    \
    {                                                                    \
        return relax_inline(cost, price, shift, row, distance, from, n); \
    }                                                                    \
    attribute static int64_t least_##name(LEAST_ARGS)                    \
    {                                                                    \
        return least_inline(cost, price, n, second);                     \
    }

LOOPS(any, )
#ifdef __x86_64__
LOOPS(avx2, __attribute__((target("avx2"))))
LOOPS(avx512, __attribute__((target("avx512f,avx512vl,avx512dq,avx512bw"))))
#endif

/* Select the fastest version for this processor. */
static void pick_loop(struct solver *s)
{
    s->relax = relax_any, s->least = least_any;
#ifdef __x86_64__
    if (spot_simd_has(SPOT_SIMD_AVX2))
        s->relax = relax_avx2, s->least = least_avx2;
    if (spot_simd_has(SPOT_SIMD_AVX512))
        s->relax = relax_avx512, s->least = least_avx512;
#endif
}

/* --- the matrix --- */

/* Returns false if a cost is too large. Works in blocks where it walks the matrix by columns. */
static bool fill(struct solver *s)
{
    const struct spot_turned *t = s->t;
    const int64_t most = COST_MAX / t->scale - 1;
    const uint64_t flip = t->problem->is_max ? UINT64_MAX : 0; /* -c == (c ^ flip) - flip */
    const size_t down = t->is_turned ? 1 : (size_t)t->m, right = t->is_turned ? (size_t)t->n : 1;
    const int block = t->is_turned ? BLOCK : s->stride;
    bool is_large = false;

    for (int j0 = 0; j0 < s->stride && !is_large; j0 += block)
        for (int i = 0; i < t->n; i++) {
            const int64_t *from = t->problem->cost + (size_t)i * down;
            int64_t *to = s->cost + (size_t)i * (size_t)s->stride;
            const int stay = t->stay[i], end = j0 + block < t->m ? j0 + block : t->m;

            for (int j = j0; j < end; j++) {
                const int64_t c = from[(size_t)j * right];
                const bool is_allowed = c != SPOT_ASSIGN_FORBIDDEN;
                const int64_t x = (int64_t)((((uint64_t)c ^ flip) - flip) * (uint64_t)t->scale);

                is_large |= is_allowed & ((c > most) | (c < -most));
                to[j] = is_allowed ? x : FORBIDDEN;
            }
            for (int j = end > j0 ? end : j0; j < j0 + block && j < s->stride; j++)
                to[j] = FORBIDDEN;
            if (!is_large && stay >= j0 && stay < end && to[stay] != FORBIDDEN)
                to[stay]--;
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
}

struct two_least {
    int64_t least, second;
    int least_at;
};

/* The first column of the row, other than one given, whose reduced cost is `wanted`. */
static int find(const struct solver *s, int i, int64_t wanted, int but)
{
    const int64_t *cost = row_of_cost(s, i);
    int j = 0;

    while (cost[j] - s->v[j] != wanted || j == but)
        j++;
    return j;
}

static struct two_least two_least_of(const struct solver *s, int i)
{
    struct two_least two;

    two.least = s->least(row_of_cost(s, i), s->v, s->stride, &two.second);
    two.least_at = find(s, i, two.least, -1);
    return two;
}

/* --- first prices --- */

/* v[j] = least cost of column j; the row with that cost gets the column unless it already has one.
 * A row that is the least of one column only passes its slack to that column. */
static bool reduce_columns(struct solver *s)
{
    const struct spot_turned *t = s->t;

    memset(s->final, 0, (size_t)t->m * sizeof *s->final);
    for (int j = 0; j < s->stride; j++)
        s->distance[j] = FORBIDDEN, s->from[j] = -1, s->price[j] = 0;
    for (int i = 0; i < t->n; i++)
        s->relax(row_of_cost(s, i), s->price, 0, i, s->distance, s->from, s->stride);
    for (int j = t->m - 1; j >= 0; j--) {
        const int i = (int)s->from[j];

        if (i < 0)
            return false;
        s->v[j] = s->distance[j];
        if (s->col_of[i] < 0)
            match(s, i, j);
        else
            s->final[i] = 1; /* this row is the least of several columns */
    }
    for (int i = 0; i < t->n; i++)
        if (s->col_of[i] >= 0 && !s->final[i]) {
            const struct two_least two = two_least_of(s, i);

            if (two.second < NO_PATH)
                s->v[s->col_of[i]] -= two.least_at == s->col_of[i] ? two.second : two.least;
        }
    return true;
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

        if (two.least >= NO_PATH) /* the second best may be a padding column */
            return false;
        loser = s->row_of[j];
        if (two.second < NO_PATH && two.least < two.second) {
            s->v[j] -= two.second - two.least;
        } else if (loser >= 0 && two.second < NO_PATH) {
            j = find(s, i, two.second, two.least_at); /* a tie: the other column may be free */
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

/* A free column at distance `least` if there is one, else the first open column there. */
static int pick(const struct solver *s, int64_t least)
{
    int j = 0;

    for (int k = 0; k < s->n_free_col; k++)
        if (s->distance[s->free_col[k]] == least)
            return s->free_col[k];
    while (s->distance[j] != least)
        j++;
    return j;
}

/* Augment along the shortest path from free row `root` to a free column, and update the prices. */
static bool augment(struct solver *s, int root)
{
    int64_t base, shift = 0;
    int row = root, n = 0, j;

    for (int k = 0; k < s->stride; k++)
        s->distance[k] = NO_PATH;
    for (;;) {
        base = s->relax(row_of_cost(s, row), s->price, shift, row, s->distance, s->from, s->stride);
        if (base > PRICE_MAX || base < -PRICE_MAX)
            return false;
        j = pick(s, base);
        row = s->row_of[j];
        if (row < 0)
            break;
        s->finished[n] = j;
        s->final[n++] = base;
        shift = base - (row_of_cost(s, row)[j] - s->v[j]);
        s->price[j] = FINISHED;
        s->distance[j] = NO_PATH;
    }
    for (int k = 0; k < n; k++) {
        const int col = s->finished[k];

        s->v[col] += s->final[k] - base;
        s->price[col] = s->v[col];
        if (s->v[col] < -PRICE_MAX)
            return false;
    }
    n = 0;
    while (s->free_col[n] != j)
        n++;
    s->free_col[n] = s->free_col[--s->n_free_col];
    for (;;) {
        const int i = (int)s->from[j], next = s->col_of[i];

        match(s, i, j);
        if (i == root)
            return true;
        j = next;
    }
}

static void list_free(struct solver *s)
{
    s->n_free = 0;
    for (int i = 0; i < s->t->n; i++)
        if (s->col_of[i] < 0)
            s->free_row[s->n_free++] = i;
    s->n_free_col = 0;
    for (int j = 0; j < s->t->m; j++)
        if (s->row_of[j] < 0)
            s->free_col[s->n_free_col++] = j;
}

static bool run(struct solver *s)
{
    if (!fill(s) || (s->t->n == s->t->m && !reduce_columns(s)))
        return false;
    list_free(s);
    for (int pass = 0; pass < 2; pass++)
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
    const size_t n = (size_t)t->n;
    size_t width;
    bool is_solved;

    s.stride = (t->m + LANES - 1) / LANES * LANES;
    width = (size_t)s.stride + LANES; /* never empty */
    pick_loop(&s);
    s.cost = spot_xcalloc(n * (size_t)s.stride + 5 * width, sizeof *s.cost);
    s.v = s.cost + n * (size_t)s.stride;
    s.price = s.v + width;
    s.distance = s.price + width;
    s.from = s.distance + width;
    s.final = s.from + width;
    s.finished = spot_xcalloc(n + 2 * width, sizeof(int));
    s.free_col = s.finished + width;
    s.free_row = s.free_col + width;
    for (int i = 0; i < t->n; i++)
        s.col_of[i] = -1;
    for (int j = 0; j < t->m; j++)
        s.row_of[j] = -1;
    is_solved = run(&s);
    for (int i = 0; i < t->n && is_solved; i++)
        matching->u[i] = row_of_cost(&s, i)[s.col_of[i]] - s.v[s.col_of[i]];
    for (int j = 0; j < t->m && is_solved; j++)
        matching->v[j] = s.v[j];
    free(s.cost), free(s.finished);
    return is_solved;
}
