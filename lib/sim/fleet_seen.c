/* SPDX-License-Identifier: MIT */
#include "sim/fleet_seen.h"

#include <stdlib.h>

#include "common/xalloc.h"
#include "forecast/forecast_make.h"

struct spot_fleet_seen {
    size_t n_tick, n; /* of them observed */
    struct spot_count_grids grids;
    int *y; /* [n_zone][3][n_tick] */
    struct spot_trackeds trackeds;
    const struct spot_forecaster *model;
    struct spot_fc_spec spec;
    struct spot_forecast forecast;
};

struct spot_fleet_seen *spot_fleet_seen_new(const char *const *zone, const char *const *type,
                                            size_t n_zone, size_t n_tick, double tick_s,
                                            int horizon)
{
    struct spot_fleet_seen *s = spot_xcalloc(1, sizeof(*s));
    struct spot_err err;

    s->n_tick = n_tick;
    s->spec = (struct spot_fc_spec){
        .horizon = horizon < SPOT_FC_HORIZON_MAX ? horizon : SPOT_FC_HORIZON_MAX,
        .day = 86400 / tick_s,
    };
    s->model = spot_forecaster_find("pool", &s->spec, &err);
    s->grids = (struct spot_count_grids){ n_zone, spot_xcalloc(n_zone, sizeof(*s->grids.grid)) };
    s->y = spot_xcalloc(n_zone, 3 * n_tick * sizeof(*s->y));
    for (size_t z = 0; z < n_zone; z++) {
        struct spot_count_grid *g = &s->grids.grid[z];

        *g = (struct spot_count_grid){ .zone = spot_xstrdup(zone[z]),
                                       .instance_type = spot_xstrdup(type ? type[z] : ""),
                                       .interval_s = tick_s,
                                       .y = s->y + 3 * z * n_tick };
        g->label = g->zone;
        g->lost = g->y + n_tick;
        g->gained = g->lost + n_tick;
    }
    return s;
}

void spot_fleet_seen_free(struct spot_fleet_seen *s)
{
    spot_forecast_release(&s->forecast);
    spot_trackeds_release(&s->trackeds);
    for (size_t z = 0; z < s->grids.n; z++) {
        free(s->grids.grid[z].zone);
        free(s->grids.grid[z].instance_type);
    }
    free(s->grids.grid);
    free(s->y);
    free(s);
}

const struct spot_forecast *spot_fleet_seen_step(struct spot_fleet_seen *s, const int32_t *room)
{
    for (size_t z = 0; z < s->grids.n; z++) {
        struct spot_count_grid *g = &s->grids.grid[z];
        const int now = room[z] < SPOT_FC_CAP_MAX ? room[z] : SPOT_FC_CAP_MAX;
        const int change = s->n ? now - g->y[s->n - 1] : 0;

        g->y[s->n] = now;
        g->lost[s->n] = change < 0 ? -change : 0;
        g->gained[s->n] = change > 0 ? change : 0;
        g->cap = now > g->cap ? now : g->cap;
        g->n = s->n + 1;
    }
    s->n++;
    spot_forecast_release(&s->forecast);
    s->forecast =
        (struct spot_forecast){ .interval_s = s->grids.grid[0].interval_s, .model = "pool" };
    spot_forecast_make(&s->forecast, s->model, &s->spec, &s->trackeds, &s->grids, true, true);
    return &s->forecast;
}
