/* SPDX-License-Identifier: MIT */
#include "sim/fleet_season.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/num.h"
#include "common/xalloc.h"

enum { SEEN_LEAST = 16, RECENT = 64 }; /* ticks that a lag must have told; of the law */
/* Where the parts of the law begin, of RECENT: finer where more came than was told. */
static const size_t part_from[SPOT_FLEET_LOADS + 1] = { 0, 24, 40, 48, 56, 60, 62, 63, RECENT };
static const double keep = 0.9892280131939755; /* of an error: half after 64 ticks */

static const double above_most = 1.1; /* no more is expected than the most that came */

struct spot_fleet_season {
    size_t n_bucket, n;
    double *load; /* [n][n_bucket] */
    double *sum;  /* [n] */
    double most;  /* of sum */
    size_t cap_load, cap_sum;
    double off[SPOT_FLEET_LAGS + 1], seen[SPOT_FLEET_LAGS + 1]; /* by lag, discounted */
};

struct spot_fleet_season *spot_fleet_season_new(size_t n_bucket)
{
    struct spot_fleet_season *s = spot_xcalloc(1, sizeof(*s));

    s->n_bucket = n_bucket;
    return s;
}

void spot_fleet_season_free(struct spot_fleet_season *s)
{
    free(s->load);
    free(s->sum);
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
}

/* The lag that has told best; the shortest that reaches where none has told enough. */
static size_t best_lag(const struct spot_fleet_season *s, size_t ahead)
{
    size_t best = ahead;
    double least = HUGE_VAL;

    for (size_t lag = ahead; lag <= SPOT_FLEET_LAGS && lag + SEEN_LEAST <= s->n; lag++)
        if (s->off[lag] < least * s->seen[lag]) {
            least = s->off[lag] / s->seen[lag];
            best = lag;
        }
    return best;
}

/* off [RECENT]: what came more than the lag told, of the last ticks, rising. */
static size_t recent(const struct spot_fleet_season *s, size_t lag, double *off)
{
    size_t n = 0;

    for (size_t t = s->n; t-- > lag && n < RECENT; n++)
        off[n] = s->sum[t] - s->sum[t - lag];
    qsort(off, n, sizeof(*off), spot_num_compare);
    return n;
}

/* The load of a tick that came, and so much more of all sizes. */
static void spread(const struct spot_fleet_season *s, size_t from, double more, double *load)
{
    const double sum = s->sum[from], comes = fmin(above_most * s->most, fmax(0, sum + more));

    for (size_t b = 0; b < s->n_bucket; b++)
        load[b] =
            comes * (sum > 0 ? s->load[from * s->n_bucket + b] / sum : 1 / (double)s->n_bucket);
}

size_t spot_fleet_season_next(const struct spot_fleet_season *s, size_t ahead, double *load,
                              double *weight)
{
    const size_t lag = best_lag(s, ahead), from = s->n - 1 - (lag - ahead);
    double off[RECENT] = { 0 };
    const size_t n = recent(s, lag, off);
    size_t parts = 0;

    for (size_t i = 0; i < SPOT_FLEET_LOADS; i++) {
        const size_t first = part_from[i] * n / RECENT, last = part_from[i + 1] * n / RECENT;
        double mean = 0;

        if (first == last)
            continue;
        for (size_t j = first; j < last; j++)
            mean += off[j] / (double)(last - first);
        spread(s, from, mean, load + parts * s->n_bucket);
        weight[parts++] = (double)(last - first) / (double)n;
    }
    if (parts)
        return parts;
    spread(s, from, 0, load);
    weight[0] = 1;
    return 1;
}
