/* SPDX-License-Identifier: MIT */
#include "forecast/regions.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "forecast/shock.h"
#include "trace/region.h"

/* A series sorted by its region and type; of equal ones the first comes first. */
struct zone {
    const struct spot_count_grid *grid;
    size_t rank;
    long from;      /* index of its interval 0 in the time of the region's first series */
    size_t *before; /* [n + 1] losses in intervals before i, from 1 on */
};

static int compare(const struct zone *a, const struct zone *b)
{
    const size_t n = spot_region_length(a->grid->zone), m = spot_region_length(b->grid->zone);
    const int c = strncmp(a->grid->zone, b->grid->zone, n < m ? n : m);

    if (c || n != m)
        return c ? c : (n > m) - (n < m);
    return strcmp(a->grid->instance_type, b->grid->instance_type);
}

static int by_region(const void *a, const void *b)
{
    const struct zone *x = a, *y = b;
    const int c = compare(x, y);

    return c ? c : (x->rank > y->rank) - (x->rank < y->rank);
}

static void count_losses(struct zone *z, const struct zone *first)
{
    const struct spot_count_grid *g = z->grid;

    z->from = lround((g->start_s - first->grid->start_s) / g->interval_s);
    z->before = spot_xcalloc(g->n + 1, sizeof(*z->before));
    for (size_t i = 1; i < g->n; i++)
        z->before[i + 1] = z->before[i] + (g->lost[i] > 0);
}

/* Pairs of zones with losses in the same interval: k zones give k (k - 1) / 2. */
static double count_together(const struct zone *zone, size_t n)
{
    long low = 0, high = 0;
    double together = 0, *k;

    for (size_t z = 0; z < n; z++) {
        low = zone[z].from < low ? zone[z].from : low;
        high = zone[z].from + (long)zone[z].grid->n > high ? zone[z].from + (long)zone[z].grid->n
                                                           : high;
    }
    k = spot_xcalloc((size_t)(high - low), sizeof(*k));
    for (size_t z = 0; z < n; z++)
        for (size_t i = 1; i < zone[z].grid->n; i++)
            if (zone[z].grid->lost[i] > 0)
                together += k[zone[z].from - low + (long)i]++;
    free(k);
    return together;
}

/* The number of such pairs if losses were independent, over the intervals that both have. */
static double expect_together(const struct zone *a, const struct zone *b)
{
    const long end_a = a->from + (long)a->grid->n, end_b = b->from + (long)b->grid->n;
    const long from = 1 + (a->from > b->from ? a->from : b->from),
               to = end_a < end_b ? end_a : end_b;

    if (from >= to)
        return 0;
    return (double)(a->before[to - a->from] - a->before[from - a->from]) *
           (double)(b->before[to - b->from] - b->before[from - b->from]) / (double)(to - from);
}

static void fill(struct zone *zone, size_t n, struct spot_forecast_region *out)
{
    const struct spot_count_grid *g = zone->grid;
    struct spot_shock shock;
    double expected = 0;

    for (size_t z = 0; z < n; z++)
        count_losses(&zone[z], zone);
    for (size_t a = 0; a < n; a++)
        for (size_t b = a + 1; b < n; b++)
            expected += expect_together(&zone[a], &zone[b]);
    shock = spot_shock_fit(count_together(zone, n), expected);
    for (size_t z = 0; z < n; z++)
        free(zone[z].before);
    out->zones = (int64_t)n;
    memcpy(out->region, g->zone,
           (size_t)fmin((double)spot_region_length(g->zone), (double)sizeof(out->region) - 1));
    out->instance_type = g->instance_type;
    out->shock_prob = shock.prob;
    out->loss_lift = shock.lift;
    out->calm_lift = shock.calm;
}

struct found {
    struct spot_forecast_region region;
    size_t rank;
};

static int by_rank(const void *a, const void *b)
{
    const struct found *x = a, *y = b;

    return (x->rank > y->rank) - (x->rank < y->rank);
}

size_t spot_regions_find(const struct spot_count_grids *grids, struct spot_forecast_region **out)
{
    struct zone *zone = spot_xcalloc(grids->n, sizeof(*zone));
    struct found *found = spot_xcalloc(grids->n, sizeof(*found));
    size_t n_zone = 0, n = 0;

    *out = spot_xcalloc(grids->n, sizeof(**out));
    for (size_t i = 0; i < grids->n; i++)
        if (*grids->grid[i].zone)
            zone[n_zone++] = (struct zone){ .grid = &grids->grid[i], .rank = i };
    if (n_zone)
        qsort(zone, n_zone, sizeof(*zone), by_region);
    for (size_t from = 0, to; from < n_zone; from = to) {
        for (to = from + 1; to < n_zone && !compare(&zone[from], &zone[to]);)
            to++;
        if (to - from < 2)
            continue;
        fill(&zone[from], to - from, &found[n].region);
        found[n++].rank = zone[from].rank;
    }
    if (n)
        qsort(found, n, sizeof(*found), by_rank);
    for (size_t i = 0; i < n; i++)
        (*out)[i] = found[i].region;
    free(zone);
    free(found);
    return n;
}
