/* SPDX-License-Identifier: MIT */
/* price_doc.h - spot.price/1: forecasts of instance prices, as distributions.
 *
 * One entry per zone, type and market; for each step 1..horizon the mean, quantiles, and the
 * probabilities that the price is below and above the current one. The reader is strict.
 */
#ifndef SPOT_MODEL_PRICE_DOC_H
#define SPOT_MODEL_PRICE_DOC_H

#include <stddef.h>
#include <stdint.h>

#include "common/json.h"
#include "common/prov.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    SPOT_PRICE_DOC_SERIES_MAX = 4096,
    SPOT_PRICE_DOC_HORIZON_MAX = 1024,
    SPOT_PRICE_DOC_QUANTILES_MAX = 99,
};

struct spot_price_step {
    int64_t step; /* 1.. */
    double mean_usd_per_h, lower_prob, higher_prob;
};

struct spot_price_entry {
    const char *zone, *instance_type, *market; /* spot or on_demand; borrowed */
    const char *model; /* name of the model that produced it, "" if not given */
    double time_s, now_usd_per_h;
    double mean_usd_per_h;        /* mean price over the steps up to the horizon */
    int64_t n_change;             /* price changes that it is based on */
    struct spot_price_step *step; /* [horizon] */
    double *quantile_usd_per_h;   /* [horizon][n_quantile], never falling in a row */
};

struct spot_price_doc {
    double interval_s;
    int64_t horizon;
    const char *model;
    double quantile[SPOT_PRICE_DOC_QUANTILES_MAX]; /* [n_quantile], in (0, 1), rising */
    size_t n_quantile;
    struct spot_price_entry *series; /* [n_series] */
    size_t n_series;
};

extern const struct spot_doc_part spot_price_part[];

/* Fill *out from a loaded document, which must outlive it. Returns 0, or -1 with *err (SPOT_EDATA,
 * with the place). On failure there is nothing to release. */
int spot_price_read(const struct spot_json_doc *doc, struct spot_price_doc *out,
                    struct spot_err *err);
void spot_price_release(struct spot_price_doc *doc);

/* The entry of a zone, type and market; NULL if none. */
const struct spot_price_entry *spot_price_find(const struct spot_price_doc *doc, const char *zone,
                                               const char *instance_type, const char *market);

int spot_price_write(const struct spot_price_doc *doc, FILE *out, const struct spot_prov *prov,
                     struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_MODEL_PRICE_DOC_H */
