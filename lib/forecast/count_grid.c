/* SPDX-License-Identifier: MIT */
#include "forecast/count_grid.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "forecast/forecaster.h"
#include "forecast/tracked.h"

/* A row this part of an interval late still counts at its grid point: traces are written with
 * rounded times, and probes jitter. */
static const double SLACK = 0.05;

static void note_count(struct spot_count_grid *g, size_t cell, int count)
{
    const int fall = g->y[cell - 1] - count;

    g->lost[cell] = fall > g->lost[cell] ? fall : g->lost[cell];
    if (g->is_unsettled && cell == g->n - 1 && count < g->lowest)
        g->lowest = count;
}

/* Changes inside an interval cancel out in the counts, but not in the rows. lost: how far the count
 * fell below that at the start of the interval; gained: how far it rose again afterwards. */
static void find_flows(const struct spot_trace_series *series, const struct spot_tracked *known,
                       struct spot_count_grid *g)
{
    g->newest = known ? known->newest : 0;
    if (series && (!known || series->time_s[series->n - 1] >= known->time_s))
        g->newest = series->available[series->n - 1];
    g->lowest = g->newest;
    for (size_t i = 1; i < g->n; i++)
        g->lost[i] = g->y[i] < g->y[i - 1] ? g->y[i - 1] - g->y[i] : 0;
    if (known && known->n && g->n > 1)
        note_count(g, 1, known->lowest);
    for (size_t i = 0; series && i < series->n; i++) {
        const double at = ceil((series->time_s[i] - g->start_s) / g->interval_s - SLACK);

        if (at >= 1 && at < (double)g->n)
            note_count(g, (size_t)at, series->available[i]);
    }
    for (size_t i = 1; i < g->n; i++)
        g->gained[i] = g->y[i] - g->y[i - 1] + g->lost[i];
}

static int latest_requested(const struct spot_trace_series *series)
{
    for (size_t i = series->n; series->requested && i > 0; i--)
        if (series->requested[i - 1] >= 0)
            return series->requested[i - 1];
    return -1;
}

static int choose_cap(const struct spot_count_grid_ask *ask, const struct spot_trace_series *series,
                      const struct spot_count_grid *g, const struct spot_tracked *known)
{
    const int now = g->y[g->n - 1], requested = series ? latest_requested(series) : -1;
    int cap = requested > now ? requested : now;

    if (ask->cap)
        return ask->cap;
    if (requested < 0 && known && known->cap > cap)
        cap = known->cap;
    for (size_t i = 0; requested < 0 && i < g->n; i++)
        cap = g->y[i] > cap ? g->y[i] : cap;
    return cap;
}

static int check_cap(const struct spot_count_grid *g, struct spot_err *err)
{
    if (g->cap <= SPOT_FC_CAP_MAX)
        return 0;
    return spot_err_set(err, SPOT_EDATA,
                        "series %s: a count of %d is beyond the limit of %d; give --cap", g->label,
                        g->cap, SPOT_FC_CAP_MAX);
}

/* Limit the counts to 0..cap, and record what that changed. */
static void finish(struct spot_count_grid *g)
{
    for (size_t i = 0; i < g->n; i++) {
        g->n_clipped += g->y[i] > g->cap;
        g->y[i] = g->y[i] > g->cap ? g->cap : g->y[i];
        g->n_change += i && g->y[i] != g->y[i - 1];
    }
}

/* Set the beginning of the grid and its number of points. It begins with the first row, so that
 * calls that keep a state and one call over everything use the same points; rows after the last
 * whole interval form a separate point. */
static void place(struct spot_count_grid *g, double first_s, double end_s, bool is_whole)
{
    const double slack_s = SLACK * g->interval_s;

    g->n =
        end_s + slack_s < first_s ? 1 : spot_trace_grid_n(first_s, end_s + slack_s, g->interval_s);
    g->start_s = first_s;
    g->end_s = end_s;
    g->is_open = !is_whole && end_s - (first_s + (double)(g->n - 1) * g->interval_s) > slack_s;
    g->n += g->is_open;
}

static void fill(struct spot_count_grid *g, const struct spot_trace_series *series,
                 const struct spot_tracked *known)
{
    g->y = spot_xcalloc(g->n, sizeof(*g->y));
    g->lost = spot_xcalloc(g->n, sizeof(*g->lost));
    g->gained = spot_xcalloc(g->n, sizeof(*g->gained));
    if (series)
        spot_trace_resample(series, g->start_s + SLACK * g->interval_s, g->interval_s, g->n, g->y);
    for (size_t i = 0; known && i < g->n; i++)
        if (!i && known->n)
            g->y[i] = known->now;
        else if (!series || g->start_s + ((double)i + SLACK) * g->interval_s < series->time_s[0])
            g->y[i] = known->newest;
}

/* Warn if a peak between two grid points appears in no count that the models see. */
static void warn_of_peak(const struct spot_count_grid_ask *ask,
                         const struct spot_trace_series *series, const struct spot_count_grid *g)
{
    if (series && !ask->cap && latest_requested(series) < 0 && spot_trace_peak(series) > g->cap)
        ask->warn("series %s: there were %d instances between two points of %g s, %d at the "
                  "most on them, which is taken as the cap; --cap %d says otherwise",
                  g->label, (int)spot_trace_peak(series), g->interval_s, g->cap,
                  (int)spot_trace_peak(series));
}

/* `series` or `known` may be NULL, but not both. */
static int make_grid(const struct spot_count_grid_ask *ask, const struct spot_trace *trace,
                     const struct spot_trace_series *series, const struct spot_tracked *known,
                     struct spot_count_grid *g, struct spot_err *err)
{
    const struct spot_trace_series named = { .zone = known ? known->zone : NULL,
                                             .instance_type = known ? known->instance_type : NULL };
    const struct spot_trace_series *names = series ? series : &named;
    char label[SPOT_TRACE_LABEL];
    double first_s = 0;

    g->zone = spot_xstrdup(names->zone);
    g->instance_type = spot_xstrdup(names->instance_type);
    g->label = spot_xstrdup(spot_trace_label(names, label));
    g->interval_s = ask->interval_s;
    if (series)
        first_s = series->time_s[0];
    if (known)
        first_s = known->time_s;
    place(g, first_s, trace->end_s, ask->is_whole);
    g->is_unsettled = !ask->is_whole && !(known && known->n && g->n == 1);
    fill(g, series, known);
    g->cap = choose_cap(ask, series, g, known);
    g->has_cap = ask->cap || (series && latest_requested(series) >= 0);
    if (check_cap(g, err))
        return -1;
    warn_of_peak(ask, series, g);
    finish(g);
    find_flows(series, known, g);
    if (g->n_clipped)
        ask->warn("series %s: %zu of %zu intervals are above the cap and count as %d", g->label,
                  g->n_clipped, g->n, g->cap);
    return 0;
}

/* Check all grids before memory is allocated for the first one. */
static int check_grids(const struct spot_count_grid_ask *ask, const struct spot_trace *trace,
                       const struct spot_trackeds *known, struct spot_err *err)
{
    double n = 0;

    for (size_t i = 0; i < trace->n_series; i++)
        n += 2 + fmax(trace->end_s - trace->series[i].time_s[0], 0) / ask->interval_s;
    for (size_t i = 0; known && i < known->n; i++)
        n += 2 + fmax(trace->end_s - known->series[i].time_s, 0) / ask->interval_s;
    return spot_trace_check_grid(trace, n, ask->interval_s, SPOT_TRACE_GRID_MAX,
                                 "a larger --interval, or fewer rows", err);
}

static int by_name(const void *a, const void *b)
{
    const struct spot_count_grid *x = a, *y = b;
    const int zone = strcmp(x->zone, y->zone);

    return zone ? zone : strcmp(x->instance_type, y->instance_type);
}

static const struct spot_trace_series *find_series(const struct spot_trace *trace,
                                                   const struct spot_tracked *t)
{
    for (size_t i = 0; i < trace->n_series; i++)
        if (!strcmp(trace->series[i].zone, t->zone) &&
            !strcmp(trace->series[i].instance_type, t->instance_type))
            return &trace->series[i];
    return NULL;
}

int spot_count_grids_make(struct spot_count_grids *grids, const struct spot_count_grid_ask *ask,
                          const struct spot_trace *trace, const struct spot_trackeds *known,
                          struct spot_err *err)
{
    const size_t n_known = known ? known->n : 0;
    int rc = 0;

    memset(grids, 0, sizeof(*grids));
    if (check_grids(ask, trace, known, err))
        return -1;
    grids->grid = spot_xcalloc(trace->n_series + n_known, sizeof(*grids->grid));
    for (size_t i = 0; i < trace->n_series && !rc; i++) {
        const struct spot_trace_series *s = &trace->series[i];

        rc = make_grid(ask, trace, s,
                       n_known ? spot_trackeds_find(known, s->zone, s->instance_type) : NULL,
                       &grids->grid[grids->n++], err);
    }
    for (size_t i = 0; i < n_known && !rc; i++)
        if (!find_series(trace, &known->series[i]))
            rc = make_grid(ask, trace, NULL, &known->series[i], &grids->grid[grids->n++], err);
    if (rc) {
        spot_count_grids_release(grids);
        return rc;
    }
    qsort(grids->grid, grids->n, sizeof(*grids->grid), by_name);
    return 0;
}

void spot_count_grids_release(struct spot_count_grids *grids)
{
    for (size_t i = 0; i < grids->n; i++) {
        struct spot_count_grid *g = &grids->grid[i];

        free(g->zone);
        free(g->instance_type);
        free(g->label);
        free(g->y);
        free(g->lost);
        free(g->gained);
    }
    free(grids->grid);
    memset(grids, 0, sizeof(*grids));
}
