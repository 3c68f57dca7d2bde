/* SPDX-License-Identifier: MIT */
#include "plan/fleet_scenario.h"

#include <math.h>
#include <stdbool.h>
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

/* The forecast entry with the joint losses of the series' region; n_region if there is none. */
static size_t told_of(const struct spot_forecast *f, size_t series)
{
    const char *zone = f->series[series].zone;
    size_t r = 0;

    while (r < f->n_region &&
           !(f->region[r].shock_prob > 0 && f->region[r].shock_prob < 1 &&
             !strcmp(f->region[r].instance_type, f->series[series].instance_type) &&
             strlen(f->region[r].region) == spot_region_length(zone) &&
             !strncmp(f->region[r].region, zone, spot_region_length(zone))))
        r++;
    return r;
}

static double normal(double z)
{
    return 0.5 * erfc(-z / sqrt(2));
}

/* The correlation (0 or more) of two normal variables that are both below their q-quantile with
 * probability `both`. The derivative of that probability with respect to the arcsine of the
 * correlation is exp(-z^2 / (1 + r)) / 2 pi. */
static double correlation_of(double q, double both)
{
    static const double step = 1e-3;
    double low = -9, high = 9, sum = q * q, angle = 0;

    while (high - low > 1e-9)
        *(normal((low + high) / 2) < q ? &low : &high) = (low + high) / 2;
    while (sum < both && angle < acos(0) - step) {
        sum += step * exp(-low * low / (1 + sin(angle + step / 2))) / (4 * acos(0));
        angle += step;
    }
    return sin(angle);
}

/* The correlation in a region whose zones are each lost with probability `loss` in an interval. */
static double alike_of(const struct spot_forecast_region *r, double loss)
{
    const double q = r->shock_prob, lift = fmin(fmin(r->loss_lift, 1 / loss), 1 / q),
                 calm = (1 - q * lift) / (1 - q);

    return correlation_of(loss, loss * loss * (q * lift * lift + (1 - q) * calm * calm));
}

void spot_fleet_alike(const struct spot_fleet_copula *copula, double *alike)
{
    const struct spot_forecast *f = copula->forecast;
    double *loss = spot_xcalloc(f->n_region + 1, sizeof(double)),
           *zones = spot_xcalloc(f->n_region + 1, sizeof(double));

    for (size_t i = 0; i < f->n_series; i++) {
        const size_t r = told_of(f, i);

        zones[r]++;
        for (size_t k = 0; k < f->series[i].n_change; k++)
            loss[r] += f->series[i].change[k].lost ? f->series[i].change[k].prob : 0;
    }
    for (size_t r = 0; r < f->n_region; r++) /* from here on the array holds correlations */
        loss[r] = zones[r] > 1 && loss[r] > 0
                      ? fmax(copula->all, alike_of(&f->region[r], fmin(loss[r] / zones[r], 0.999)))
                      : copula->region;
    loss[f->n_region] = copula->region;
    for (size_t i = 0; i < f->n_series; i++)
        alike[i] = loss[told_of(f, i)];
    free(loss);
    free(zones);
}

/* The minimum over the steps of the count at a rank in (0, 1). */
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
    double *alike = spot_xcalloc(f->n_series, sizeof(double)); /* correlation within its region */
    int32_t *count = spot_xcalloc(f->n_series, sizeof(*count));
    bool *is_refused = spot_xcalloc(f->n_series, sizeof(*is_refused));

    find_regions(f, region);
    spot_fleet_alike(copula, alike);
    for (size_t w = 0; w < n; w++) {
        struct spot_rng rng;
        double common;

        spot_rng_init(&rng, copula->seed, first + w);
        common = sqrt(copula->all) * spot_rng_normal(&rng);
        for (size_t i = 0; i < f->n_series; i++) {
            const double own = spot_rng_normal(&rng);
            double rank;

            if (region[i] == i)
                shared[i] = spot_rng_normal(&rng);
            rank = normal(common + sqrt(alike[i] - copula->all) * shared[region[i]] +
                          sqrt(1 - alike[i]) * own);
            count[i] = least_at(&f->series[i], steps, rank);
            is_refused[i] = f->series[i].start && rank < 1 - f->series[i].start->granted;
        }
        for (size_t k = 0; k < n_column; k++) {
            const int64_t held = copula->held ? copula->held[k] : 0;

            if (series[k] != SIZE_MAX)
                there[w * stride + k] = is_refused[series[k]] && held < count[series[k]]
                                            ? (int32_t)held
                                            : count[series[k]];
        }
    }
    free(alike);
    free(is_refused);
    free(region);
    free(shared);
    free(count);
}
