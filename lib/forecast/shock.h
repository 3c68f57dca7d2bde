/* SPDX-License-Identifier: MIT */
/* shock.h - joint losses of the zones of a region: one latent shock per interval and region.
 *
 * With probability `prob` in an interval the losses of all its zones are `lift` times as likely as
 * in the zones' distributions, else `calm` times; 1 on average, so each zone's distribution is
 * unchanged, and only the joint behaviour of several zones is.
 */
#ifndef SPOT_FORECAST_SHOCK_H
#define SPOT_FORECAST_SHOCK_H

#ifdef __cplusplus
extern "C" {
#endif

struct spot_shock {
    double prob, lift, calm;
};

/* From pairs of zones: `together` intervals in which both lost, `expected` of them if zones were
 * independent. Before any is seen the lift of a pair is 3.2, as measured between zones of a region
 * over 45 days. With calm = 1/2 the two moments, prob lift + (1 - prob) calm = 1 and prob lift^2 +
 * (1 - prob) calm^2 = pair, give lift = 2 pair - 1. */
struct spot_shock spot_shock_fit(double together, double expected);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_FORECAST_SHOCK_H */
