/* SPDX-License-Identifier: MIT */
/* forecast_doc.h - spot.forecast/1: forecasts of instance counts, as distributions.
 *
 * One entry per (zone, instance type). For each step 1..horizon the probability mass function of
 * the count, and for the next interval the joint distribution of instances lost and gained. The
 * reader is strict: it returns only valid distributions within their bounds.
 */
#ifndef SPOT_MODEL_FORECAST_DOC_H
#define SPOT_MODEL_FORECAST_DOC_H

#include <stddef.h>
#include <stdint.h>

#include "common/json.h"
#include "common/prov.h"
#include "model/count_chain.h"
#include "model/forecast_start.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    SPOT_FORECAST_CAP_MAX = 65535,
    SPOT_FORECAST_HORIZON_MAX = 1024,
    SPOT_FORECAST_SERIES_MAX = 4096,
    SPOT_FORECAST_CHANGE_MAX = 1 << 20,
    SPOT_FORECAST_CELL_MAX = 1 << 23, /* horizon * (cap + 1) of a series */
};

/* One cell of the joint distribution of the next interval: 0 <= lost <= now,
 * 0 <= gained <= cap - now + lost. */
struct spot_forecast_change {
    int lost, gained;
    double prob;
};

struct spot_forecast_series {
    const char *zone, *instance_type; /* "" if the trace has none; borrowed from the document */
    double time_s;                    /* time of the forecast, that of the newest value */
    int64_t now, cap;                 /* current count and maximum; now <= cap */
    int64_t n_past, n_change_past;    /* intervals and changes it is based on; 0 if not given */
    /* In the past_s before time_s: instances lost, and sum of the seconds of all instances; 0 if
     * not given. */
    double past_s, past_lost, past_instance_s;
    double *mean;                        /* [horizon], instances */
    double *prob;                        /* [horizon * (cap + 1)], row-major; each row sums to 1 */
    struct spot_forecast_change *change; /* [n_change], by lost, then gained */
    size_t n_change;
    /* The chain of counts learned from the series: the transition probabilities, which the
     * marginals do not contain. NULL: none. */
    struct spot_count_law *chain;
    struct spot_forecast_start *start; /* prospects of a request made now; NULL: not probed */
    struct spot_forecast_shock *shock; /* joint losses; NULL: not known */
};

/* Zones of a region lose instances together: with probability shock_prob in an interval each
 * zone's losses are loss_lift times as likely as in its distribution, else calm_lift times; 1 on
 * average. */
enum { SPOT_FORECAST_REGION_NAME = 64 };

struct spot_forecast_region {
    char region[SPOT_FORECAST_REGION_NAME]; /* "us-east-1"; longer names are truncated */
    const char *instance_type;
    int64_t zones; /* 2.. */
    double shock_prob, loss_lift, calm_lift;
};

/* docs/schema/forecast.json is made from this. */
extern const struct spot_doc_part spot_forecast_part[];

struct spot_forecast {
    double interval_s; /* length of a step */
    int64_t horizon;   /* steps */
    const char *model;
    struct spot_forecast_series *series; /* [n_series] */
    size_t n_series;
    struct spot_forecast_region *region; /* [n_region], may be empty */
    size_t n_region;
};

/* Row of step `step` (1..horizon): [cap + 1]. */
const double *spot_forecast_at(const struct spot_forecast_series *series, int64_t step);

/* The smallest count that is not exceeded with probability `prob` (0.5: the median). */
int spot_forecast_quantile(const struct spot_forecast_series *series, int64_t step, double prob);

/* Variance over mean of the count of a step: 1 for Poisson, and for a mean of 0. */
double spot_forecast_dispersion(const struct spot_forecast_series *series, int64_t step);

/* Fill *out from a loaded document, which must outlive it.
 * Returns 0, or -1 with *err (SPOT_EDATA) naming the place of a wrong schema, a missing key, a
 * probability that is negative or above 1, a distribution that does not sum to 1 within 1e-6, a
 * mean that is not that of its distribution, steps out of order, a count out of bounds, or a series
 * or region twice. On failure nothing is left to release. */
int spot_forecast_read(const struct spot_json_doc *doc, struct spot_forecast *out,
                       struct spot_err *err);

/* The same, but a forecast of load is rejected: only instances are accepted. */
int spot_forecast_read_instances(const struct spot_json_doc *doc, struct spot_forecast *out,
                                 struct spot_err *err);

/* Drop every series of another instance type; series without a type are kept. Returns how many are
 * kept. */
size_t spot_forecast_keep(struct spot_forecast *forecast, const char *instance_type);

/* Free what spot_forecast_read or the caller allocated: the series and their arrays. */
void spot_forecast_release(struct spot_forecast *forecast);

/* Write the document; cells of `change` in the order given. `prov` may be NULL.
 * Returns 0, or -1 with *err. */
int spot_forecast_write(const struct spot_forecast *forecast, FILE *out,
                        const struct spot_prov *prov, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_MODEL_FORECAST_DOC_H */
