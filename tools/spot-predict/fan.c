/* SPDX-License-Identifier: MIT */
#include "predict.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "forecast/pmf.h"

/* The distribution in shades of one colour, darker where more likely; past and observed values are
 * in contrast. */
static const char PALE[] = "#c6dcec", MIDDLE[] = "#85b6d9", DARK[] = "#00598c";
static const char BLACK[] = "#000000", RED[] = "#d55e00";

enum { ROWS = 7 }; /* time, 5, 25, 50, 75, 95 %, observed */

/* Hours since the start of the trace at step h after the origin. */
static double hours(const struct spot_count_grid *g, size_t origin, int h)
{
    return (g->start_s + ((double)origin + h) * g->interval_s) / 3600;
}

static void fill_quantiles(const struct spot_count_grid *g, size_t origin, const double *prob,
                           int horizon, double *row[ROWS])
{
    static const double level[] = { 0.05, 0.25, 0.5, 0.75, 0.95 };

    for (int h = 0; h <= horizon; h++) {
        row[0][h] = hours(g, origin, h);
        for (int q = 0; q < 5; q++)
            row[1 + q][h] = h ? spot_pmf_quantile(prob + (size_t)(h - 1) * ((size_t)g->cap + 1),
                                                  g->cap, level[q])
                              : g->y[origin];
    }
}

void fan_make(struct fan *fan, const struct spot_count_grid *g, size_t origin, const double *prob,
              int horizon, const char *model)
{
    const size_t n = (size_t)horizon + 1, n_past = origin < FAN_PAST ? origin + 1 : FAN_PAST;
    const size_t n_after =
        g->n - 1 - origin < (size_t)horizon ? g->n - 1 - origin : (size_t)horizon;
    double *row[ROWS], *past_x, *past_y;

    fan->data = spot_xcalloc(ROWS * n + 2 * n_past, sizeof(*fan->data));
    for (int i = 0; i < ROWS; i++)
        row[i] = fan->data + (size_t)i * n;
    past_x = fan->data + ROWS * n;
    past_y = past_x + n_past;
    fill_quantiles(g, origin, prob, horizon, row);
    for (size_t i = 0; i < n_past; i++) {
        past_x[i] = hours(g, origin + 1 - n_past + i, 0);
        past_y[i] = g->y[origin + 1 - n_past + i];
    }
    for (size_t h = 0; h <= n_after; h++)
        row[6][h] = g->y[origin + h];
    fan->series[0] =
        (struct spot_series){ "90 %", SPOT_SERIES_BAND, n, row[0], row[1], row[5], 0, PALE };
    fan->series[1] =
        (struct spot_series){ "50 %", SPOT_SERIES_BAND, n, row[0], row[2], row[4], 0, MIDDLE };
    fan->series[2] =
        (struct spot_series){ "median", SPOT_SERIES_STEP, n, row[0], row[3], NULL, 2, DARK };
    fan->series[3] =
        (struct spot_series){ "known", SPOT_SERIES_STEP, n_past, past_x, past_y, NULL, 2, BLACK };
    fan->series[4] =
        (struct spot_series){ "what came", SPOT_SERIES_DOT, n_after + 1, row[0], row[6], NULL, 1,
                              RED };
    snprintf(fan->title, sizeof(fan->title),
             "%.60s: %d now, 50 %% between %.0f and %.0f after %d steps (%.30s)",
             strcmp(g->label, "-") != 0 ? g->label : "instances", g->y[origin], row[2][horizon],
             row[4][horizon], horizon, model);
    fan->figure = (struct spot_figure){ .title = fan->title,
                                        .x_label = "time (h)",
                                        .y_label = "instances",
                                        .series = fan->series,
                                        .n_series = n_after ? 5 : 4,
                                        .is_count = true };
}

void fan_release(struct fan *fan)
{
    free(fan->data);
    memset(fan, 0, sizeof(*fan));
}
