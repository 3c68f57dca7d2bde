/* SPDX-License-Identifier: MIT */
/* forecast_start.h - two parts of a series of spot.forecast/1: the prospects of requesting an
 * instance now, and joint losses of instances. */
#ifndef SPOT_MODEL_FORECAST_START_H
#define SPOT_MODEL_FORECAST_START_H

#include <stdint.h>

#include "common/json.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_forecast_start {
    double granted;     /* probability that a request made now is granted and there is capacity */
    double stays_1h;    /* probability that an instance granted now still exists an hour later */
    double probe_age_s; /* age of the newest answer */
    int64_t probes;     /* number of answers; 0: from a score only */
    double usd_per_h;   /* the last price given; NaN: none */
    double *stays;      /* [horizon] the same after each step */
};

/* Instances of one zone and type are lost independently, at own_per_h each, and by shocks, at
 * shock_per_h, each of which takes every instance with probability `reach`. together: share of the
 * lost instances for which another loss occurred within three minutes. */
struct spot_forecast_shock {
    double own_per_h, shock_per_h, reach, together;
};

extern const struct spot_field spot_forecast_start_field[], spot_forecast_start_price_field[],
    spot_forecast_shock_field[];

/* *out stays NULL if the series has none. Returns 0, or -1 with *err (SPOT_EDATA). */
int spot_forecast_start_read(const struct spot_json_doc *doc, const struct spot_json_value *series,
                             const char *pointer, int64_t horizon, struct spot_forecast_start **out,
                             struct spot_err *err);
int spot_forecast_shock_read(const struct spot_json_doc *doc, const struct spot_json_value *series,
                             const char *pointer, struct spot_forecast_shock **out,
                             struct spot_err *err);
/* Writes nothing for NULL. */
void spot_forecast_start_write(struct spot_jw *jw, const struct spot_forecast_start *start,
                               int64_t horizon);
void spot_forecast_shock_write(struct spot_jw *jw, const struct spot_forecast_shock *shock);
void spot_forecast_start_free(struct spot_forecast_start *start);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_MODEL_FORECAST_START_H */
