/* SPDX-License-Identifier: MIT */
/* forecast_start.h - two parts of a series of spot.forecast/1: what comes of asking for an instance
 * now, and what takes neighbours together. */
#ifndef SPOT_MODEL_FORECAST_START_H
#define SPOT_MODEL_FORECAST_START_H

#include <stdint.h>

#include "common/json.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_forecast_start {
    double granted;     /* P(a request of now is granted, and there is capacity) */
    double stays_1h;    /* P(what is granted now is there an hour later) */
    double probe_age_s; /* of the newest answer */
    int64_t probes;     /* answers it is based on; 0: a score alone */
    double usd_per_h;   /* told last; NaN: never */
    double *stays;      /* [horizon] the same after each step */
};

/* Instances of one zone and type are lost alone, at own_per_h each, and by shocks, of which there
 * are shock_per_h and each takes an instance with `reach`. together: of the instances lost, the
 * share that another one was lost within three minutes of. */
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
/* NULL: nothing. */
void spot_forecast_start_write(struct spot_jw *jw, const struct spot_forecast_start *start,
                               int64_t horizon);
void spot_forecast_shock_write(struct spot_jw *jw, const struct spot_forecast_shock *shock);
void spot_forecast_start_free(struct spot_forecast_start *start);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_MODEL_FORECAST_START_H */
