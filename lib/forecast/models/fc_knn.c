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

/* distance[i] of past value i to the newest, i < n. */
static void find_distances(const struct knn *c, const struct spot_fc_past *past, size_t n,
                           float *distance)
{
    const size_t first = (c->n - past->n) % SPOT_FC_PAST, now = (c->n - 1) % SPOT_FC_PAST;
    const size_t before = first + n < SPOT_FC_PAST ? n : SPOT_FC_PAST - first;

    memset(distance, 0, n * sizeof(*distance));
    for (int f = 0; f < FEATURES; f++) {
        const float *x = c->feature[f] + first, here = c->feature[f][now];

        for (size_t i = 0; i < before; i++)
            distance[i] += (x[i] - here) * (x[i] - here);
        x = c->feature[f];
        for (size_t i = before; i < n; i++)
            distance[i] += (x[i - before] - here) * (x[i - before] - here);
    }
}

/* The k-th smallest of x [n], k < n, which gets reordered: Hoare's selection. */
static float select_kth(float *x, size_t n, size_t k)
{
    size_t lo = 0, hi = n - 1;

    while (lo < hi) {
        const float pivot = x[lo + (hi - lo) / 2];
        size_t i = lo, j = hi;

        for (;;) {
            float t;

            while (x[i] < pivot)
                i++;
            while (x[j] > pivot)
                j--;
            if (i >= j)
                break;
            t = x[i];
            x[i++] = x[j];
            x[j--] = t;
        }
        if (k <= j)
            hi = j;
        else
            lo = j + 1;
    }
    return x[k];
}

/* The distance of the k-th nearest, k < n: among those that are not beyond a guess from every
 * SAMPLE-th one, or among all where the guess was too near. */
static float find_reach(const float *distance, size_t n, size_t k)
{
    enum { SAMPLE = 16 };
    float near[SPOT_FC_PAST];
    size_t n_near = 0;

    for (size_t i = 0; i < n; i += SAMPLE)
        near[n_near++] = distance[i];
    if (k + k / 2 < n) {
        const float guess = select_kth(near, n_near, (k + k / 2) * n_near / n);

        n_near = 0;
        for (size_t i = 0; i < n; i++) {
            near[n_near] = distance[i];
            n_near += distance[i] <= guess;
        }
        if (n_near > k)
            return select_kth(near, n_near, k);
    }
    memcpy(near, distance, n * sizeof(*near));
    return select_kth(near, n, k);
}

/* Add what followed at every step; the nearest weigh 1, the farthest a tenth. */
static void add_moments(const struct spot_fc_spec *spec, const struct spot_fc_past *past,
                        const float *distance, size_t n, float reach, double *prob)
{
    const int cap = spec->cap, now = past->y[past->n - 1];
    const double scale = reach > 0 ? 0.9 / (double)reach : 0;
    uint16_t near[SPOT_FC_PAST];
    size_t n_near = 0;

    for (size_t i = 0; i < n; i++) {
        near[n_near] = (uint16_t)i;
        n_near += distance[i] <= reach;
    }
    for (size_t m = 0; m < n_near; m++) {
        const int *y = past->y + near[m], shift = now - y[0];
        const double weight = 1 - scale * (double)distance[near[m]];
        double *row = prob;

        for (int h = 1; h <= spec->horizon; h++, row += cap + 1) {
            const int k = y[h] + shift;

            row[k < 0 ? 0 : k > cap ? cap : k] += weight;
        }
    }
}

void spot_knn_predict(const struct spot_fc_spec *spec, void *state, const struct spot_fc_past *past,
                      double *prob)
{
    const struct spot_fc_past w = spot_fc_tail(spec, past);
    const int now = w.y[w.n - 1];
    const size_t n = w.n > (size_t)spec->horizon ? w.n - (size_t)spec->horizon : 0;
    float distance[SPOT_FC_PAST], reach;

    memset(prob, 0, (size_t)spec->horizon * ((size_t)spec->cap + 1) * sizeof(*prob));
    if (n) {
        find_distances(state, &w, n, distance);
        reach = find_reach(distance, n, n > NEAREST ? NEAREST - 1 : n - 1);
        add_moments(spec, &w, distance, n, reach, prob);
    }
    for (int h = 1; h <= spec->horizon; h++) {
        double *p = spot_fc_row(spec, prob, h);

        p[now] += 1; /* one more moment, after which nothing happened */
        spot_pmf_normalize(p, spec->cap, now);
    }
}
