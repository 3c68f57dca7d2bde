/* SPDX-License-Identifier: MIT */
/* predict.h - shared by the parts of spot-predict. */
#ifndef SPOT_PREDICT_PREDICT_H
#define SPOT_PREDICT_PREDICT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/plot.h"
#include "cli/tool.h"
#include "common/err.h"
#include "common/prov.h"
#include "forecast/count_grid.h"
#include "forecast/forecaster.h"
#include "forecast/price_predictor.h"
#include "forecast/probes.h"
#include "forecast/score.h"
#include "forecast/tracked.h"
#include "trace/advice.h"
#include "trace/price_trace.h"
#include "trace/probe_trace.h"
#include "trace/trace.h"

struct options {
    struct spot_tool_common common;
    enum spot_format format;
    double interval_s;
    uint64_t horizon, cap; /* cap 0: by series */
    const char *model;

    bool is_load, is_price, is_backtest;
    const char *models, *dump, *plot, *state, *kind;
    uint64_t origins, next_probes;
    double from_s, probe_usd, hour_usd; /* hour_usd negative: derived from the prices given */
};

/* The key of a saved state with these options. */
struct spot_tracked_key options_key(const struct options *options);

/* The parameters of a forecast with these options, for any model. */
struct spot_fc_spec options_spec(const struct options *options);

/* Load `path` ("-" or NULL: stdin) and put every series on its grid. With `from_start` grids begin
 * at the first row of each series; otherwise those that do not end on a grid point end at the
 * newest row of the trace. Series in `known` (NULL: none) continue from their newest value, even if
 * the trace has no row of them. Returns 0, or -1 with *err. */
int grids_load(struct spot_count_grids *grids, const struct options *options, const char *path,
               bool from_start, const struct spot_trackeds *known, struct spot_prov *prov,
               struct spot_err *err);
/* The same for a trace that was read before. */
int grids_make(struct spot_count_grids *grids, const struct options *options,
               const struct spot_trace *trace, const char *source, bool from_start,
               const struct spot_trackeds *known, struct spot_err *err);
/* The same for a request trace: one series of arrivals per interval. */
int requests_load(struct spot_count_grids *grids, const struct options *options, const char *path,
                  struct spot_prov *prov, struct spot_err *err);

/* Forecast every series of the files at `path` and write one document. */
int forecast_run(const struct options *options, char *const *path, size_t n_path,
                 struct spot_prov *prov, struct spot_err *err);

/* --- inputs of a forecast: counts, probes, a provider's advice; each is a file, recognised by its
 * header --- */

struct inputs {
    /* name of the counts for messages; without counts that of the probes */
    char *source;
    struct spot_trace counts;       /* without series if there is no such file */
    struct spot_probe_trace probes; /* likewise */
    struct spot_advice advice;      /* without rows if there is none */
    bool has[3];                    /* by family */
    struct spot_probes learned;     /* n is 0 without probes */
};

/* Read at most one file of each family; "-" or NULL is standard input. Learns from the probes, and
 * makes series of them if there are no counts. Returns 0, or -1 with *err; release them either way.
 */
int inputs_load(struct inputs *inputs, char *const *path, size_t n_path, struct spot_prov *prov,
                struct spot_err *err);
void inputs_release(struct inputs *inputs);

/* Print which places to probe next, as a table. */
int next_probes_run(const struct options *options, char *const *path, size_t n_path,
                    struct spot_prov *prov, struct spot_err *err);

/* --- rolling-origin scores of many models on many series --- */

enum { MODELS_MAX = 32 };

/* A model given by the user. */
struct entry {
    char *text;
    const struct spot_forecaster *model;
    struct spot_fc_spec spec;
};

struct entries {
    size_t n;
    struct entry entry[MODELS_MAX];
};

/* Scores of one model on one series. */
struct result {
    char *series;
    const char *model;
    size_t n_origin;
    double us_per_origin;
    struct spot_score *step; /* [horizon] */
    double *pinball;         /* [horizon] sums, for prices; NULL for counts */
};

struct results {
    size_t n, cap;
    struct result *result;
};

/* All series of all files in succession, with their origins. */
struct walk {
    const struct options *options;
    struct entries entries;
    struct spot_prov *prov;
    char *const *path; /* [n_path] */
    size_t n_path, next_path, next_series;
    struct spot_count_grids grids;
    /* of the current series */
    const struct spot_count_grid *grid;
    char series[512];
    size_t *origin; /* [n_origin] indices of the newest value known, sorted */
    size_t n_origin;
};

/* Returns 0 or -1; close it either way. */
int walk_open(struct walk *walk, const struct options *options, char *const *path, size_t n_path,
              struct spot_prov *prov, struct spot_err *err);
/* Returns 1 with the next series loaded, 0 after the last, or -1: SPOT_EINFEASIBLE for a series too
 * short for any origin. */
int walk_next(struct walk *walk, struct spot_err *err);
void walk_close(struct walk *walk);

/* Backtest all files and write what the options ask for. */
int backtest_run(const struct options *options, char *const *path, size_t n_path,
                 struct spot_prov *prov, struct spot_err *err);

/* The sum over steps. */
struct spot_score result_total(const struct result *result, uint64_t horizon);

/* Add an entry with zero scores. */
struct result *results_add(struct results *results, const char *series, const char *model,
                           size_t n_origin, size_t horizon);
void results_release(struct results *results);
/* Write the results to the output given by the options: a row per step and one for all, or the
 * table of ratios to `last`. */
int results_save(const struct options *options, const struct results *results,
                 struct spot_err *err);

/* Draw fan and calibration; the results hold n_model models, series by series. */
struct fan;
int calibration_plot(const struct options *options, const struct results *results, size_t n_model,
                     const struct fan *fan, struct spot_err *err);

/* --- figures of forecasts: the fan of a distribution over time, and calibration --- */

enum { FAN_SERIES = 5, FAN_PAST = 60 };

/* The panel of a fan, and the arrays that it draws. */
struct fan {
    char title[160];
    struct spot_series series[FAN_SERIES];
    struct spot_figure figure;
    double *data;
};

/* Draws the newest counts known at index `origin` of the grid, the 50 % and 90 % bands of the
 * distributions prob [horizon * (cap + 1)], their median, and the actual counts as far as the grid
 * has them. */
void fan_make(struct fan *fan, const struct spot_count_grid *g, size_t origin, const double *prob,
              int horizon, const char *model);
void fan_release(struct fan *fan);

/* --- spot-predict --kind price: prices on a grid, and the model for them --- */

/* Load `path` ("-" or NULL: stdin). Release the trace either way. */
int prices_load(struct spot_price_trace *trace, const char *path, struct spot_prov *prov,
                struct spot_err *err);

/* NAME[@HISTORY], with the horizon of the options. Returns 0, or -1 with *err. */
int prices_model(const struct options *options, const char *text,
                 struct spot_price_predictor *predictor, struct spot_err *err);

/* A series on its grid: y [*n], malloc'd. NULL with *err if it would be too long. */
double *prices_grid(const struct options *options, const struct spot_price_trace *trace, size_t i,
                    bool from_start, size_t *n, double *start_s, struct spot_err *err);

const char *prices_market(const struct spot_price_series *series);

/* Forecast every series of the file and write one spot.price/1, or rows. */
int prices_forecast(const struct options *options, const char *path, struct spot_prov *prov,
                    struct spot_err *err);
/* Score models on the past of the files. */
int prices_backtest(const struct options *options, char *const *path, size_t n_path,
                    struct spot_prov *prov, struct spot_err *err);

#endif /* SPOT_PREDICT_PREDICT_H */
