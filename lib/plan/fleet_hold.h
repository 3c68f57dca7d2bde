/* SPDX-License-Identifier: MIT */
/* fleet_hold.h - a number of replicas that is held on spot of several zones and on demand: the
 * question and the answer of the decision of kind `fleet` (plan/decision.h).
 *
 * What may be had of each zone, and how long it stays, is the forecast's; zones are numbered as its
 * series are. A step of the forecast is a tick. Where the forecast tells the chance that a request
 * is granted (`start`), what would have to be launched there counts with it.
 */
#ifndef SPOT_PLAN_FLEET_HOLD_H
#define SPOT_PLAN_FLEET_HOLD_H

#ifdef __cplusplus
extern "C" {
#endif

enum {
    SPOT_HOLD_ZONES_MAX = 256,
    SPOT_HOLD_REPLICAS_MAX = 256,
    SPOT_HOLD_LOAD_TICKS = 4, /* whose largest load is prepared for */
};

struct spot_hold_rule {
    double on_demand_usd_per_h;
    int cold;            /* ticks from a launch to the first answer, 0 or more */
    double availability; /* share of ticks in which all that are wanted answer, (0, 1) */
};

/* What runs, after losses. Of a zone's replicas the oldest answer first, and the newest are lost
 * and ended first. */
struct spot_hold_now {
    int wanted; /* 1..SPOT_HOLD_REPLICAS_MAX; unless a load says how many */
    /* In replicas: the load of the tick that has passed, and the largest of the last
     * SPOT_HOLD_LOAD_TICKS; load_most < 0: none is known. A factor on it is held, such that loads
     * exceed it no more often than the aim allows. */
    double load, load_most;
    const double *usd_per_h; /* [n_series] of spot, > 0 */
    /* [n_series] ticks from the notice of a loss, or from a loss without one, until what is
     * launched then answers, > 0; NULL: `cold` of the rule */
    const int *cold;
    const int *spot;       /* [n_series] */
    const int *spot_ready; /* [n_series] of them that answer */
    int on_demand, on_demand_ready;
};

struct spot_hold_step {
    int wanted;
    int spot[SPOT_HOLD_ZONES_MAX]; /* that are to run */
    int on_demand;
    double miss; /* P(fewer than are wanted answer when a launch of now does) */
};

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PLAN_FLEET_HOLD_H */
