/* SPDX-License-Identifier: MIT */
/* backtest_run.h - rolling-origin scores of many models on many series. */
#ifndef SPOT_PREDICT_BACKTEST_RUN_H
#define SPOT_PREDICT_BACKTEST_RUN_H

#include "forecast/forecaster.h"
#include "forecast/score.h"
#include "predict.h"

enum { MODELS_MAX = 32 };

/* A model as it was asked for. */
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
    double spacing; /* of origins, in intervals */
    double us_per_origin;
    struct spot_score *step; /* [horizon] */
    double *crps;            /* [n_origin], mean over steps, in order of time */
    double *pinball;         /* [horizon] sums, of prices; NULL of counts */
};

struct results {
    size_t n, cap;
    struct result *result;
};

/* All series of all files, one after the other, with their origins. */
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
/* Returns 1 with the next series in place, 0 after the last, or -1: SPOT_EINFEASIBLE for a series
 * too short to have an origin. */
int walk_next(struct walk *walk, struct spot_err *err);
void walk_close(struct walk *walk);

/* Score the joint distribution of the next interval instead of the counts. */
int joint_run(const struct options *options, char *const *path, size_t n_path,
              struct spot_prov *prov, struct spot_err *err);

/* Backtest all files and write what the options ask for. */
int backtest_run(const struct options *options, char *const *path, size_t n_path,
                 struct spot_prov *prov, struct spot_err *err);

/* Sum over steps. */
struct spot_score result_total(const struct result *result, uint64_t horizon);

/* A new one, its scores 0. */
struct result *results_add(struct results *results, const char *series, const char *model,
                           const size_t *origin, size_t n_origin, size_t horizon);
void results_release(struct results *results);
/* Write what the options ask for where they say: a row per step and one for all, or the table of
 * ratios to `last`. */
int results_save(const struct options *options, const struct results *results,
                 struct spot_err *err);

/* Fan and calibration; results hold n_model models series by series. */
struct fan;
int calibration_plot(const struct options *options, const struct results *results, size_t n_model,
                     const struct fan *fan, struct spot_err *err);

/* Pairs of results as ratios with intervals. */
void compare_print(const struct options *options, const struct results *results, FILE *out);

#endif /* SPOT_PREDICT_BACKTEST_RUN_H */
