/* SPDX-License-Identifier: MIT */
/* predict.h - what the parts of spot-predict share. */
#ifndef SPOT_PREDICT_PREDICT_H
#define SPOT_PREDICT_PREDICT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/tool.h"
#include "common/err.h"
#include "common/prov.h"
#include "forecast/count_grid.h"
#include "forecast/forecaster.h"
#include "forecast/hazard.h"
#include "forecast/tracked.h"

struct options {
    struct spot_tool_common common;
    enum spot_format format;
    double interval_s;
    uint64_t horizon, cap; /* cap 0: by series */
    const char *model;

    bool is_load, is_price, is_backtest;
    bool is_joint;
    const char *models, *dump, *compare, *plot, *state, *kind, *hazard;
    struct spot_hazard table; /* what `hazard` names; empty without */
    uint64_t origins, next_probes;
    double from_s, probe_usd, hour_usd; /* hour_usd negative: from the prices told */
};

/* What the options say of a state. */
struct spot_tracked_key options_key(const struct options *options);

/* What the options ask of any model. */
struct spot_fc_spec options_spec(const struct options *options);

/* Load the table of --hazard, if there is one. Returns 0, or -1 with *err: SPOT_EUSAGE where no
 * model that was asked for uses it, or one lacks it. */
int options_load_hazard(struct options *options, struct spot_prov *prov, struct spot_err *err);

/* Load `path` ("-" or NULL: stdin), put every series on its grid. With `from_start` grids begin at
 * the first row of each series; otherwise those that do not come out even end at the newest row
 * of the trace. Series that are `known` (NULL: none) go on from their newest value, also where
 * the trace has no row of them.
 * Returns 0, or -1 with *err. */
int grids_load(struct spot_count_grids *grids, const struct options *options, const char *path,
               bool from_start, const struct spot_trackeds *known, struct spot_prov *prov,
               struct spot_err *err);
/* The same of a trace that is read. */
int grids_make(struct spot_count_grids *grids, const struct options *options,
               const struct spot_trace *trace, const char *source, bool from_start,
               const struct spot_trackeds *known, struct spot_err *err);
/* The same for a request trace: one series of arrivals per interval. */
int requests_load(struct spot_count_grids *grids, const struct options *options, const char *path,
                  struct spot_prov *prov, struct spot_err *err);

/* Forecast every series of the files at `path` and write one document. */
int forecast_run(const struct options *options, char *const *path, size_t n_path,
                 struct spot_prov *prov, struct spot_err *err);

#endif /* SPOT_PREDICT_PREDICT_H */
