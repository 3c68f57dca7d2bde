/* SPDX-License-Identifier: MIT */
#include "plan/change_dist.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "trace/region.h"

/* less likely cells are dropped and their probability is shared out */
static const double NEGLIGIBLE = 1e-9;

/* out[a + b] += x[a] * y[b]: the distribution of a sum. */
static double *sum_dist(const double *x, int n_x, const double *y, int n_y)
{
    double *out = spot_xcalloc((size_t)n_x + (size_t)n_y + 1, sizeof(*out));

    for (int a = 0; a <= n_x; a++)
        for (int b = 0; x[a] > 0 && b <= n_y; b++)
            out[a + b] += x[a] * y[b];
    return out;
}

int spot_change_compare(const void *a, const void *b)
{
    const struct spot_change *x = a, *y = b;

    return x->lost != y->lost ? (x->lost > y->lost) - (x->lost < y->lost)
                              : (x->gained > y->gained) - (x->gained < y->gained);
}

/* A joint distribution of (lost, gained). */
struct cells {
    struct spot_change *cell;
    size_t n;
};

/* Sort, join equal cells, drop negligible ones, and normalise. */
static void tidy(struct cells *c)
{
    size_t n = 0;
    double sum = 0;

    qsort(c->cell, c->n, sizeof(*c->cell), spot_change_compare);
    for (size_t i = 0; i < c->n; i++) {
        if (n && !spot_change_compare(&c->cell[n - 1], &c->cell[i]))
            c->cell[n - 1].prob += c->cell[i].prob;
        else
            c->cell[n++] = c->cell[i];
    }
    c->n = n;
    n = 0;
    for (size_t i = 0; i < c->n; i++)
        if (c->cell[i].prob >= NEGLIGIBLE) {
            sum += c->cell[i].prob;
            c->cell[n++] = c->cell[i];
        }
    c->n = n;
    for (size_t i = 0; i < n; i++)
        c->cell[i].prob /= sum;
}

/* Replace *a by the distribution of the sum of both, the convolution. */
static void add_cells(struct cells *a, const struct cells *b)
{
    struct cells sum = { spot_xcalloc(a->n * b->n, sizeof(*sum.cell)), 0 };

    for (size_t i = 0; i < a->n; i++)
        for (size_t j = 0; j < b->n; j++)
            sum.cell[sum.n++] = (struct spot_change){ a->cell[i].lost + b->cell[j].lost,
                                                      a->cell[i].gained + b->cell[j].gained,
                                                      a->cell[i].prob * b->cell[j].prob };
    free(a->cell);
    *a = sum;
    tidy(a);
}

/* The distribution of no change. */
static struct cells nothing(void)
{
    struct cells c = { spot_xcalloc(1, sizeof(*c.cell)), 1 };

    c.cell[0].prob = 1;
    return c;
}

/* --- zones of a region lose together --- */

/* The changes of a zone if losses are `lift` times as likely as in its series. */
static struct cells lifted(const struct spot_forecast_series *series, double loss, double lift)
{
    const double rest = loss < 1 ? (1 - loss * lift) / (1 - loss) : 1;
    struct cells c = { spot_xcalloc(series->n_change, sizeof(*c.cell)), series->n_change };

    for (size_t i = 0; i < c.n; i++) {
        const struct spot_forecast_change *x = &series->change[i];

        c.cell[i] =
            (struct spot_change){ x->lost, x->gained, x->prob * (x->lost ? lift : fmax(rest, 0)) };
    }
    tidy(&c);
    return c;
}

/* The changes of a zone with or without a shock. In neither case may the probability of a loss
 * exceed 1; if the lift must be limited for that, the other case is adjusted so that the
 * distribution of the zone stays the same. */
static struct cells zone_given(const struct spot_forecast_series *series,
                               const struct spot_forecast_region *region, bool is_shock)
{
    const double q = region->shock_prob;
    double loss = 0, lift = 1, calm;

    for (size_t i = 0; i < series->n_change; i++)
        loss += series->change[i].lost ? series->change[i].prob : 0;
    if (loss > 0) {
        lift = fmax(region->loss_lift, (1 - (1 - q) / loss) / q);
        lift = fmin(lift, 1 / loss);
    }
    calm = (1 - q * lift) / (1 - q);
    return lifted(series, loss, is_shock ? lift : calm);
}

static bool is_in(const struct spot_forecast_series *series,
                  const struct spot_forecast_region *region)
{
    size_t n = spot_region_length(series->zone);

    n = n < sizeof(region->region) ? n : sizeof(region->region) - 1; /* names are truncated there */
    return n == strlen(region->region) && !strncmp(series->zone, region->region, n) &&
           !strcmp(series->instance_type, region->instance_type);
}

/* The region whose shocks affect this series, or NULL. */
static const struct spot_forecast_region *region_of(const struct spot_forecast *forecast,
                                                    const struct spot_forecast_series *series)
{
    for (size_t i = 0; i < forecast->n_region; i++) {
        const struct spot_forecast_region *r = &forecast->region[i];

        if (r->shock_prob > 0 && r->shock_prob < 1 && is_in(series, r))
            return r;
    }
    return NULL;
}

/* Add all zones of a region to *distribution: their changes with a shock and without, mixed. */
static void add_region(struct cells *dist, const struct spot_forecast *forecast,
                       const struct spot_forecast_region *region)
{
    struct cells mix = { NULL, 0 };

    for (int is_shock = 0; is_shock < 2; is_shock++) {
        const double weight = is_shock ? region->shock_prob : 1 - region->shock_prob;
        struct cells all = nothing();

        for (size_t i = 0; i < forecast->n_series; i++) {
            struct cells zone;

            if (region_of(forecast, &forecast->series[i]) != region)
                continue;
            zone = zone_given(&forecast->series[i], region, is_shock);
            add_cells(&all, &zone);
            free(zone.cell);
        }
        mix.cell = spot_xrealloc(mix.cell, mix.n + all.n, sizeof(*mix.cell));
        for (size_t i = 0; i < all.n; i++) {
            mix.cell[mix.n] = all.cell[i];
            mix.cell[mix.n++].prob *= weight;
        }
        free(all.cell);
    }
    add_cells(dist, &mix); /* joins equal cells of the two cases */
    free(mix.cell);
}

static void add_changes(struct spot_change_dist *dist, const struct spot_forecast *forecast)
{
    struct cells all = nothing();

    for (size_t i = 0; i < forecast->n_region; i++)
        add_region(&all, forecast, &forecast->region[i]);
    for (size_t i = 0; i < forecast->n_series; i++) {
        struct cells zone;

        if (region_of(forecast, &forecast->series[i]))
            continue;
        zone = lifted(&forecast->series[i], 0, 1);
        add_cells(&all, &zone);
        free(zone.cell);
    }
    free(dist->change);
    dist->change = all.cell;
    dist->n_change = all.n;
}

/* Add the counts of a series to those of dist. */
static int add_series(struct spot_change_dist *dist, const struct spot_forecast_series *series,
                      struct spot_err *err)
{
    const int cap = dist->cap + (int)series->cap;
    double *count;

    if (series->cap > SPOT_CHANGE_COUNT_MAX - dist->cap)
        return spot_err_set(err, SPOT_EDATA, "the forecast has more than %d instances",
                            SPOT_CHANGE_COUNT_MAX);
    if (!series->n_change)
        return spot_err_set(err, SPOT_EDATA, "the forecast lacks the distribution 'change'");
    count = spot_xcalloc((size_t)dist->horizon * (size_t)(cap + 1), sizeof(*count));
    for (int h = 0; h < dist->horizon; h++) {
        double *sum = sum_dist(dist->count + (size_t)h * (size_t)(dist->cap + 1), dist->cap,
                               spot_forecast_at(series, h + 1), (int)series->cap);

        memcpy(count + (size_t)h * (size_t)(cap + 1), sum, (size_t)(cap + 1) * sizeof(*sum));
        free(sum);
    }
    free(dist->count);
    dist->count = count;
    dist->cap = cap;
    dist->now += (int)series->now;
    return 0;
}

/* Set the distribution of the count after the first step from that of the changes, which accounts
 * for regions. */
static void first_step(struct spot_change_dist *dist)
{
    memset(dist->count, 0, ((size_t)dist->cap + 1) * sizeof(*dist->count));
    for (size_t i = 0; i < dist->n_change; i++)
        dist->count[dist->now - dist->change[i].lost + dist->change[i].gained] +=
            dist->change[i].prob;
}

/* If the known count differs from that of the forecast, apply the same changes to it. */
static void move_to(struct spot_change_dist *dist, int now)
{
    const int cap = dist->cap > now ? dist->cap : now, shift = now - dist->now;
    double *count = spot_xcalloc((size_t)dist->horizon * (size_t)(cap + 1), sizeof(*count));
    struct cells moved;

    for (int h = 0; h < dist->horizon; h++)
        for (int n = 0; n <= dist->cap; n++) {
            const int to = n + shift < 0 ? 0 : n + shift > cap ? cap : n + shift;

            count[(size_t)h * (size_t)(cap + 1) + (size_t)to] +=
                dist->count[(size_t)h * (size_t)(dist->cap + 1) + (size_t)n];
        }
    free(dist->count);
    dist->count = count;
    dist->cap = cap;
    dist->now = now;
    for (size_t i = 0; i < dist->n_change; i++) {
        struct spot_change *c = &dist->change[i];

        c->lost = c->lost > now ? now : c->lost;
        c->gained = c->gained > cap - now + c->lost ? cap - now + c->lost : c->gained;
    }
    moved = (struct cells){ dist->change, dist->n_change };
    tidy(&moved);
    dist->n_change = moved.n;
}

void spot_change_dist_still(struct spot_change_dist *dist, int now, double interval_s, int horizon)
{
    *dist = (struct spot_change_dist){
        .now = now, .cap = now, .interval_s = interval_s, .horizon = horizon, .n_change = 1
    };
    dist->change = spot_xcalloc(1, sizeof(*dist->change));
    dist->change[0].prob = 1;
    dist->count = spot_xcalloc((size_t)horizon * (size_t)(now + 1), sizeof(*dist->count));
    for (int h = 0; h < horizon; h++)
        dist->count[(size_t)h * (size_t)(now + 1) + (size_t)now] = 1;
}

int spot_change_dist_init(struct spot_change_dist *dist, const struct spot_forecast *forecast,
                          int now, struct spot_err *err)
{
    spot_change_dist_still(dist, 0, forecast->interval_s, (int)forecast->horizon);
    if (!forecast->n_series) {
        spot_change_dist_release(dist);
        return spot_err_set(err, SPOT_EDATA, "the forecast has no series");
    }
    for (size_t i = 0; i < forecast->n_series; i++)
        if (add_series(dist, &forecast->series[i], err)) {
            spot_change_dist_release(dist);
            return -1;
        }
    add_changes(dist, forecast);
    if (forecast->n_region)
        first_step(dist);
    if (now >= 0 && now != dist->now)
        move_to(dist, now);
    dist->law = forecast->n_series == 1 ? forecast->series[0].chain : NULL;
    return 0;
}

void spot_change_dist_release(struct spot_change_dist *dist)
{
    free(dist->change);
    free(dist->count);
    memset(dist, 0, sizeof(*dist));
}
