/* SPDX-License-Identifier: MIT */
/* Chains on the count: a transition matrix, iterated exactly. Their state is the table of all
 * observed transitions; the distributions of jumps, deaths and births follow from it. */
#include "forecast/models/fc_chain.h"

#include <math.h>
#include <string.h>

#include "common/simd.h"
#include "forecast/models/models.h"

/* Columns of which the sums are in registers. */
enum { VECTORS = 3, COLUMNS = 4 * VECTORS };

struct jumps {
    double n, n_up, n_down, up_sum, down_sum;
};

struct chain {
    struct jumps jumps;
    double seen[]; /* [(cap + 1) * (cap + 1)] transitions, row-major; then as much for scratch */
};

static size_t cells(const struct spot_fc_spec *spec)
{
    return ((size_t)spec->cap + 1) * ((size_t)spec->cap + 1);
}

size_t spot_chain_state_byte(const struct spot_fc_spec *spec)
{
    return sizeof(struct chain) + 2 * cells(spec) * sizeof(double);
}

static void count(struct jumps *c, int from, int to)
{
    c->n += 1;
    if (to > from) {
        c->n_up += 1;
        c->up_sum += to - from;
    } else if (to < from) {
        c->n_down += 1;
        c->down_sum += from - to;
    }
}

void spot_chain_observe(const struct spot_fc_spec *spec, void *state,
                        const struct spot_fc_past *past)
{
    struct chain *c = state;

    if (past->n < 2)
        return;
    count(&c->jumps, past->y[past->n - 2], past->y[past->n - 1]);
    c->seen[(size_t)past->y[past->n - 2] * ((size_t)spec->cap + 1) +
            (size_t)past->y[past->n - 1]] += 1;
}

/* Probabilities of jumps: of exactly that size, indexed from -cap to cap; and in each direction, of
 * k + 1 or more. */
struct sizes {
    double just[2 * SPOT_FC_CAP_FINE + 1], down[SPOT_FC_CAP_FINE + 1], up[SPOT_FC_CAP_FINE + 1];
};

/* The first size is at just[0], the next ones `side` apart. */
static void find_sizes(double *just, int side, double *least, int cap, double prob, double keep)
{
    for (int k = 0; k < cap; k++) {
        just[side * k] = prob * (1 - keep);
        least[k] = prob;
        prob *= keep;
    }
}

/* The count is a whole number, so the order of summation does not matter. */
SPOT_SIMD_INLINE double count_of(const double *seen, size_t n)
{
    double sum[4] = { 0 };
    size_t i = 0;

    for (; i + 4 <= n; i += 4)
        for (size_t k = 0; k < 4; k++)
            sum[k] += seen[i + k];
    for (; i < n; i++)
        sum[0] += seen[i];
    return sum[0] + sum[1] + sum[2] + sum[3];
}

/* Each row is the observed transitions and one row of the jump chain: a change happens with
 * probability (changes + 1/2)/(n + 1), is upward with probability (ups + 1/2)/(changes + 1), and
 * has a geometric size with mean (sum + 2)/(count + 1). Probability beyond a bound stays on the
 * bound, and at a bound no jump leads outside. */
SPOT_SIMD_INLINE void fill_matrix_inline(struct chain *state, int cap, double *restrict matrix)
{
    const struct jumps *c = &state->jumps;
    const double changes = c->n_up + c->n_down, change = (changes + 0.5) / (c->n + 1);
    const double up = change * (c->n_up + 0.5) / (changes + 1), down = change - up;
    const int width = cap + 1;
    struct sizes size;

    size.just[cap] = 0;
    find_sizes(size.just + cap + 1, 1, size.up, cap, up, 1 - (c->n_up + 1) / (c->up_sum + 2));
    find_sizes(size.just + cap - 1, -1, size.down, cap, down,
               1 - (c->n_down + 1) / (c->down_sum + 2));
    for (int y = 0; y < width; y++) {
        const double *restrict seen = state->seen + y * width, *restrict just = size.just + cap - y;
        const double n = 1 + count_of(seen, (size_t)width);
        double *restrict row = matrix + y * width;

        for (int k = 0; k < width; k++)
            row[k] = (just[k] + seen[k]) / n;
        if (y > 0)
            row[0] = (size.down[y - 1] + seen[0]) / n;
        if (y < cap)
            row[cap] = (size.up[cap - y - 1] + seen[cap]) / n;
        row[y] = (1 - (y < cap ? up : 0) - (y > 0 ? down : 0) + seen[y]) / n;
    }
}

SPOT_SIMD_TWICE(fill_matrix, (struct chain * c, int cap, double *restrict matrix), (c, cap, matrix))

double *spot_chain_matrix(const struct spot_fc_spec *spec, void *state)
{
    struct chain *c = state;

    fill_matrix(c, spec->cap, c->seen + cells(spec));
    return c->seen + cells(spec);
}

/* to = from M without the rows of negligible weight. Sums stay in registers, three vectors of
 * columns at a time; the last three overlap with those before. */
SPOT_SIMD_INLINE void step(const double *restrict from, const double *restrict matrix, size_t width,
                           double *restrict to)
{
    const double *row[SPOT_FC_CAP_FINE + 1];
    double weight[SPOT_FC_CAP_FINE + 1];
    size_t n = 0;

    for (size_t i = 0; i < width; i++) {
        row[n] = matrix + i * width;
        weight[n] = from[i];
        n += from[i] > 1e-12;
    }
    memset(to, 0, width * sizeof(*to));
    for (size_t i = 0; i < n && width < COLUMNS; i++)
        for (size_t k = 0; k < width; k++)
            to[k] += weight[i] * row[i][k];
    for (size_t k = 0; k < width && width >= COLUMNS; k += COLUMNS) {
        const size_t first = k + COLUMNS <= width ? k : width - COLUMNS;
        spot_four sum[VECTORS] = { { 0 } };

#pragma GCC unroll 2
        for (size_t i = 0; i < n; i++)
            for (size_t v = 0; v < VECTORS; v++)
                sum[v] += weight[i] * ((const spot_four *)(row[i] + first))[v];
        for (size_t v = 0; v < VECTORS; v++)
            ((spot_four *)(to + first))[v] = sum[v];
    }
}

/* prob[h] = e_now M^h */
SPOT_SIMD_INLINE void iterate_inline(const double *restrict matrix, size_t width, int now,
                                     int horizon, double *restrict prob)
{
    memcpy(prob, matrix + (size_t)now * width, width * sizeof(*prob));
    for (int h = 1; h < horizon; h++, prob += width)
        step(prob, matrix, width, prob + width);
}

SPOT_SIMD_TWICE(iterate,
                (const double *restrict matrix, size_t width, int now, int horizon,
                 double *restrict prob),
                (matrix, width, now, horizon, prob))

void spot_markov_predict(const struct spot_fc_spec *spec, void *state,
                         const struct spot_fc_past *past, double *prob)
{
    iterate(spot_chain_matrix(spec, state), (size_t)spec->cap + 1, past->y[past->n - 1],
            spec->horizon, prob);
}

/* dist[k] = P(Binomial(n, share) = k), by recurrence from the more likely end. */
SPOT_SIMD_INLINE void binomial(int n, double share, double *dist)
{
    const bool flip = share > 0.5;
    const double p = flip ? 1 - share : share, odds = p / (1 - p);
    double at = pow(1 - p, n), ratio[SPOT_FC_CAP_FINE + 1];

    for (int k = 0; k < n; k++)
        ratio[k] = odds * (n - k) / (k + 1);
    dist[flip ? n : 0] = at;
    for (int k = 0; k < n; k++) {
        at *= ratio[k];
        dist[flip ? n - k - 1 : k + 1] = at;
    }
}

/* The sum of two binomials: p[s + b] += live[s] fill[b], over the likely s, several columns at a
 * time. `fill` has zeros around it. */
SPOT_SIMD_INLINE void places_inline(int cap, int now, double full, double empty, double *p)
{
    enum { ROOM = SPOT_FC_CAP_FINE + COLUMNS };
    double live[SPOT_FC_CAP_FINE + 1], around[3 * ROOM], sum[ROOM], *const fill = around + ROOM;
    const int most = cap - now;

    memset(fill - COLUMNS, 0, COLUMNS * sizeof(*fill));
    memset(fill + most + 1, 0, COLUMNS * sizeof(*fill));
    binomial(now, full, live);
    binomial(most, empty, fill);
    for (int s = 0; s <= now; s++)
        live[s] = live[s] > 1e-12 ? live[s] : 0;
    for (int k = 0; k <= cap; k += COLUMNS) {
        spot_four at[VECTORS] = { { 0 } };

        for (int s = k > most ? k - most : 0; s <= now && s < k + COLUMNS; s++)
            for (int v = 0; v < VECTORS; v++)
                at[v] += live[s] * ((const spot_four *)(fill + k - s))[v];
        memcpy(sum + k, at, sizeof(at));
    }
    memcpy(p, sum, ((size_t)cap + 1) * sizeof(*p));
}

SPOT_SIMD_TWICE(places, (int cap, int now, double full, double empty, double *p),
                (cap, now, full, empty, p))

void spot_places_dist(int cap, int now, double full, double empty, double *p)
{
    places(cap, now, full, empty, p);
}

/* Each instance is lost with probability mu, then each empty place is filled with probability
 * lambda. Places are independent two-state chains, so the count after h steps is the sum of two
 * binomials. */
void spot_birthdeath_predict(const struct spot_fc_spec *spec, void *state,
                             const struct spot_fc_past *past, double *prob)
{
    const struct spot_fc_past w = spot_fc_tail(spec, past);
    const int cap = spec->cap, now = w.y[w.n - 1];
    double died = 0.5, born = 0.5, there = 10, missing = 10, full = 1, empty = 0;

    (void)state;
    for (size_t i = 1; i < w.n; i++) {
        died += w.y[i] < w.y[i - 1] ? w.y[i - 1] - w.y[i] : 0;
        born += w.y[i] > w.y[i - 1] ? w.y[i] - w.y[i - 1] : 0;
        there += w.y[i - 1];
        missing += cap - w.y[i - 1];
    }
    for (int h = 1; h <= spec->horizon; h++) {
        const double lambda = fmin(born / missing, 1), stay = 1 - fmin(died / there, 1);

        /* P(a place is full, given that it was full) */
        full = full * stay + (1 - full * stay) * lambda;
        empty = empty * stay + (1 - empty * stay) * lambda;
        spot_places_dist(cap, now, full, empty, spot_fc_row(spec, prob, h));
    }
}
