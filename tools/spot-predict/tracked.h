/* SPDX-License-Identifier: MIT */
/* tracked.h - what is known of each series so far, and the file that keeps it between calls. */
#ifndef SPOT_PREDICT_TRACKED_H
#define SPOT_PREDICT_TRACKED_H

#include "forecast/joint.h"
#include "forecast/predictor.h"
#include "predict.h"

struct tracked {
    char *zone, *instance_type;
    double time_s; /* of the newest value */
    int now, cap;
    size_t n, n_change; /* values and changes taken in */
    struct spot_turnover turnover;
    struct spot_predictor *predictor;
};

struct trackeds {
    size_t n, cap;
    struct tracked *series; /* [n], sorted by zone, then instance type */
};

/* Load the file, if there is one. Returns 0, or -1 with *err: SPOT_EDATA for a file that is
 * damaged, or that was made with another model, interval or horizon. */
int trackeds_load(struct trackeds *trackeds, const char *path, const struct options *options,
                  const struct spot_forecaster *model, const struct spot_fc_spec *spec,
                  struct spot_err *err);
int trackeds_save(const struct trackeds *trackeds, const char *path, const struct options *options,
                  struct spot_err *err);
void trackeds_release(struct trackeds *trackeds);

struct tracked *trackeds_find(const struct trackeds *trackeds, const char *zone,
                              const char *instance_type);

/* Take in the whole intervals of a grid: all of them for a new series, what is newer than time_s
 * otherwise. Returns its series, which stays in place until the next call. */
struct tracked *trackeds_take(struct trackeds *trackeds, const struct spot_forecaster *model,
                              struct spot_fc_spec spec, const struct grid *g);

/* *newest: the series with what the grid has after its last whole interval, which is not kept: the
 * next call sees that interval whole. Names are borrowed, and the predictor where there is no more;
 * else it is the caller's to free. */
void tracked_look(const struct tracked *t, const struct spot_forecaster *model,
                  struct spot_fc_spec spec, const struct grid *g, struct tracked *newest);

#endif /* SPOT_PREDICT_TRACKED_H */
