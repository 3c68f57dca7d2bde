/* SPDX-License-Identifier: MIT */
/* Analogs: what followed the moments most like this one. A moment is seven features: level, age,
 * last move, distance to the means of 12 and 60 intervals, and how restless those were. Their
 * weights were chosen by hand on public traces; see docs/design/05-forecast.md.
 * Source: nearest-neighbour prediction (Lorenz 1969); features and kernel are ours. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "forecast/models/models.h"
#include "forecast/pmf.h"

enum { NEAREST = 200, FEATURES = 7, SHORT = 12, LONG = 60 };

struct knn {
    size_t n;
    int age, move;
    float feature[FEATURES][SPOT_FC_PAST]; /* ring by n */
};

size_t spot_knn_state_byte(const struct spot_fc_spec *spec)
{
    (void)spec;
    return sizeof(struct knn);
}

/* Mean of the newest `span` values, and the share of them that were changes. */
static void look_back(const struct spot_fc_past *past, size_t span, double *mean, double *restless)
{
    const size_t n = past->n < span ? past->n : span;
    const int *y = past->y + past->n - n;

    *mean = *restless = 0;
    for (size_t i = 0; i < n; i++) {
        *mean += y[i];
        *restless += (i || past->n > n) && y[i] != y[(int)i - 1];
    }
    *mean /= (double)n;
    *restless /= (double)n;
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

/* distance[i] of the values [n] whose features begin at `first`. */
static void add_distances(const struct knn *c, size_t first, size_t n, float *distance)
{
    const float *const x = c->feature[0] + first;
    float here[FEATURES];

    for (int f = 0; f < FEATURES; f++)
        here[f] = c->feature[f][(c->n - 1) % SPOT_FC_PAST];
    for (size_t i = 0; i < n; i++) {
        float sum = 0;

        for (size_t f = 0; f < FEATURES; f++) {
            const float by = x[f * SPOT_FC_PAST + i] - here[f];

            sum += by * by;
        }
        distance[i] = sum;
    }
}

/* distance[i] of past value i to the newest, i < n. */
static void find_distances(const struct knn *c, const struct spot_fc_past *past, size_t n,
                           float *distance)
{
    const size_t first = (c->n - past->n) % SPOT_FC_PAST;
    const size_t before = first + n < SPOT_FC_PAST ? n : SPOT_FC_PAST - first;

    add_distances(c, first, before, distance);
    add_distances(c, 0, n - before, distance + before);
}

static uint32_t bits_of(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof(bits));
    return bits;
}

static float float_of(uint32_t bits)
{
    float x;

    memcpy(&x, &bits, sizeof(x));
    return x;
}

static float largest_until(const float *x, size_t n, float bound)
{
    float most = 0;

    for (size_t i = 0; i < n; i++)
        most = x[i] <= bound && x[i] > most ? x[i] : most;
    return most;
}

/* The k-th smallest of x [n] >= 0, k < n: their bits are ordered as they are, and the range that
 * holds it is halved until it holds no other. No branch hangs on a value, as a sort's would. */
static float select_kth(const float *x, size_t n, size_t k)
{
    uint32_t lo = 0, hi = bits_of(largest_until(x, n, INFINITY)); /* lo <= the k-th's bits <= hi */

    while (lo < hi) {
        const uint32_t mid = lo + (hi - lo) / 2;
        const float bound = float_of(mid);
        uint32_t until = 0;

        for (size_t i = 0; i < n; i++)
            until += x[i] <= bound;
        if (until == k + 1)
            return largest_until(x, n, bound);
        if (until > k)
            hi = mid;
        else
            lo = mid + 1;
    }
    return float_of(lo);
}

/* Those of distance [n] until `bound`, and where they are: like moments lie together, so that most
 * blocks have none. */
static size_t gather(const float *distance, size_t n, float bound, float *near, uint16_t *at)
{
    enum { BLOCK = 16 };
    size_t n_near = 0;

    for (size_t first = 0; first < n; first += BLOCK) {
        const size_t end = n - first < BLOCK ? n : first + BLOCK;
        int n_here = end < first + BLOCK;

        for (size_t i = 0; end == first + BLOCK && i < BLOCK; i++)
            n_here += distance[first + i] <= bound;
        for (size_t i = first; n_here && i < end; i++) {
            near[n_near] = distance[i];
            at[n_near] = (uint16_t)i;
            n_near += distance[i] <= bound;
        }
    }
    return n_near;
}

/* The k + 1 nearest, k < n, and all as near as the farthest of them, in order: among those until a
 * guess from every SAMPLE-th one, or among all where the guess was too near. */
static size_t find_nearest(const float *distance, size_t n, size_t k, float *near, uint16_t *at)
{
    enum { SAMPLE = 16 };
    size_t n_near = 0;

    for (size_t i = 0; i < n; i += SAMPLE)
        near[n_near++] = distance[i];
    if (k + k / 2 < n)
        n_near = gather(distance, n, select_kth(near, n_near, (k + k / 2) * n_near / n), near, at);
    if (n_near <= k || k + k / 2 >= n)
        n_near = gather(distance, n, INFINITY, near, at);
    return n_near;
}

/* Add what followed at every step; the nearest weigh 1, the farthest a tenth. */
static void add_moments(const struct spot_fc_spec *spec, const struct spot_fc_past *past,
                        const float *near, const uint16_t *at, size_t n, float reach, double *prob)
{
    const int cap = spec->cap, now = past->y[past->n - 1];
    const double scale = reach > 0 ? 0.9 / (double)reach : 0;

    for (size_t m = 0; m < n; m++) {
        const int *y = past->y + at[m], shift = now - y[0];
        const double weight = 1 - scale * (double)near[m];
        double *row = prob;

        if (near[m] > reach)
            continue;
        for (int h = 1; h <= spec->horizon; h++, row += cap + 1) {
            const int k = y[h] + shift;

            row[k < 0 ? 0 : k > cap ? cap : k] += weight;
        }
    }
}

/* Add what followed the nearest of the first n moments. */
static void add_nearest(const struct spot_fc_spec *spec, const struct knn *c,
                        const struct spot_fc_past *past, size_t n, double *prob)
{
    const size_t k = n > NEAREST ? NEAREST - 1 : n - 1;
    float distance[SPOT_FC_PAST], near[SPOT_FC_PAST];
    uint16_t at[SPOT_FC_PAST];
    size_t n_near;

    find_distances(c, past, n, distance);
    near[0] = distance[0];
    n_near = find_nearest(distance, n, k, near, at);
    add_moments(spec, past, near, at, n_near, select_kth(near, n_near, k), prob);
}

void spot_knn_predict(const struct spot_fc_spec *spec, void *state, const struct spot_fc_past *past,
                      double *prob)
{
    const struct spot_fc_past w = spot_fc_tail(spec, past);
    const int now = w.y[w.n - 1];
    const size_t n = w.n > (size_t)spec->horizon ? w.n - (size_t)spec->horizon : 0;

    memset(prob, 0, (size_t)spec->horizon * ((size_t)spec->cap + 1) * sizeof(*prob));
    if (n)
        add_nearest(spec, state, &w, n, prob);
    for (int h = 1; h <= spec->horizon; h++) {
        double *p = spot_fc_row(spec, prob, h);

        p[now] += 1; /* one more moment, after which nothing happened */
        spot_pmf_normalize(p, spec->cap, now);
    }
}
