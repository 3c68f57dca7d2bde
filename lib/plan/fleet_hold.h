/* SPDX-License-Identifier: MIT */
/* fleet_hold.h - holds a number of replicas on spot in several zones and on demand: question and
 * answer of the decision of kind `fleet` (plan/decision.h). The forecast gives the availability of
 * each zone and the lifetimes there; zones are numbered like its series. A step of the forecast is
 * a tick. If the forecast has the probability that a request is granted (`start`), replicas still
 * to be launched count with it.
 */
#ifndef SPOT_PLAN_FLEET_HOLD_H
#define SPOT_PLAN_FLEET_HOLD_H

#ifdef __cplusplus
extern "C" {
#endif

enum {
    SPOT_HOLD_ZONES_MAX = 256,
    SPOT_HOLD_REPLICAS_MAX = 256,
    SPOT_HOLD_LOAD_TICKS = 4, /* ticks whose largest load counts */
};

struct spot_hold_rule {
    double on_demand_usd_per_h;
    int cold;            /* ticks from a launch to the first answer, 0 or more */
    double availability; /* share of ticks in which all wanted replicas answer, (0, 1) */
};

/* The running replicas, after losses. In a zone the oldest replicas answer first, and the newest
 * are lost and ended first. */
struct spot_hold_now {
    int wanted; /* 1..SPOT_HOLD_REPLICAS_MAX; ignored if a load is given */
    /* In replicas: the load of the last tick, and the largest of the last SPOT_HOLD_LOAD_TICKS;
     * load_most < 0: unknown. The load is multiplied by a factor that is adjusted until loads
     * exceed the result no more often than the availability allows. */
    double load, load_most;
    const double *usd_per_h; /* [n_series] of spot, > 0 */
    /* [n_series] ticks from the notice of a loss (or a loss without notice) until a replica
     * launched then answers, > 0; NULL: `cold` of the rule */
    const int *cold;
    const int *spot;       /* [n_series] */
    const int *spot_ready; /* [n_series] of them that answer */
    int on_demand, on_demand_ready;
};

struct spot_hold_step {
    int wanted;
    int spot[SPOT_HOLD_ZONES_MAX]; /* replicas to run */
    int on_demand;
    double miss; /* probability that fewer than the wanted replicas answer when a replica launched
                    now would */
};

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PLAN_FLEET_HOLD_H */
