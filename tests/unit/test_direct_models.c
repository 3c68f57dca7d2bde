/* SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/rng.h"
#include "forecast/models/fc_chain.h"
#include "forecast/predictor.h"
#include "suite.h"

/* Goal: the models of the pool that are written for speed equal their definitions, computed in the
 * plainest way, for caps on both sides of the number of columns that are summed together. */

enum { H = 14, LONG = SPOT_FC_PAST + 700, CAP_MOST = 40 };

static const int caps[] = { 1, 2, 7, 10, 11, 12, 13, 23, 32, CAP_MOST };

static int *series_of(int cap, int n)
{
    int *const y = malloc((size_t)n * sizeof(*y));
    struct spot_rng rng;

    spot_rng_init(&rng, 5, (uint64_t)cap);
    y[0] = cap;
    for (int t = 1; t < n; t++) {
        const int move = spot_rng_unit(&rng) < 0.2 ? (int)spot_rng_below(&rng, 9) - 4 : 0;

        y[t] = y[t - 1] + move < 0 ? 0 : y[t - 1] + move > cap ? cap : y[t - 1] + move;
    }
    return y;
}

static void forecast(const char *name, int cap, const int *y, int n, double *prob)
{
    const struct spot_fc_spec spec = { .cap = cap, .horizon = H };
    struct spot_predictor *p = spot_predictor_new(spot_forecaster_named(name), &spec);

    for (int t = 0; t < n; t++)
        spot_predictor_observe(p, y[t]);
    spot_predictor_predict(p, prob);
    spot_predictor_free(p);
}

static void check_equal(const double *prob, const double *want, int cap, int h)
{
    for (int k = 0; k <= cap; k++)
        ck_assert_msg(fabs(prob[(h - 1) * (cap + 1) + k] - want[k]) < 1e-9,
                      "cap %d, step %d, count %d: %.12g, not %.12g", cap, h, k,
                      prob[(h - 1) * (cap + 1) + k], want[k]);
}

/* --- nearest neighbours --- */

struct analog {
    int at;
    float distance;
};

static int by_distance(const void *a, const void *b)
{
    const struct analog *x = a, *y = b;

    return (x->distance > y->distance) - (x->distance < y->distance);
}

static double mean_of(const int *y, int t, int span, double *restless)
{
    const int first = t + 1 > span ? t + 1 - span : 0;
    double sum = 0;

    *restless = 0;
    for (int i = first; i <= t; i++) {
        sum += y[i];
        *restless += i && y[i] != y[i - 1];
    }
    *restless /= t + 1 - first;
    return sum / (t + 1 - first);
}

static void features(const int *y, int t, int cap, float x[7])
{
    double restless[2], mean = mean_of(y, t, 12, &restless[0]);
    int age = 1, move;

    while (t - age >= 0 && y[t - age] == y[t])
        age++;
    move = t - age >= 0 ? y[t] - y[t - age] : 0;
    x[0] = (float)(2.0 * y[t] / cap);
    x[1] = (float)log2(age);
    x[2] = (float)(0.3 * (move < 0 ? -1 : 1) * sqrt(abs(move)));
    x[3] = (float)(0.5 * (y[t] - mean));
    mean = mean_of(y, t, 60, &restless[1]);
    x[4] = (float)(0.3 * (y[t] - mean));
    x[5] = (float)sqrt(restless[0]);
    x[6] = (float)sqrt(restless[1]);
}

/* By sorting the whole past; the 200 nearest, and all that are as near as the last of them. */
static void knn_by_hand(const int *y, int n, int cap, int h, double *dist)
{
    struct analog *const moment = malloc((size_t)n * sizeof(*moment));
    const int first = n > SPOT_FC_PAST ? n - SPOT_FC_PAST : 0, n_moment = n - H - first;
    double sum = 1, reach;
    float now[7], x[7];

    memset(dist, 0, ((size_t)cap + 1) * sizeof(*dist));
    dist[y[n - 1]] = 1;
    features(y, n - 1, cap, now);
    for (int i = 0; i < n_moment; i++) {
        moment[i] = (struct analog){ first + i, 0 };
        features(y, first + i, cap, x);
        for (int f = 0; f < 7; f++)
            moment[i].distance += (x[f] - now[f]) * (x[f] - now[f]);
    }
    qsort(moment, (size_t)n_moment, sizeof(*moment), by_distance);
    reach = (double)moment[n_moment > 200 ? 199 : n_moment - 1].distance;
    for (int i = 0; i < n_moment && (double)moment[i].distance <= reach; i++) {
        const int k = y[n - 1] + y[moment[i].at + h] - y[moment[i].at];
        const double weight = reach > 0 ? 1 - 0.9 * (double)moment[i].distance / reach : 1;

        dist[k < 0 ? 0 : k > cap ? cap : k] += weight;
        sum += weight;
    }
    for (int k = 0; k <= cap; k++)
        dist[k] /= sum;
    free(moment);
}

START_TEST(nearest_neighbours_equal_a_sorted_past)
{
    static const int length[] = { H + 1, 60, 230, 1000, SPOT_FC_PAST, LONG };
    double prob[H * (CAP_MOST + 1)], dist[CAP_MOST + 1];
    int *const y = series_of(caps[_i], LONG);

    for (size_t i = 0; i < sizeof(length) / sizeof(length[0]); i++) {
        forecast("knn", caps[_i], y, length[i], prob);
        for (int h = 1; h <= H; h++) {
            knn_by_hand(y, length[i], caps[_i], h, dist);
            check_equal(prob, dist, caps[_i], h);
        }
    }
    free(y);
}
END_TEST

/* --- the chain --- */

/* P(jump from y to k): a change, its direction, a geometric size; what is beyond a bound is on it.
 */
static double jump(const double up, const double down, const double keep[2], int cap, int y, int k)
{
    const int size = abs(k - y);
    const double which = k > y ? keep[0] : keep[1];

    if (k == y)
        return 1 - (y < cap ? up : 0) - (y > 0 ? down : 0);
    return (k > y ? up : down) * pow(which, size - 1) * (k == 0 || k == cap ? 1 : 1 - which);
}

START_TEST(a_chain_equals_powers_of_its_counts)
{
    enum { PAST = 500 };
    const int cap = caps[_i], width = cap + 1;
    double prob[H * (CAP_MOST + 1)], row[CAP_MOST + 1] = { 0 }, next[CAP_MOST + 1];
    double seen[CAP_MOST + 1][CAP_MOST + 1] = { { 0 } }, of[CAP_MOST + 1] = { 0 };
    double n[2] = { 0 }, sum[2] = { 0 }, change, up, keep[2];
    int *const y = series_of(cap, PAST);

    for (int t = 1; t < PAST; t++) {
        seen[y[t - 1]][y[t]] += 1;
        of[y[t - 1]] += 1;
        n[y[t] < y[t - 1]] += y[t] != y[t - 1];
        sum[y[t] < y[t - 1]] += abs(y[t] - y[t - 1]);
    }
    change = (n[0] + n[1] + 0.5) / PAST;
    up = change * (n[0] + 0.5) / (n[0] + n[1] + 1);
    for (int i = 0; i < 2; i++)
        keep[i] = 1 - (n[i] + 1) / (sum[i] + 2);
    forecast("markov", cap, y, PAST, prob);
    row[y[PAST - 1]] = 1;
    for (int h = 1; h <= H; h++) {
        memset(next, 0, sizeof(next));
        for (int a = 0; a < width; a++)
            for (int b = 0; b < width; b++)
                next[b] +=
                    row[a] * (jump(up, change - up, keep, cap, a, b) + seen[a][b]) / (1 + of[a]);
        memcpy(row, next, sizeof(row));
        check_equal(prob, row, cap, h);
    }
    free(y);
}
END_TEST

static double binomial(int n, int k, double share)
{
    return exp(lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1)) * pow(share, k) *
           pow(1 - share, n - k);
}

START_TEST(places_are_the_sum_of_two_binomials)
{
    static const double share[] = { 0.001, 0.2, 0.5, 0.97 };
    const int cap = caps[_i];
    double p[CAP_MOST + 1], want[CAP_MOST + 1];

    for (int now = 0; now <= cap; now++)
        for (int i = 0; i < 16; i++) {
            const double full = share[i % 4], empty = share[i / 4];

            memset(want, 0, sizeof(want));
            for (int s = 0; s <= now; s++)
                for (int b = 0; b <= cap - now; b++)
                    want[s + b] += binomial(now, s, full) * binomial(cap - now, b, empty);
            spot_places_dist(cap, now, full, empty, p);
            check_equal(p, want, cap, 1);
        }
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");
    const int n = (int)(sizeof(caps) / sizeof(caps[0]));

    tcase_add_loop_test(tc, nearest_neighbours_equal_a_sorted_past, 0, n);
    tcase_add_loop_test(tc, a_chain_equals_powers_of_its_counts, 0, n);
    tcase_add_loop_test(tc, places_are_the_sum_of_two_binomials, 0, n);
    add_tests(tc);
    return run_suite("direct_models", tc);
}
