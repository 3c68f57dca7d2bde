/* SPDX-License-Identifier: MIT */
#include "plan/fleet_scenario.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/rng.h"
#include "common/xalloc.h"
#include "trace/region.h"

size_t spot_fleet_series(const struct spot_forecast *forecast, const char *zone, const char *type)
{
    for (size_t i = 0; i < forecast->n_series; i++)
        if (!strcmp(forecast->series[i].zone, zone) &&
            (!*forecast->series[i].instance_type ||
             !strcmp(forecast->series[i].instance_type, type)))
            return i;
    return SIZE_MAX;
}

/* The region of each series: the index of its first zone. */
static void find_regions(const struct spot_forecast *forecast, size_t *region)
{
    for (size_t i = 0; i < forecast->n_series; i++) {
        region[i] = i;
        for (size_t j = 0; j < i && region[i] == i; j++)
            if (spot_region_is_same(forecast->series[i].zone, forecast->series[j].zone))
                region[i] = j;
    }
}

/* The least count of the steps at a rank in (0, 1). */
static int32_t least_at(const struct spot_forecast_series *series, int64_t steps, double rank)
{
    int32_t least = (int32_t)series->cap;

    for (int64_t step = 1; step <= steps; step++) {
        const double *p = spot_forecast_at(series, step);
        double sum = p[0];
        int32_t count = 0;

        while (count < least && sum < rank)
            sum += p[++count];
        least = count;
    }
    return least;
}

void spot_fleet_draw(const struct spot_fleet_copula *copula, const size_t *series, size_t n_column,
                     size_t first, size_t n, int32_t *there, size_t stride)
{
    const struct spot_forecast *f = copula->forecast;
    const int64_t steps = copula->steps < f->horizon ? copula->steps : f->horizon;
    size_t *region = spot_xcalloc(f->n_series, sizeof(*region));
    double *shared = spot_xcalloc(f->n_series, sizeof(double));
    int32_t *count = spot_xcalloc(f->n_series, sizeof(*count));

    find_regions(f, region);
    for (size_t w = 0; w < n; w++) {
        struct spot_rng rng;
        double common;

        spot_rng_init(&rng, copula->seed, first + w);
        common = sqrt(copula->all) * spot_rng_normal(&rng);
        for (size_t i = 0; i < f->n_series; i++) {
            const double own = spot_rng_normal(&rng);
            double rank;

            if (region[i] == i)
                shared[i] = sqrt(copula->region - copula->all) * spot_rng_normal(&rng);
            rank = common + shared[region[i]] + sqrt(1 - copula->region) * own;
            count[i] = least_at(&f->series[i], steps, 0.5 * erfc(-rank / sqrt(2)));
        }
        for (size_t k = 0; k < n_column; k++)
            if (series[k] != SIZE_MAX)
                there[w * stride + k] = count[series[k]];
    }
    free(region);
    free(shared);
    free(count);
}
