/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "common/num.h"
#include "common/xalloc.h"
#include "sim/fleet_mixed.h"
#include "sim/fleet_season.h"

enum { CLASSES = 8 }; /* classes of similar loads */

struct seen {
    size_t tick;
    /* requests per second: the last ones known when a launch was due, and those of the tick */
    double known, came;
};

static int by_known(const void *a, const void *b)
{
    const struct seen *x = a, *y = b;

    return spot_num_compare(&x->known, &y->known);
}

static int by_came(const void *a, const void *b)
{
    const struct seen *x = a, *y = b;

    return spot_num_compare(&x->came, &y->came);
}

static double sum_of(const struct spot_mixed_play *play, size_t t)
{
    double sum = 0;

    for (size_t b = 0; b < play->n_bucket; b++)
        sum += play->load_per_s[t * play->n_bucket + b];
    return sum;
}

/* Fill in, for each tick, the distribution over similar ticks. */
static void fill(const struct spot_mixed_play *play, struct seen *seen, size_t n,
                 struct spot_mixed_dist *dist)
{
    const size_t n_bucket = play->n_bucket, first = seen[0].tick;
    size_t part[SPOT_FLEET_LOADS + 1];

    qsort(seen, n, sizeof(*seen), by_came);
    spot_fleet_season_parts(n, part);
    for (size_t i = 0; i < dist->n; i++) {
        double *load = dist->per_s + (first * dist->n + i) * n_bucket;

        dist->weight[first * dist->n + i] = (double)(part[i + 1] - part[i]) / (double)n;
        for (size_t j = part[i]; j < part[i + 1]; j++)
            for (size_t b = 0; b < n_bucket; b++)
                load[b] +=
                    play->load_per_s[seen[j].tick * n_bucket + b] / (double)(part[i + 1] - part[i]);
    }
    for (size_t j = 0; j < n; j++) {
        const size_t t = seen[j].tick;

        if (t == first)
            continue;
        memcpy(dist->weight + t * dist->n, dist->weight + first * dist->n,
               dist->n * sizeof(double));
        memcpy(dist->per_s + t * dist->n * n_bucket, dist->per_s + first * dist->n * n_bucket,
               dist->n * n_bucket * sizeof(double));
    }
}

void spot_mixed_dist_init(const struct spot_mixed_play *play, struct spot_mixed_dist *dist)
{
    const size_t n = play->n_tick, lag = play->cold + 1;
    struct seen *seen = spot_xcalloc(n, sizeof(*seen));

    dist->n = SPOT_FLEET_LOADS;
    dist->weight = spot_xcalloc(n * dist->n, sizeof(double));
    dist->per_s = spot_xcalloc(n * dist->n * play->n_bucket, sizeof(double));
    for (size_t t = 0; t < n; t++) /* for the first ticks their own load is used */
        seen[t] = (struct seen){ t, sum_of(play, t < lag ? t : t - lag), sum_of(play, t) };
    qsort(seen, n, sizeof(*seen), by_known);
    for (size_t from = 0, until, c = 1; c <= CLASSES; c++) {
        until = c * n / CLASSES;
        if (until <= from)
            continue; /* enough similar ones, or too few in all */
        while (until < n && !(seen[until].known > seen[until - 1].known))
            until++;
        fill(play, seen + from, until - from, dist);
        from = until;
    }
    free(seen);
}

void spot_mixed_dist_release(struct spot_mixed_dist *dist)
{
    free(dist->weight);
    free(dist->per_s);
    *dist = (struct spot_mixed_dist){ 0 };
}
