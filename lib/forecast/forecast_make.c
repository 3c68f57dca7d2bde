/* SPDX-License-Identifier: MIT */
#include "forecast/forecast_make.h"

#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "forecast/joint.h"
#include "forecast/pmf.h"
#include "forecast/regions.h"

static void fill_change(const struct spot_tracked *t, struct spot_forecast_series *out)
{
    const size_t room = ((size_t)t->cap + 1) * (SPOT_TURNOVER_MAX + 1);
    struct spot_joint_cell *cell = spot_xcalloc(room, sizeof(*cell));

    out->n_change = spot_joint(&t->turnover, out->prob, (int)out->now, t->cap, cell);
    out->change = spot_xcalloc(out->n_change, sizeof(*out->change));
    for (size_t i = 0; i < out->n_change; i++)
        out->change[i] =
            (struct spot_forecast_change){ cell[i].lost, cell[i].gained, cell[i].prob };
    free(cell);
}

static void forecast_series(const struct spot_tracked *t, size_t horizon, bool has_chain,
                            struct spot_forecast_series *out)
{
    const size_t width = (size_t)t->cap + 1;

    out->zone = t->zone;
    out->instance_type = t->instance_type;
    out->time_s = t->time_s;
    out->now = t->now;
    out->cap = t->cap;
    out->n_past = (int64_t)t->n;
    out->n_change_past = (int64_t)t->n_change;
    out->past_s = t->time_s - t->past.since_s;
    out->past_lost = t->past.lost;
    out->past_instance_s = t->past.instance_s;
    out->prob = spot_xcalloc(horizon * width, sizeof(*out->prob));
    out->mean = spot_xcalloc(horizon, sizeof(*out->mean));
    spot_predictor_predict(t->predictor, out->prob);
    for (size_t h = 0; h < horizon; h++)
        out->mean[h] = spot_pmf_mean(out->prob + h * width, t->cap);
    fill_change(t, out);
    if (!has_chain)
        return;
    out->chain = spot_xcalloc(1, sizeof(*out->chain));
    *out->chain = t->law;
}

/* Fill in the shocks of each series; they depend on all series of its type. */
static void fill_shocks(struct spot_forecast *forecast, const struct spot_neighbours *seen,
                        double interval_s)
{
    const size_t n = forecast->n_series;
    const struct spot_neighbours **of = spot_xcalloc(n + 1, sizeof(void *));
    struct spot_forecast_shock *shock = spot_xcalloc(n + 1, sizeof(*shock));

    for (size_t first = 0; first < n; first++) {
        size_t n_of = 0;

        if (forecast->series[first].shock)
            continue;
        for (size_t i = first; i < n; i++)
            if (!strcmp(forecast->series[i].instance_type, forecast->series[first].instance_type))
                of[n_of++] = &seen[i];
        spot_neighbours_law(of, n_of, interval_s, shock);
        for (size_t k = 0; k < n_of; k++) {
            struct spot_forecast_series *s = &forecast->series[of[k] - seen];

            s->shock = spot_xcalloc(1, sizeof(*s->shock));
            *s->shock = shock[k];
        }
    }
    free(of);
    free(shock);
}

/* Take in the new points of a grid; *newest must be released with drop_newest(). */
static struct spot_tracked *look(const struct spot_forecaster *model,
                                 const struct spot_fc_spec *spec, struct spot_trackeds *trackeds,
                                 const struct spot_count_grid *grid, struct spot_tracked *newest)
{
    struct spot_tracked *t = spot_trackeds_take(trackeds, model, *spec, grid);

    spot_tracked_look(t, model, *spec, grid, newest);
    return t;
}

static void drop_newest(const struct spot_tracked *t, struct spot_tracked *newest)
{
    if (newest->predictor != t->predictor)
        spot_predictor_free(newest->predictor);
}

void spot_forecast_make_shocks(struct spot_forecast *forecast, const struct spot_forecaster *model,
                               const struct spot_fc_spec *spec, struct spot_trackeds *trackeds,
                               const struct spot_count_grids *grids)
{
    struct spot_neighbours *seen = spot_xcalloc(grids->n + 1, sizeof(*seen));

    forecast->n_series = grids->n;
    forecast->series = spot_xcalloc(grids->n, sizeof(*forecast->series));
    for (size_t i = 0; i < grids->n; i++) {
        struct spot_tracked newest;
        struct spot_tracked *t = look(model, spec, trackeds, &grids->grid[i], &newest);

        seen[i] = newest.neighbours;
        forecast->series[i] = (struct spot_forecast_series){ .zone = newest.zone,
                                                             .instance_type = newest.instance_type,
                                                             .time_s = newest.time_s,
                                                             .now = newest.now };
        drop_newest(t, &newest);
    }
    fill_shocks(forecast, seen, grids->n ? grids->grid[0].interval_s : 1);
    free(seen);
}

/* Tables that are not kept are freed at once, so that those of many zones are not in memory
 * together. */
void spot_forecast_make(struct spot_forecast *forecast, const struct spot_forecaster *model,
                        const struct spot_fc_spec *spec, struct spot_trackeds *trackeds,
                        const struct spot_count_grids *grids, bool keeps, bool is_instances)
{
    struct spot_neighbours *seen = spot_xcalloc(grids->n + 1, sizeof(*seen));

    forecast->horizon = spec->horizon;
    forecast->n_series = grids->n;
    forecast->series = spot_xcalloc(grids->n, sizeof(*forecast->series));
    for (size_t i = 0; i < grids->n; i++) {
        struct spot_tracked newest;
        struct spot_tracked *t = look(model, spec, trackeds, &grids->grid[i], &newest);

        seen[i] = newest.neighbours;
        forecast_series(&newest, (size_t)spec->horizon, is_instances, &forecast->series[i]);
        drop_newest(t, &newest);
        if (keeps)
            continue;
        spot_predictor_free(t->predictor);
        t->predictor = NULL;
    }
    if (is_instances) {
        fill_shocks(forecast, seen, grids->n ? grids->grid[0].interval_s : 1);
        forecast->n_region = spot_regions_find(grids, &forecast->region);
    }
    free(seen);
}
