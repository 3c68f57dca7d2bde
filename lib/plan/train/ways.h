/* SPDX-License-Identifier: MIT */
/* ways.h - numbers of victim sets by their size: polynomials in x, truncated after x^j_max. */
#ifndef SPOT_PLAN_TRAIN_WAYS_H
#define SPOT_PLAN_TRAIN_WAYS_H

#include "plan/train/repartition.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_WAYS_WIDTH = SPOT_REPARTITION_VICTIMS_MAX + 1 };

struct spot_ways {
    double of[SPOT_WAYS_WIDTH];
};

static inline struct spot_ways spot_ways_times(const struct spot_ways *a, const struct spot_ways *b,
                                               int j_max)
{
    struct spot_ways out = { { 0 } };

    for (int i = 0; i <= j_max; i++)
        for (int j = 0; a->of[i] > 0 && i + j <= j_max; j++)
            out.of[i + j] += a->of[i] * b->of[j];
    return out;
}

static inline struct spot_ways spot_ways_power(const struct spot_ways *f, int n, int j_max)
{
    struct spot_ways out = { { 1 } };

    while (n-- > 0)
        out = spot_ways_times(&out, f, j_max);
    return out;
}

static inline double spot_ways_choose(int n, int k)
{
    double c = k < 0 || k > n ? 0 : 1;

    for (int i = 1; i <= k && c > 0; i++)
        c = c * (n - k + i) / i;
    return c;
}

static inline int spot_ways_least(int a, int b)
{
    return a < b ? a : b;
}

/* The number of ways in which one stage of d replicas loses between low and high of them. */
static inline struct spot_ways spot_ways_stage(int d, int low, int high, int j_max)
{
    struct spot_ways f = { { 0 } };

    for (int a = low < 0 ? 0 : low; a <= high && a <= d && a <= j_max; a++)
        f.of[a] = spot_ways_choose(d, a);
    return f;
}

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PLAN_TRAIN_WAYS_H */
