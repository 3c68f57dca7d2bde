/* SPDX-License-Identifier: MIT */
/* The figure of a backtest: a fan of the forecast at the last origin of the first series; and for
 * every model the histogram of the randomised probability integral transform over all series. A
 * flat histogram means calibrated. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "predict.h"

enum { MODELS_DRAWN = SPOT_PLOT_SERIES_MAX - 1, EDGES = SPOT_SCORE_PIT + 1 };

struct histogram {
    double x[EDGES], y[EDGES], flat[EDGES];
};

static void fill_histogram(struct histogram *h, const struct spot_score *s)
{
    for (int i = 0; i < EDGES; i++) {
        const int bin = i < SPOT_SCORE_PIT ? i : SPOT_SCORE_PIT - 1;

        h->x[i] = (double)i / SPOT_SCORE_PIT;
        h->y[i] = s->pit[bin] * SPOT_SCORE_PIT / (double)s->n;
        h->flat[i] = 1;
    }
}

static struct spot_score total_of(const struct options *options, const struct results *results,
                                  const char *model)
{
    struct spot_score sum = { 0 };

    for (size_t i = 0; i < results->n; i++)
        if (!strcmp(results->result[i].model, model)) {
            const struct spot_score one = result_total(&results->result[i], options->horizon);

            spot_score_merge(&sum, &one);
        }
    return sum;
}

/* The last model of the list is shown. */
int calibration_plot(const struct options *options, const struct results *results, size_t n_model,
                     const struct fan *fan, struct spot_err *err)
{
    static struct histogram histogram[MODELS_DRAWN];
    struct spot_series series[SPOT_PLOT_SERIES_MAX];
    struct spot_figure panel[2] = { fan->figure };
    const size_t first = n_model > MODELS_DRAWN ? n_model - MODELS_DRAWN : 0;
    struct spot_score score = { 0 };
    char title[160];
    size_t n = 0;

    for (size_t m = first; m < n_model; m++) {
        struct histogram *h = &histogram[n];

        score = total_of(options, results, results->result[m].model);
        fill_histogram(h, &score);
        series[n++] = (struct spot_series){
            results->result[m].model, SPOT_SERIES_STEP, EDGES, h->x, h->y, NULL, 2, NULL
        };
    }
    series[n++] = (struct spot_series){
        "calibrated", SPOT_SERIES_LINE, EDGES, histogram[0].x, histogram[0].flat, NULL, 1, "#000000"
    };
    snprintf(title, sizeof(title), "%.40s: %.0f %% of the outcomes lay inside the 80 %% intervals",
             results->result[n_model - 1].model, 100 * score.cover_sum / (double)score.n);
    panel[1] = (struct spot_figure){ .title = title,
                                     .x_label = "probability integral transform, randomised",
                                     .y_label = "density",
                                     .series = series,
                                     .n_series = n };
    return spot_plot_panels(panel, 2, options->plot, err);
}
