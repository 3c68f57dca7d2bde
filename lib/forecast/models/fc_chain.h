/* SPDX-License-Identifier: MIT */
/* fc_chain.h - counted and smoothed transitions of the count. */
#ifndef SPOT_FORECAST_MODELS_FC_CHAIN_H
#define SPOT_FORECAST_MODELS_FC_CHAIN_H

#include "forecast/forecaster.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The matrix [(cap + 1) * (cap + 1)], row-major, of a state that spot_chain_observe has updated:
 * transition frequencies, with one row of the jump chain as prior to each row. In scratch memory of
 * the state; the next call overwrites it. */
double *spot_chain_matrix(const struct spot_fc_spec *spec, void *state);

/* p [cap + 1]: the distribution of the count when each of the `now` full places stays full with
 * probability `full`, and each of the others becomes full with probability `empty`; cap <=
 * SPOT_FC_CAP_FINE. */
void spot_places_dist(int cap, int now, double full, double empty, double *p);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_FORECAST_MODELS_FC_CHAIN_H */
