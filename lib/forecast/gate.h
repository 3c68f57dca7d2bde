/* SPDX-License-Identifier: MIT */
/* gate.h - the weight of a forecast, learned from the outcomes of earlier ones.
 *
 * Three experts give the distribution of each step: the forecast itself, the usual level (how often
 * each count was seen in the newest intervals) and the newest value. Their weights, separately for
 * each step, are the initial ones times exp(-rate x CRPS so far), over about the last two thousand
 * outcomes; outcomes h steps ahead overlap h-fold and count 1/h each. Weights are bounded below, so
 * that each can recover. If the forecast is the best of the three its weight is near one, and
 * almost nothing is lost. Source: exponential weights (Vovk 1990), for CRPS as in V'yugin and
 * Trunov 2019. Deterministic and causal.
 */
#ifndef SPOT_FORECAST_GATE_H
#define SPOT_FORECAST_GATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "forecast/forecaster.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    SPOT_GATE_STEPS = 12, /* steps ahead that are learned; later ones use the last one's weights */
    SPOT_GATE_USUAL = 60, /* intervals */
};

enum spot_fc_gate_expert { SPOT_GATE_FORECAST, SPOT_GATE_LEVEL, SPOT_GATE_LAST, SPOT_GATE_EXPERTS };

/* Zeroed initially. It is followed in memory by the kept distributions, [STEPS][STEPS][cap + 1]. */
struct spot_fc_gate {
    uint64_t n;
    /* loss beyond that of the best expert, times the rate */
    double loss[SPOT_GATE_STEPS][SPOT_GATE_EXPERTS];
    /* number of values seen when it was kept; 0: none */
    uint64_t at[SPOT_GATE_STEPS];
    double weight[SPOT_GATE_STEPS];
    float dist[];
};

size_t spot_fc_gate_byte(int cap);

/* Observe the newest value of `past`, and learn from the forecasts of it. horizon: number of steps
 * kept, at most STEPS. */
void spot_fc_gate_observe(struct spot_fc_gate *gate, int cap, int horizon,
                          const struct spot_fc_past *past);

/* Keep prob [horizon * (cap + 1)], forecast at the newest value, until its outcomes are known; it
 * counts `weight` times. */
void spot_fc_gate_keep(struct spot_fc_gate *gate, int cap, int horizon, double weight,
                       const double *prob);

/* Mix the experts into prob [horizon * (cap + 1)]. */
void spot_fc_gate_apply(const struct spot_fc_gate *gate, int cap, int horizon,
                        const struct spot_fc_past *past, double *prob);

/* True if a state that was read from a file is valid. */
bool spot_fc_gate_is_sound(const struct spot_fc_gate *gate);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_FORECAST_GATE_H */
