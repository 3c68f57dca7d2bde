/* SPDX-License-Identifier: MIT */
/* Square matrices in which few different costs make many ties: a byte for each cost, and matchings
 * of all tight pairs at once, as bit sets, by rows and columns reduced once. Where they leave rows
 * free, a Hungarian step changes the prices of all lines that the searches from free columns
 * reached (Kuhn 1955, Munkres 1957), and gives up after a few of them. */
#include <stdlib.h>
#include <string.h>

#include "common/simd.h"
#include "common/xalloc.h"
#include "plan/assign/assign_inner.h"

/* Prices stay below STEP_MAX * PRICE_STEP_MAX, which is below FAR / 2. */
enum { STEP_MAX = 48, PRICE_STEP_MAX = 1 << 23, BLOCK = 32, FAR = 1 << 30 };

struct tied {
    const int8_t *cell; /* [n][n] */
    const int *stay;
    int n, scale;
    int32_t *u, *v;          /* [n] prices of cells times scale, less 1 for pairs in place */
    struct spot_pairs pairs; /* with the dummies of assign_settle.c */
};

/* least[j] = min(least[j], cell[j] - x), where no cell is below x. */
SPOT_SIMD_INLINE void lower_inline(const int8_t *cell, int n, int8_t x, uint8_t *least)
{
    for (int j = 0; j < n; j++) {
        const uint8_t slack = (uint8_t)(cell[j] - x);

        least[j] = slack < least[j] ? slack : least[j];
    }
}

/* Sets `bit` of word[j] where scale * cell[j] = u + v[j]. */
SPOT_SIMD_INLINE void mark_inline(const int8_t *cell, int n, int scale, int32_t u, const int32_t *v,
                                  uint32_t bit, uint32_t *word)
{
    for (int j = 0; j < n; j++)
        word[j] |= (cell[j] * scale - v[j] == u) & (cell[j] != SPOT_NARROW_NONE) ? bit : 0;
}

/* The least scale * cell[j] - v[j]; FAR: there is none. */
SPOT_SIMD_INLINE void slack_inline(const int8_t *cell, int n, int scale, const int32_t *v,
                                   int32_t *least)
{
    int32_t best = FAR;

    for (int j = 0; j < n; j++) {
        const int32_t slack = cell[j] == SPOT_NARROW_NONE ? FAR : cell[j] * scale - v[j];

        best = slack < best ? slack : best;
    }
    *least = best;
}

SPOT_SIMD_TWICE(lower, (const int8_t *cell, int n, int8_t x, uint8_t *least), (cell, n, x, least))
SPOT_SIMD_TWICE(mark,
                (const int8_t *cell, int n, int scale, int32_t u, const int32_t *v, uint32_t bit,
                 uint32_t *word),
                (cell, n, scale, u, v, bit, word))
SPOT_SIMD_TWICE(slack, (const int8_t *cell, int n, int scale, const int32_t *v, int32_t *x),
                (cell, n, scale, v, x))

static const int8_t *row_of_cells(const struct tied *t, int i)
{
    return t->cell + (size_t)i * (size_t)t->n;
}

/* u: the least cell of each row, v: of what that leaves in each column. False: a row has none. */
static bool reduce(struct tied *t)
{
    const size_t n = (size_t)t->n;
    uint8_t *const column = spot_xcalloc(n, 1);
    bool ok = true;

    memset(column, 0xff, n);
    for (int i = 0; i < t->n && ok; i++) {
        slack(row_of_cells(t, i), t->n, 1, t->v, &t->u[i]);
        ok = t->u[i] < FAR;
        lower(row_of_cells(t, i), t->n, (int8_t)t->u[i], column);
    }
    for (int i = 0; i < t->n && ok; i++) {
        const int j = t->stay[i], x = j < 0 ? SPOT_NARROW_NONE : row_of_cells(t, i)[j];
        const bool is_tight = x != SPOT_NARROW_NONE && x == t->u[i] + column[j];

        t->u[i] = t->u[i] * t->scale - is_tight;
    }
    for (int j = 0; j < t->n; j++)
        t->v[j] = column[j] * t->scale;
    free(column);
    return ok;
}

static void mark_stay(struct tied *t, int i)
{
    const int j = t->stay[i];
    const int8_t x = j < 0 ? SPOT_NARROW_NONE : row_of_cells(t, i)[j];
    uint64_t *const takers = spot_pairs_takers(&t->pairs, j < 0 ? 0 : j);

    if (j >= 0)
        spot_bit_drop(takers, i);
    if (x != SPOT_NARROW_NONE && x * t->scale - 1 == t->u[i] + t->v[j])
        spot_bit_put(takers, i);
}

/* Rows of a block of 64 x 64 bits become columns: halves that are exchanged, of halves. */
static void transpose(uint64_t *bits)
{
    uint64_t mask = UINT32_MAX;

    for (int half = 32; half; half /= 2, mask ^= mask << half)
        for (int k = 0; k < 64; k = (k + half + 1) & ~half) {
            const uint64_t x = ((bits[k] >> half) ^ bits[k + half]) & mask;

            bits[k] ^= x << half;
            bits[k + half] ^= x;
        }
}

static void turn_takers(struct spot_pairs *s)
{
    for (int j = 0; j < s->m; j += 64)
        for (int i = 0; i < s->n; i += 64) {
            uint64_t bits[64] = { 0 };

            for (int k = 0; k < 64 && j + k < s->m; k++)
                bits[k] = spot_pairs_takers(s, j + k)[i / 64];
            transpose(bits);
            for (int k = 0; k < 64 && i + k < s->n; k++)
                s->wishes[(size_t)(i + k) * s->m_word + (size_t)j / 64] = bits[k];
        }
}

static void find_tight(struct tied *t)
{
    uint32_t *const word = spot_xcalloc((size_t)t->n, sizeof *word);

    memset(t->pairs.takers, 0, (size_t)t->n * t->pairs.n_word * sizeof *t->pairs.takers);
    for (int i = 0; i < t->n; i++) {
        const int32_t scale = t->scale;

        mark(row_of_cells(t, i), t->n, scale, t->u[i], t->v, UINT32_C(1) << (i % BLOCK), word);
        if (i % BLOCK != BLOCK - 1 && i != t->n - 1)
            continue;
        for (int j = 0; j < t->n; j++)
            spot_pairs_takers(&t->pairs, j)[i / 64] |= (uint64_t)word[j]
                                                       << (i % 64 / BLOCK * BLOCK);
        memset(word, 0, (size_t)t->n * sizeof *word);
    }
    free(word);
    for (int i = 0; i < t->n; i++)
        mark_stay(t, i);
    turn_takers(&t->pairs);
}

/* Rows in place first, then each row takes its first column that is free. */
static void match_first(struct tied *t)
{
    struct spot_pairs *const s = &t->pairs;
    uint64_t *const is_free = spot_xcalloc(s->m_word, sizeof *is_free);

    for (int j = 0; j < t->n; j++)
        spot_bit_put(is_free, j);
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < t->n; i++) {
            const uint64_t *const wish = s->wishes + (size_t)i * s->m_word;
            int j = t->stay[i];

            if (s->col_of[i] >= 0 || (!pass && (j < 0 || !spot_bit_has(wish, j))))
                continue;
            for (size_t w = 0; w < s->m_word && pass; w++)
                if (wish[w] & is_free[w]) {
                    j = (int)w * 64 + __builtin_ctzll(wish[w] & is_free[w]);
                    break;
                } else {
                    j = -1;
                }
            if (j < 0)
                continue;
            s->col_of[i] = j, s->holder[j] = i;
            spot_bit_drop(is_free, j);
        }
    free(is_free);
}

/* Returns the number of columns that no exchange gives a row. */
static int match_rest(struct tied *t)
{
    struct spot_pairs *const s = &t->pairs;
    int n_left = 0;

    memset(s->seen, 0, s->n_word * sizeof *s->seen);
    for (int j = 0; j < t->n; j++)
        n_left += s->holder[j] < 0 && !spot_pairs_augment(s, j);
    return n_left;
}

/* Columns without a row and those of rows seen gain what the cheapest pair with another row costs
 * more than its prices; the rows seen lose it. False if there is no such pair. */
static bool step(struct tied *t)
{
    const struct spot_pairs *const s = &t->pairs;
    int32_t *const v = spot_xcalloc((size_t)t->n, sizeof *v), by = FAR;

    for (int j = 0; j < t->n; j++)
        v[j] = s->holder[j] < 0 || spot_bit_has(s->seen, s->holder[j]) ? t->v[j] : -FAR;
    for (int i = 0; i < t->n; i++) {
        const int8_t *const cell = row_of_cells(t, i);
        const int j = t->stay[i];
        int32_t least;

        if (spot_bit_has(s->seen, i))
            continue;
        slack(cell, t->n, t->scale, v, &least);
        if (j >= 0 && cell[j] != SPOT_NARROW_NONE && cell[j] * t->scale - v[j] - 1 < least)
            least = cell[j] * t->scale - v[j] - 1;
        if (least < FAR / 2 && least - t->u[i] < by)
            by = least - t->u[i];
    }
    for (int k = 0; k < t->n && by <= PRICE_STEP_MAX; k++) {
        t->v[k] += v[k] > -FAR ? by : 0;
        t->u[k] -= spot_bit_has(s->seen, k) ? by : 0;
    }
    free(v);
    return by <= PRICE_STEP_MAX;
}

static bool solve(struct tied *t)
{
    if (!reduce(t))
        return false;
    find_tight(t);
    match_first(t);
    for (int k = 0; match_rest(t); k++) {
        if (k == STEP_MAX || !step(t))
            return false;
        find_tight(t);
    }
    return true;
}

bool spot_assign_tied(const struct spot_turned *turned, const struct spot_narrow *narrow,
                      struct spot_matching *matching)
{
    const int n = turned->n;
    struct tied t = { .cell = narrow->cell, .stay = turned->stay, .n = n, .scale = turned->scale };
    bool is_solved;

    t.u = spot_xcalloc(2 * (size_t)n, sizeof *t.u);
    t.v = t.u + n;
    spot_pairs_init(&t.pairs, n + 1, n + 1);
    is_solved = solve(&t);
    if (is_solved)
        spot_assign_order(&t.pairs);
    for (int k = 0; k < n && is_solved; k++) {
        matching->col_of[k] = t.pairs.col_of[k];
        matching->row_of[k] = t.pairs.holder[k];
        matching->u[k] = t.u[k];
        matching->v[k] = t.v[k];
    }
    free(t.u);
    spot_pairs_release(&t.pairs);
    return is_solved;
}
