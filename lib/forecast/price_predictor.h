/* SPDX-License-Identifier: MIT */
/* price_predictor.h - forecasts a price, as a distribution for each of the next steps.
 *
 * A spot price stays constant for a while, then moves by a step that is often like the previous
 * one. A model sees prices on an even grid, the newest last, and nothing else; each works on
 * ratios, so that a history in another currency gives the same ratios.
 *
 * last: the newest price, with certainty.
 * changes: the newest price times the ratios of prices `step` intervals apart in the window.
 * steps: semi-Markov. The time that a price stays constant has a hazard by its age; the logarithm
 * of a move has one of four classes (down or up, above or below the median size of its sign), each
 * following with its frequency after the previous one, and is one of the moves of its class.
 * best: the one of these with the lowest CRPS at origins whose outcome is known.
 */
#ifndef SPOT_FORECAST_PRICE_PREDICTOR_H
#define SPOT_FORECAST_PRICE_PREDICTOR_H

#include <stddef.h>

#include "forecast/price_dist.h"

#ifdef __cplusplus
extern "C" {
#endif

enum spot_price_model {
    SPOT_PRICE_LAST,
    SPOT_PRICE_CHANGES,
    SPOT_PRICE_STEPS,
    SPOT_PRICE_BEST,
    SPOT_PRICE_MODELS
};
extern const char *const spot_price_model_name[SPOT_PRICE_MODELS];

/* The default window in intervals, and constants of `best`. */
enum {
    SPOT_PRICE_HORIZON_MAX = 256,
    SPOT_PRICE_HISTORY = 720,
    SPOT_PRICE_ORIGIN_MIN = 30, /* intervals before the first forecast that is scored */
    SPOT_PRICE_TRIALS = 60,     /* newest origins at which `best` scores its models */
    SPOT_PRICE_TRIALS_MIN = 8,  /* with fewer, `best` uses `steps` */
};

/* A model on one series. Zero it, then set the first four members. */
struct spot_price_predictor {
    enum spot_price_model model;
    size_t horizon;  /* 1..SPOT_PRICE_HORIZON_MAX */
    size_t history;  /* intervals of the window, >= 1 */
    const double *y; /* [..] usd/h > 0; a forecast at origin o reads y[0..o] */
    double *trial;   /* [n_trial][SPOT_PRICE_BEST] CRPS at the origins, NaN: not yet known */
    size_t n_trial;
    struct spot_price_dist scratch[SPOT_PRICE_HORIZON_MAX];
};

/* dist [horizon] of the price 1, 2, .. intervals after origin o. */
void spot_price_predictor_predict(struct spot_price_predictor *predictor, size_t o,
                                  struct spot_price_dist *dist);
/* The model used there: the configured one, or the choice of `best`. */
enum spot_price_model spot_price_predictor_choice(struct spot_price_predictor *predictor, size_t o);
void spot_price_predictor_release(struct spot_price_predictor *predictor);

/* `steps` only, for the window y [n], the newest last. */
void spot_price_steps(const double *y, size_t n, size_t horizon, struct spot_price_dist *dist);

/* prob [horizon][horizon + 1]: of k moves within step + 1 intervals, when the price has been
 * constant for `age` intervals and moves in the next with hazard [age]; ages above n_hazard - 1 use
 * the last one. */
void spot_price_moves(const double *hazard, size_t n_hazard, size_t age, size_t horizon,
                      double *prob);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_FORECAST_PRICE_PREDICTOR_H */
