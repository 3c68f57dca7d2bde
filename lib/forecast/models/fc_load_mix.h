/* SPDX-License-Identifier: MIT */
/* fc_load_mix.h - several levels of a load, each weighted by how well it predicted the past.
 *
 * Experts: exponentially smoothed levels of nine speeds, four with a damped trend, and the mean and
 * spread of the newest 12 and 60 values. Each but the last two has the spread of its own errors at
 * that number of steps ahead. An expert's weight is its prior times e^-loss, the loss being a
 * discounted sum of the continuous ranked probability scores of its forecasts, in units of the
 * median spread; forecasts of h steps overlap, so their sum counts 1/sqrt(h). For longer steps,
 * scores one step ahead count a fifth. Source: Vovk 1990 (aggregating by exponential weights);
 * Gneiting and Raftery 2007 (the score, of a normal distribution in closed form).
 */
#ifndef SPOT_FORECAST_MODELS_FC_LOAD_MIX_H
#define SPOT_FORECAST_MODELS_FC_LOAD_MIX_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_LOAD_EXPERTS = 15 };

/* One part of the mixture: a negative binomial of that mean and variance. */
struct spot_load_part {
    double weight, mean, var;
};

struct spot_load_mix;

/* Experts that other code refers to. */
enum spot_load_expert { SPOT_LOAD_QUICK = 2, SPOT_LOAD_TREND = 9, SPOT_LOAD_12 = 13, SPOT_LOAD_60 };

/* x [n], n >= 1, the newest last; kept until _free. */
struct spot_load_mix *spot_load_mix_new(const double *x, size_t n);
void spot_load_mix_free(struct spot_load_mix *mix);

/* An expert's forecast, made at value `t`, of the mean `step` later. *spread: that of the window of
 * 12 values. */
double spot_load_mix_told(const struct spot_load_mix *mix, size_t t, enum spot_load_expert expert,
                          int step);
double spot_load_mix_window_var(const struct spot_load_mix *mix, size_t t);
const double *spot_load_mix_past(const struct spot_load_mix *mix, size_t *n);

/* The parts `step` >= 1 steps ahead; weights sum to 1. Steps beyond a third of the past use the
 * uncertainty of that third. */
void spot_load_mix_at(struct spot_load_mix *mix, int step,
                      struct spot_load_part part[SPOT_LOAD_EXPERTS]);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_FORECAST_MODELS_FC_LOAD_MIX_H */
