/* SPDX-License-Identifier: MIT */
#include "sim/seen.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "forecast/forecast_make.h"
#include "sim/train_sim.h"

enum { HORIZON = 12 }; /* as in spot-predict */
/* As in count_grid.c: a row late by this part of an interval still counts at its point. */
static const double slack = 0.05;

/* A series on the grid of the rows seen so far: points that no later row can change are kept. */
struct series {
    const struct spot_trace_series *of;
    size_t n_row;     /* rows seen */
    size_t n_settled; /* points that are settled */
    size_t row, flow; /* first row, and first flow, after the settled points */
    int most;         /* maximum of the settled points */
    int *y, *lost, *gained;
    size_t cap_y, cap_lost, cap_gained;
};

struct spot_seen_trace {
    double tick_s;
    const struct spot_job_doc *job;
    struct series *series; /* [n] */
    size_t n;
    struct spot_count_grids grids; /* with room for n */
    struct spot_trackeds trackeds;
    const struct spot_forecaster *model;
    struct spot_fc_spec spec;
    struct spot_forecast forecast;
    int *cap; /* [n] what was requested one tick ago, if the trace says so; else 0 */
};

static struct spot_seen_trace *open_trace(const struct spot_trace *trace, double tick_s,
                                          int horizon, const struct spot_job_doc *job,
                                          const char *model)
{
    struct spot_seen_trace *s = spot_xcalloc(1, sizeof(*s));
    struct spot_err err;

    horizon = horizon > HORIZON || job ? horizon : HORIZON;
    *s = (struct spot_seen_trace){
        .tick_s = tick_s,
        .job = job,
        .n = trace->n_series,
        .spec = { .horizon = horizon < SPOT_FC_HORIZON_MAX ? horizon : SPOT_FC_HORIZON_MAX,
                  .day = 86400 / tick_s },
    };
    s->model = spot_forecaster_find(model, &s->spec, &err);
    s->series = spot_xcalloc(s->n, sizeof(*s->series));
    s->cap = spot_xcalloc(s->n, sizeof(*s->cap));
    s->grids.grid = spot_xcalloc(s->n, sizeof(*s->grids.grid));
    for (size_t k = 0; k < s->n; k++)
        s->series[k].of = &trace->series[k];
    return s;
}

struct spot_seen_trace *spot_seen_new(const struct spot_trace *trace, double tick_s, int horizon,
                                      const struct spot_job_doc *job)
{
    return open_trace(trace, tick_s, horizon, job, "pool");
}

struct spot_seen_trace *spot_seen_new_shocks(const struct spot_trace *trace, double tick_s)
{
    return open_trace(trace, tick_s, 1, NULL, "last");
}

void spot_seen_free(struct spot_seen_trace *s)
{
    if (!s)
        return;
    spot_forecast_release(&s->forecast);
    spot_trackeds_release(&s->trackeds);
    for (size_t k = 0; k < s->n; k++) {
        free(s->series[k].y);
        free(s->series[k].lost);
        free(s->series[k].gained);
    }
    free(s->series);
    free(s->cap);
    free(s->grids.grid);
    free(s);
}

/* --- the grid of a series up to now: as count_grid.c computes it from the rows seen --- */

static void place(struct series *s, double tick_s, double now_s, struct spot_count_grid *g)
{
    const double slack_s = slack * tick_s;

    *g = (struct spot_count_grid){ .zone = s->of->zone,
                                   .instance_type = s->of->instance_type,
                                   .label = s->of->zone,
                                   .start_s = s->of->time_s[0],
                                   .interval_s = tick_s,
                                   .end_s = now_s };
    g->n = spot_trace_grid_n(g->start_s, now_s + slack_s, tick_s);
    g->is_open = now_s - (g->start_s + (double)(g->n - 1) * tick_s) > slack_s;
    g->n += g->is_open;
}

/* The interval that a row belongs to. */
static double cell_of(const struct spot_count_grid *g, double time_s)
{
    return ceil((time_s - g->start_s) / g->interval_s - slack);
}

/* Compute point i from the rows so far, and advance s->row and s->flow. */
static void fill(struct series *s, const struct spot_count_grid *g, size_t i, int cap)
{
    const double at_s = g->start_s + slack * g->interval_s + (double)i * g->interval_s;

    while (s->row < s->n_row && s->of->time_s[s->row] <= at_s)
        s->row++;
    s->y[i] = s->row ? s->of->available[s->row - 1] : 0;
    s->y[i] = s->y[i] < cap ? s->y[i] : cap;
    s->lost[i] = i && s->y[i] < s->y[i - 1] ? s->y[i - 1] - s->y[i] : 0;
    for (; s->flow < s->n_row && cell_of(g, s->of->time_s[s->flow]) <= (double)i; s->flow++) {
        const int fall = i ? s->y[i - 1] - s->of->available[s->flow] : 0;

        s->lost[i] = fall > s->lost[i] ? fall : s->lost[i];
    }
    s->gained[i] = i ? s->y[i] - s->y[i - 1] + s->lost[i] : 0;
}

/* True if no later row can affect point i. */
static bool is_settled(const struct spot_count_grid *g, size_t i, double now_s)
{
    return g->start_s + ((double)i + slack) * g->interval_s < now_s;
}

static void settle(struct series *s, const struct spot_count_grid *g, double now_s)
{
    for (; s->n_settled < g->n && is_settled(g, s->n_settled, now_s); s->n_settled++) {
        fill(s, g, s->n_settled, INT_MAX);
        s->most = s->y[s->n_settled] > s->most ? s->y[s->n_settled] : s->most;
    }
}

/* Compute the points that are not settled; rows of settled points are not read again. */
static int fill_rest(struct series *s, const struct spot_count_grid *g)
{
    const size_t row = s->row, flow = s->flow;
    int most = s->most;

    for (size_t i = s->n_settled; i < g->n; i++) {
        fill(s, g, i, INT_MAX);
        most = s->y[i] > most ? s->y[i] : most;
    }
    s->row = row;
    s->flow = flow;
    return most;
}

/* Recompute all points, clipped at the new cap. */
static void cut(struct series *s, const struct spot_count_grid *g)
{
    s->row = s->flow = s->n_settled = 0;
    for (size_t i = 0; i < g->n; i++)
        fill(s, g, i, g->cap);
    s->row = s->flow = 0;
    s->most = 0;
}

static int asked_for(const struct series *s)
{
    for (size_t i = s->n_row; s->of->requested && i > 0; i--)
        if (s->of->requested[i - 1] >= 0)
            return s->of->requested[i - 1];
    return -1;
}

static void look(struct spot_seen_trace *t, size_t k, double now_s, struct spot_count_grid *g)
{
    struct series *s = &t->series[k];
    const int asked = t->job ? -1 : asked_for(s);

    place(s, t->tick_s, now_s, g);
    s->y = spot_xgrow(s->y, &s->cap_y, g->n, sizeof(*s->y));
    s->lost = spot_xgrow(s->lost, &s->cap_lost, g->n, sizeof(*s->lost));
    s->gained = spot_xgrow(s->gained, &s->cap_gained, g->n, sizeof(*s->gained));
    settle(s, g, now_s);
    g->cap = fill_rest(s, g);
    if (t->job && t->n == 1)
        g->cap = spot_sim_cap(t->job, g->cap);
    if (asked >= 0)
        g->cap = asked > s->y[g->n - 1] ? asked : s->y[g->n - 1];
    g->has_cap = asked >= 0;
    g->cap = g->cap < SPOT_FC_CAP_MAX ? g->cap : SPOT_FC_CAP_MAX;
    if (g->has_cap || g->cap == SPOT_FC_CAP_MAX)
        cut(s, g);
    if (g->has_cap && t->cap[k] != g->cap)
        spot_trackeds_release(&t->trackeds); /* what was learned is for other counts */
    t->cap[k] = g->has_cap ? g->cap : 0;
    g->y = s->y, g->lost = s->lost, g->gained = s->gained;
    /* a row within the slack can still change the newest point, so that point stays open */
    g->is_unsettled = g->is_open || (s->n_row < s->of->n &&
                                     cell_of(g, s->of->time_s[s->n_row]) <= (double)(g->n - 1));
}

/* Compute the grids of the rows up to a time; false: there is none. of (NULL: not wanted) as in
 * seen.h. */
static bool look_all(struct spot_seen_trace *t, double time_s, size_t *of)
{
    t->grids.n = 0;
    for (size_t k = 0; k < t->n; k++) {
        struct series *s = &t->series[k];

        while (s->n_row < s->of->n && s->of->time_s[s->n_row] <= time_s)
            s->n_row++;
        if (!s->n_row)
            continue;
        if (of)
            of[t->grids.n] = k;
        look(t, k, time_s, &t->grids.grid[t->grids.n++]);
    }
    if (!t->grids.n)
        return false;
    spot_forecast_release(&t->forecast);
    t->forecast = (struct spot_forecast){ .interval_s = t->tick_s, .model = t->model->name };
    return true;
}

const struct spot_forecast *spot_seen_at(struct spot_seen_trace *t, double time_s, size_t *of)
{
    if (!look_all(t, time_s, of))
        return NULL;
    spot_forecast_make(&t->forecast, t->model, &t->spec, &t->trackeds, &t->grids, true, true);
    return &t->forecast;
}

const struct spot_forecast *spot_seen_shocks_at(struct spot_seen_trace *t, double time_s)
{
    if (!look_all(t, time_s, NULL))
        return NULL;
    spot_forecast_make_shocks(&t->forecast, t->model, &t->spec, &t->trackeds, &t->grids);
    return &t->forecast;
}

void spot_seen_counts(const int32_t *count, const char *const *zone, const char *const *type,
                      size_t n_zone, size_t n_tick, double tick_s, struct spot_trace *trace)
{
    *trace = (struct spot_trace){ .n_series = n_zone, .end_s = (double)(n_tick - 1) * tick_s };
    trace->series = spot_xcalloc(n_zone, sizeof(*trace->series));
    for (size_t z = 0; z < n_zone; z++) {
        struct spot_trace_series *s = &trace->series[z];

        *s = (struct spot_trace_series){
            .zone = spot_xstrdup(zone[z]),
            .instance_type = spot_xstrdup(type ? type[z] : ""),
            .n = n_tick,
            .time_s = spot_xcalloc(n_tick, sizeof(*s->time_s)),
            .available = spot_xcalloc(n_tick, sizeof(*s->available)),
        };
        for (size_t t = 0; t < n_tick; t++) {
            s->time_s[t] = (double)t * tick_s;
            s->available[t] = count[t * n_zone + z];
        }
    }
}
