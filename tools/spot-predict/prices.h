/* SPDX-License-Identifier: MIT */
/* prices.h - spot-predict --kind price: prices on a grid, and the model that was asked for. */
#ifndef SPOT_PREDICT_PRICES_H
#define SPOT_PREDICT_PRICES_H

#include "forecast/price_predictor.h"
#include "predict.h"
#include "trace/price_trace.h"

/* Load `path` ("-" or NULL: stdin). Release the trace either way. */
int prices_load(struct spot_price_trace *trace, const char *path, struct spot_prov *prov,
                struct spot_err *err);

/* NAME[@HISTORY], with the horizon of the options. Returns 0, or -1 with *err. */
int prices_model(const struct options *options, const char *text,
                 struct spot_price_predictor *predictor, struct spot_err *err);

/* A series on its grid: y [*n], malloc'd. NULL with *err: it would be too long. */
double *prices_grid(const struct options *options, const struct spot_price_trace *trace, size_t i,
                    bool from_start, size_t *n, double *start_s, struct spot_err *err);

const char *prices_market(const struct spot_price_series *series);

/* Forecast every series of the file and write one spot.price/1, or rows. */
int prices_forecast(const struct options *options, const char *path, struct spot_prov *prov,
                    struct spot_err *err);
/* Score models on the past of the files. */
int prices_backtest(const struct options *options, char *const *path, size_t n_path,
                    struct spot_prov *prov, struct spot_err *err);

#endif /* SPOT_PREDICT_PRICES_H */
