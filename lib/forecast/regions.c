/* SPDX-License-Identifier: MIT */
#include "forecast/regions.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "forecast/shock.h"
#include "trace/region.h"

static bool is_same_region(const struct spot_count_grid *a, const struct spot_count_grid *b)
{
    return *a->zone && spot_region_is_same(a->zone, b->zone) &&
           !strcmp(a->instance_type, b->instance_type);
}

struct pairs {
    double together, expected;
};

/* Intervals that both grids have; grids of one trace have one step. */
static void count_pair(const struct spot_count_grid *a, const struct spot_count_grid *b,
                       struct pairs *sum)
{
    const long shift = lround((a->start_s - b->start_s) / a->interval_s); /* b's index of a's 0 */
    double n = 0, n_a = 0, n_b = 0, both = 0;

    for (size_t i = 1; i < a->n; i++) {
        const long j = (long)i + shift;

        if (j < 1 || (size_t)j >= b->n)
            continue;
        n += 1;
        n_a += a->lost[i] > 0;
        n_b += b->lost[j] > 0;
        both += a->lost[i] > 0 && b->lost[j] > 0;
    }
    sum->together += both;
    sum->expected += n > 0 ? n_a * n_b / n : 0;
}

static void fill(const struct spot_count_grids *grids, size_t first,
                 struct spot_forecast_region *out)
{
    const struct spot_count_grid *g = &grids->grid[first];
    struct pairs sum = { 0, 0 };
    struct spot_shock shock;

    for (size_t i = first; i < grids->n; i++)
        for (size_t j = i + 1; j < grids->n; j++)
            if (is_same_region(g, &grids->grid[i]) && is_same_region(g, &grids->grid[j]))
                count_pair(&grids->grid[i], &grids->grid[j], &sum);
    shock = spot_shock_fit(sum.together, sum.expected);
    memcpy(out->region, g->zone,
           (size_t)fmin((double)spot_region_length(g->zone), (double)sizeof(out->region) - 1));
    out->instance_type = g->instance_type;
    out->shock_prob = shock.prob;
    out->loss_lift = shock.lift;
    out->calm_lift = shock.calm;
}

size_t spot_regions_find(const struct spot_count_grids *grids, struct spot_forecast_region **out)
{
    size_t n = 0;

    *out = spot_xcalloc(grids->n, sizeof(**out));
    for (size_t i = 0; i < grids->n; i++) {
        int64_t zones = 1;
        bool is_first = true;

        for (size_t j = 0; j < grids->n; j++) {
            const bool is_kin = j != i && is_same_region(&grids->grid[i], &grids->grid[j]);

            zones += is_kin;
            is_first = is_first && !(is_kin && j < i);
        }
        if (zones < 2 || !is_first)
            continue;
        (*out)[n].zones = zones;
        fill(grids, i, &(*out)[n++]);
    }
    return n;
}
