/* SPDX-License-Identifier: MIT */
/* tracked.h - the learned state of each series, and the file that keeps it between calls. */
#ifndef SPOT_FORECAST_TRACKED_H
#define SPOT_FORECAST_TRACKED_H

#include "common/err.h"
#include "forecast/count_grid.h"
#include "forecast/forecaster.h"
#include "forecast/joint.h"
#include "forecast/neighbours.h"
#include "forecast/predictor.h"
#include "model/count_chain.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Data for the rate of losses. */
struct spot_tracked_past {
    double since_s, lost, instance_s; /* instances lost, sum of seconds of all instances */
};

struct spot_tracked {
    char *zone, *instance_type;
    double time_s; /* time of the newest value; before the first one, the time that it will have */
    int now, cap;
    /* count at the newest row, and lowest count since time_s; neither is part of a value yet */
    int newest, lowest;
    size_t n, n_change; /* values and changes observed */
    struct spot_tracked_past past;
    struct spot_turnover turnover;
    struct spot_neighbours neighbours;
    struct spot_count_chain chain;
    /* law of the chain when `n` was law_at; updated less and less often */
    struct spot_count_law law;
    size_t law_at, law_next;
    struct spot_predictor *predictor;
};

struct spot_trackeds {
    size_t n, cap;
    struct spot_tracked *series; /* [n], sorted by zone, then instance type */
};

/* The parameters a state was learned with; a state with another key cannot be continued. */
struct spot_tracked_key {
    const char *model;
    double interval_s;
    int horizon, history;
};

/* Load the file, if it exists. Returns 0, or -1 with *err: SPOT_EDATA for a file that is damaged,
 * or that was made with another key. */
int spot_trackeds_load(struct spot_trackeds *trackeds, const char *path,
                       const struct spot_tracked_key *key, const struct spot_forecaster *model,
                       const struct spot_fc_spec *spec, struct spot_err *err);
int spot_trackeds_save(const struct spot_trackeds *trackeds, const char *path,
                       const struct spot_tracked_key *key, struct spot_err *err);
void spot_trackeds_release(struct spot_trackeds *trackeds);

struct spot_tracked *spot_trackeds_find(const struct spot_trackeds *trackeds, const char *zone,
                                        const char *instance_type);

/* Observe the settled points of a grid: all of them for a new series, otherwise those newer than
 * time_s. Returns its series, which stays in place until the next call. */
struct spot_tracked *spot_trackeds_take(struct spot_trackeds *trackeds,
                                        const struct spot_forecaster *model,
                                        struct spot_fc_spec spec, const struct spot_count_grid *g);

/* *newest: the series including the unsettled point at the grid's end. That point is not kept; the
 * next call has it with the missing rows. Names are borrowed, and so is the predictor if all points
 * are settled; else the caller frees it. */
void spot_tracked_look(const struct spot_tracked *t, const struct spot_forecaster *model,
                       struct spot_fc_spec spec, const struct spot_count_grid *g,
                       struct spot_tracked *newest);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_FORECAST_TRACKED_H */
