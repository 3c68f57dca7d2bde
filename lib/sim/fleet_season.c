/* SPDX-License-Identifier: MIT */
#include "sim/fleet_season.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/num.h"
#include "common/xalloc.h"

enum { SEEN_LEAST = 16, RECENT = 192 };      /* ticks that a lag must have told; of the law */
static const size_t level[] = { 4, 16, 64 }; /* ticks in a row whose mean may tell */
enum { LEVELS = sizeof(level) / sizeof(level[0]) };
static const double keep = 0.9892280131939755; /* of an error: half after 64 ticks */

static const double above_most = 1.1; /* no more is expected than the most that came */

struct spot_fleet_season {
    size_t n_bucket, n;
    double *load; /* [n][n_bucket] */
    double *sum;  /* [n] */
    double *all;  /* [n + 1] of sum before a tick */
    double most;  /* of sum */
    size_t cap_load, cap_sum, cap_all;
    double off[SPOT_FLEET_LAGS + 1], seen[SPOT_FLEET_LAGS + 1]; /* by lag, discounted */
};

void spot_fleet_season_parts(size_t n, size_t from[SPOT_FLEET_LOADS + 1])
{
    static const size_t of_64[SPOT_FLEET_LOADS + 1] = { 0, 24, 40, 48, 56, 60, 62, 63, 64 };

    for (size_t i = 0; i <= SPOT_FLEET_LOADS; i++)
        from[i] = of_64[i] * n / 64;
}

struct spot_fleet_season *spot_fleet_season_new(size_t n_bucket)
{
    struct spot_fleet_season *s = spot_xcalloc(1, sizeof(*s));

    s->n_bucket = n_bucket;
    s->all = spot_xgrow(NULL, &s->cap_all, 1, sizeof(double));
    s->all[0] = 0;
    return s;
}

void spot_fleet_season_free(struct spot_fleet_season *s)
{
    free(s->load);
    free(s->sum);
    free(s->all);
    free(s);
}

void spot_fleet_season_step(struct spot_fleet_season *s, const double *load)
{
    double sum = 0;

    s->load = spot_xgrow(s->load, &s->cap_load, (s->n + 1) * s->n_bucket, sizeof(double));
    s->sum = spot_xgrow(s->sum, &s->cap_sum, s->n + 1, sizeof(double));
    memcpy(s->load + s->n * s->n_bucket, load, s->n_bucket * sizeof(double));
    for (size_t b = 0; b < s->n_bucket; b++)
        sum += load[b];
    for (size_t lag = 1; lag <= SPOT_FLEET_LAGS && lag <= s->n; lag++) {
        s->off[lag] = keep * s->off[lag] + fabs(sum - s->sum[s->n - lag]);
        s->seen[lag] = keep * s->seen[lag] + 1;
    }
    s->most = fmax(s->most, sum);
    s->sum[s->n++] = sum;
    s->all = spot_xgrow(s->all, &s->cap_all, s->n + 1, sizeof(double));
    s->all[s->n] = s->all[s->n - 1] + sum;
}

/* What tells a tick: the mean of so many in a row, the last of them `lag` ticks before it. */
struct teller {
    size_t lag, width;
};

/* A tick, which has as many before it as that takes. */
static double told(const struct spot_fleet_season *s, struct teller teller, size_t t)
{
    const size_t end = t - teller.lag + 1;

    return (s->all[end] - s->all[end - teller.width]) / (double)teller.width;
}

/* off [RECENT]: what came more than was told, of the last ticks. */
static size_t recent(const struct spot_fleet_season *s, struct teller teller, double *off)
{
    size_t n = 0;

    for (size_t t = s->n; t-- > teller.lag + teller.width - 1 && n < RECENT; n++)
        off[n] = s->sum[t] - told(s, teller, t);
    return n;
}

/* What has told best; the tick before where nothing has told enough. */
static struct teller best_teller(const struct spot_fleet_season *s, size_t ahead)
{
    struct teller best = { ahead, 1 };
    double least = HUGE_VAL, off[RECENT];

    for (size_t lag = ahead; lag <= SPOT_FLEET_LAGS && lag + SEEN_LEAST <= s->n; lag++)
        if (s->off[lag] < least * s->seen[lag]) {
            least = s->off[lag] / s->seen[lag];
            best.lag = lag;
        }
    for (size_t i = 0; i < LEVELS; i++) {
        const struct teller teller = { ahead, level[i] };
        const size_t n = recent(s, teller, off);
        double mean = 0;

        for (size_t j = 0; j < n; j++)
            mean += fabs(off[j]) / (double)n;
        if (n >= SEEN_LEAST && mean < least) {
            least = mean;
            best = teller;
        }
    }
    return best;
}

/* The mean load of some ticks, and so much more of all sizes. */
static void spread(const struct spot_fleet_season *s, size_t from, size_t until, double more,
                   double *load)
{
    const double sum = s->all[until] - s->all[from], n = (double)(until - from);
    const double comes = fmin(above_most * s->most, fmax(0, sum / n + more));

    for (size_t b = 0; b < s->n_bucket; b++) {
        double of = 0;

        for (size_t t = from; t < until; t++)
            of += s->load[t * s->n_bucket + b];
        load[b] = comes * (sum > 0 ? of / sum : 1 / (double)s->n_bucket);
    }
}

size_t spot_fleet_season_next(const struct spot_fleet_season *s, size_t ahead, double *load,
                              double *weight)
{
    const struct teller best = best_teller(s, ahead);
    const size_t until = s->n + ahead - best.lag, from = until - best.width;
    double off[RECENT] = { 0 };
    const size_t n = recent(s, best, off);
    size_t part[SPOT_FLEET_LOADS + 1], parts = 0;

    spot_fleet_season_parts(n, part);
    qsort(off, n, sizeof(*off), spot_num_compare);

    for (size_t i = 0; i < SPOT_FLEET_LOADS; i++) {
        const size_t first = part[i], last = part[i + 1];
        double mean = 0;

        if (first == last)
            continue;
        for (size_t j = first; j < last; j++)
            mean += off[j] / (double)(last - first);
        spread(s, from, until, mean, load + parts * s->n_bucket);
        weight[parts++] = (double)(last - first) / (double)n;
    }
    if (parts)
        return parts;
    spread(s, from, until, 0, load);
    weight[0] = 1;
    return 1;
}
