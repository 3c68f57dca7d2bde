/* SPDX-License-Identifier: MIT */
/* Analogs: what followed the past moments that are most similar to the current one. A moment has
 * seven features: level, age, last move, distance to the means of 12 and of 60 intervals, and the
 * share of changes in those. Their weights were chosen by hand on public traces; see
 * docs/design/05-forecast.md. Source: nearest-neighbour prediction (Lorenz 1969); features and
 * kernel are ours. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/simd.h"
#include "forecast/models/models.h"
#include "forecast/pmf.h"

enum { NEAREST = 200, FEATURES = 7, SHORT = 12, LONG = 60, BLOCK = 32 };

struct knn {
    size_t n;
    int age, move;
    float feature[FEATURES][SPOT_FC_PAST]; /* ring buffer by n */
};

size_t spot_knn_state_byte(const struct spot_fc_spec *spec)
{
    (void)spec;
    return sizeof(struct knn);
}

/* Mean of the newest `span` values, and the share of them that changed. */
static void look_back(const struct spot_fc_past *past, size_t span, double *mean, double *restless)
{
    const size_t n = past->n < span ? past->n : span;
    const int *y = past->y + past->n - n;
    int sum = 0, changes = 0;

    for (size_t i = 0; i < n; i++)
        sum += y[i];
    for (size_t i = past->n > n ? 0 : 1; i < n; i++)
        changes += y[i] != y[(int)i - 1];
    *mean = sum / (double)n;
    *restless = changes / (double)n;
}

void spot_knn_observe(const struct spot_fc_spec *spec, void *state, const struct spot_fc_past *past)
{
    struct knn *c = state;
    const int y = past->y[past->n - 1], change = past->n > 1 ? y - past->y[past->n - 2] : 0;
    const size_t at = c->n++ % SPOT_FC_PAST;
    double mean[2], restless[2];

    c->age = change ? 1 : c->age + 1;
    c->move = change ? change : c->move;
    look_back(past, SHORT, &mean[0], &restless[0]);
    look_back(past, LONG, &mean[1], &restless[1]);
    c->feature[0][at] = (float)(2.0 * y / (spec->cap ? spec->cap : 1));
    c->feature[1][at] = (float)log2(c->age);
    c->feature[2][at] = (float)(0.3 * (c->move < 0 ? -1 : 1) * sqrt(abs(c->move)));
    c->feature[3][at] = (float)(0.5 * (y - mean[0]));
    c->feature[4][at] = (float)(0.3 * (y - mean[1]));
    c->feature[5][at] = (float)sqrt(restless[0]);
    c->feature[6][at] = (float)sqrt(restless[1]);
}

/* A distance is stored as the bits of its float, which for floats >= 0 are in the same order. */
SPOT_SIMD_INLINE int32_t bits_of(float x)
{
    int32_t bits;

    memcpy(&bits, &x, sizeof(bits));
    return bits;
}

static float float_of(int32_t bits)
{
    float x;

    memcpy(&x, &bits, sizeof(x));
    return x;
}

SPOT_SIMD_INLINE int32_t largest_until(const int32_t *x, size_t n, int32_t bound)
{
    int32_t most = 0;

    for (size_t i = 0; i < n; i++) {
        const int32_t here = x[i] <= bound ? x[i] : 0;

        most = here > most ? here : most;
    }
    return most;
}

/* The k-th smallest of x[n], k < n: its range is halved until one value is left. Unlike a sort, no
 * branch depends on a value. */
SPOT_SIMD_INLINE int32_t select_kth(const int32_t *x, size_t n, int32_t k)
{
    int32_t lo = 0, hi = largest_until(x, n, INT32_MAX); /* the k-th smallest is in [lo, hi] */

    while (lo < hi) {
        const int32_t mid = lo + (hi - lo) / 2;
        int32_t until = 0;

        for (size_t i = 0; i < n; i++)
            until += x[i] <= mid;
        if (until == k + 1)
            return largest_until(x, n, mid);
        if (until > k)
            hi = mid;
        else
            lo = mid + 1;
    }
    return lo;
}

/* The nearest moments: their positions, distances, and the largest distance. */
struct nearest {
    size_t n;
    uint16_t at[SPOT_FC_PAST];
    int32_t near[SPOT_FC_PAST], reach;
};

/* Compute distance[i] of the [n] moments whose features begin at `first`. */
SPOT_SIMD_INLINE void add_distances(const struct knn *c, size_t first, size_t n,
                                    int32_t *restrict distance)
{
    const float *const x = c->feature[0] + first;
    float here[FEATURES];

    for (int f = 0; f < FEATURES; f++)
        here[f] = c->feature[f][(c->n - 1) % SPOT_FC_PAST];
    for (size_t i = 0; i < n; i++) {
        float sum = 0;

        for (size_t f = 0; f < FEATURES; f++) {
            const float by = here[f] - x[f * SPOT_FC_PAST + i];

            sum += by * by;
        }
        distance[i] = bits_of(sum);
    }
}

/* A bit mask of the x[n], n <= BLOCK, that are at most `bound`. */
SPOT_SIMD_INLINE uint32_t until(const int32_t *x, size_t n, int32_t bound)
{
    uint32_t found = 0;

    for (size_t i = 0; i < n; i++)
        found |= x[i] <= bound ? UINT32_C(1) << i : 0;
    return found;
}

/* Collect the x[n] that are at most `bound`, in order. Blocks without any are left out first, so
 * that no branch depends on how many a block has. */
SPOT_SIMD_INLINE void gather(const int32_t *restrict x, size_t n, int32_t bound,
                             struct nearest *restrict found)
{
    uint32_t near[SPOT_FC_PAST / BLOCK + 1];
    uint16_t first[SPOT_FC_PAST / BLOCK + 1];
    size_t n_block = 0, n_found = 0;

    for (size_t i = 0; i < n; i += BLOCK) {
        first[n_block] = (uint16_t)i;
        near[n_block] = i + BLOCK <= n ? until(x + i, BLOCK, bound) : until(x + i, n - i, bound);
        n_block += near[n_block] != 0;
    }
    near[n_block] = first[n_block] = 0;
    for (uint32_t block = 0, left = near[0]; left; n_found++) {
        const size_t i = first[block] + (size_t)__builtin_ctz(left);

        found->near[n_found] = x[i];
        found->at[n_found] = (uint16_t)i;
        left &= left - 1;
        block += !left;
        left = left ? left : near[block];
    }
    found->n = n_found;
}

static void keep_until(struct nearest *found, int32_t reach)
{
    size_t n = 0;

    for (size_t i = 0; i < found->n; i++) {
        found->near[n] = found->near[i];
        found->at[n] = found->at[i];
        n += found->near[i] <= reach;
    }
    found->n = n;
    found->reach = reach;
}

/* Of the first n moments, the k + 1 nearest (k < n) and all at the same distance as the farthest of
 * these, in order. Searches those within a bound estimated from every SAMPLE-th one, and within a
 * larger one if it was too small. */
SPOT_SIMD_INLINE void find_nearest_inline(const struct knn *c, size_t n_past, size_t n, size_t k,
                                          struct nearest *found)
{
    enum { SAMPLE = 16 };
    const size_t first = (c->n - n_past) % SPOT_FC_PAST;
    const size_t before = first + n < SPOT_FC_PAST ? n : SPOT_FC_PAST - first;
    int32_t distance[SPOT_FC_PAST], sample[SPOT_FC_PAST / SAMPLE];

    add_distances(c, first, before, distance);
    add_distances(c, 0, n - before, distance + before);
    for (size_t i = 0; i < n; i += SAMPLE)
        sample[i / SAMPLE] = distance[i];
    found->n = 0;
    for (size_t enough = k + k / 4; found->n <= k; enough *= 2)
        gather(distance, n,
               enough < n ? select_kth(sample, (n - 1) / SAMPLE + 1, (int32_t)(enough / SAMPLE))
                          : INT32_MAX,
               found);
    keep_until(found, select_kth(found->near, found->n, (int32_t)k));
}

SPOT_SIMD_TWICE(find_nearest,
                (const struct knn *c, size_t n_past, size_t n, size_t k, struct nearest *found),
                (c, n_past, n, k, found))

/* Add what followed the moments, at every step; the nearest has weight 1, the farthest a tenth. */
static void add_moments(const struct nearest *found, const int *past, int now, int cap, int horizon,
                        double *prob)
{
    const double reach = (double)float_of(found->reach), scale = reach > 0 ? 0.9 / reach : 0;

    for (size_t m = 0; m < found->n; m++) {
        const int *y = past + found->at[m], shift = now - y[0];
        const double weight = 1 - scale * (double)float_of(found->near[m]);
        double *row = prob;

#pragma GCC unroll 12
        for (int h = 1; h <= horizon; h++, row += cap + 1) {
            const int k = y[h] + shift;

            row[k < 0 ? 0 : k < cap ? k : cap] += weight;
        }
    }
}

void spot_knn_predict(const struct spot_fc_spec *spec, void *state, const struct spot_fc_past *past,
                      double *prob)
{
    const struct spot_fc_past w = spot_fc_tail(spec, past);
    const int now = w.y[w.n - 1];
    const size_t n = w.n > (size_t)spec->horizon ? w.n - (size_t)spec->horizon : 0;

    memset(prob, 0, (size_t)spec->horizon * ((size_t)spec->cap + 1) * sizeof(*prob));
    if (n) {
        struct nearest found;

        find_nearest(state, w.n, n, n > NEAREST ? NEAREST - 1 : n - 1, &found);
        add_moments(&found, w.y, now, spec->cap, spec->horizon, prob);
    }
    for (int h = 1; h <= spec->horizon; h++) {
        double *p = spot_fc_row(spec, prob, h);

        p[now] += 1; /* one more moment, after which nothing changed */
        spot_pmf_normalize(p, spec->cap, now);
    }
}
