/* SPDX-License-Identifier: MIT */
/* predict.h - what the parts of spot-predict share. */
#ifndef SPOT_PREDICT_PREDICT_H
#define SPOT_PREDICT_PREDICT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/table.h"
#include "cli/tool.h"
#include "common/err.h"
#include "common/prov.h"
#include "forecast/forecaster.h"
#include "forecast/hazard.h"

struct options {
    struct spot_tool_common common;
    enum spot_format format;
    double interval_s;
    uint64_t horizon, history, cap; /* history and cap 0: by model, by series */
    const char *model;

    bool is_load, is_backtest;
    bool is_joint;
    const char *models, *dump, *compare, *plot, *state, *kind, *hazard;
    struct spot_hazard table; /* what `hazard` names; empty without */
    uint64_t origins;
    double from_s;
};

/* One series of a trace on an even grid that ends with its newest row. */
struct grid {
    char *zone, *instance_type, *label;
    double start_s, interval_s;
    size_t n;
    bool is_open;       /* the newest row is between two points: it is point n - 1, at end_s */
    double end_s;       /* of point n - 1 then */
    int *y;             /* [n], 0..cap */
    int *lost, *gained; /* [n], in the interval that ends at i, net change and turnover; 0 first */
    int cap;
    size_t n_change;  /* intervals with another count than the one before */
    size_t n_clipped; /* values that were above the cap */
};

struct grids {
    size_t n;
    struct grid *grid; /* [n], sorted by zone, then instance type */
};

/* What the options ask of any model. */
struct spot_fc_spec options_spec(const struct options *options);

/* Load the table of --hazard, if there is one. Returns 0, or -1 with *err: SPOT_EUSAGE where no
 * model that was asked for uses it, or one lacks it. */
int options_load_hazard(struct options *options, struct spot_prov *prov, struct spot_err *err);

struct trackeds;

/* Load `path` ("-" or NULL: stdin), put every series on its grid. With `from_start` grids begin at
 * the first row of each series; otherwise those that do not come out even end at the newest row
 * of the trace. Series that are `known` (NULL: none) go on from their newest value, also where
 * the trace has no row of them.
 * Returns 0, or -1 with *err. */
int grids_load(struct grids *grids, const struct options *options, const char *path,
               bool from_start, const struct trackeds *known, struct spot_prov *prov,
               struct spot_err *err);
/* The same for a request trace: one series of arrivals per interval. */
int requests_load(struct grids *grids, const struct options *options, const char *path,
                  struct spot_prov *prov, struct spot_err *err);
void grids_release(struct grids *grids);

/* Forecast every series of the trace at `path` and write one document. */
int forecast_run(const struct options *options, const char *path, struct spot_prov *prov,
                 struct spot_err *err);

#endif /* SPOT_PREDICT_PREDICT_H */
