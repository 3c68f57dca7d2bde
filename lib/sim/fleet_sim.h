/* SPDX-License-Identifier: MIT */
/* fleet_sim.h - simulates a policy that keeps a number of replicas, on spot in several zones and on
 * demand. In each tick: zones with less capacity than running replicas reclaim the newest; the
 * policy launches and ends replicas; a launch in a zone without free capacity fails and costs
 * nothing; running replicas are paid for the tick and serve from `cold` ticks after their launch
 * on, or earlier by a time unknown to policies. A tick is served when as many are ready as are
 * wanted. Counts are AVAILABLE instances, not missing ones.
 */
#ifndef SPOT_SIM_FLEET_SIM_H
#define SPOT_SIM_FLEET_SIM_H

#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "plan/decision.h"
#include "trace/trace.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_FLEET_REPLICAS_MAX = 256, SPOT_FLEET_ZONES_MAX = 256 };

enum spot_fleet_own {
    SPOT_FLEET_ON_DEMAND,
    SPOT_FLEET_PEAK,       /* the maximum ever wanted, on demand */
    SPOT_FLEET_SPOT,       /* ours */
    SPOT_FLEET_OMNISCIENT, /* knows the trace */
    SPOT_FLEET_OWN
};

struct spot_fleet_player; /* a policy: sim/fleet_play.h */

/* On demand beside spot. */
enum spot_fleet_fallback {
    SPOT_FLEET_ALONE,
    SPOT_FLEET_FOR_READY,    /* for every replica, including extra ones, that is not ready */
    SPOT_FLEET_FOR_LAUNCHED, /* only for replicas that could not be launched */
};

struct spot_fleet_play {
    const int32_t *count; /* [n_tick][n_zone], 0 or more */
    /* The trace of the counts, one series per zone, from whose rows the policy spot forecasts.
     * NULL: it forecasts from the counts. */
    const struct spot_trace *trace;
    const char *const *zone; /* [n_zone] names, which contain the regions */
    const char *const *type; /* [n_zone] machine types; NULL: not given */
    const double *usd_per_h; /* [n_zone] of spot, > 0 */
    double on_demand_usd_per_h, tick_s;
    size_t n_zone, n_tick;
    const double *load; /* [n_tick] arriving load, in replicas; NULL: `wanted`, always */
    /* [n_tick] replicas that the autoscaler requests, 0..wanted; NULL: `wanted` */
    const int32_t *asked;
    int wanted;                        /* 1..SPOT_FLEET_REPLICAS_MAX */
    int extra;                         /* of the other policies, in addition to `wanted` */
    enum spot_fleet_fallback fallback; /* of the other policies */
    size_t cold;                       /* ticks, 0 or more, as known to policies */
    double early;        /* a launch really serves this many ticks earlier; at most cold */
    double availability; /* target of our policy and of the omniscient one, (0, 1) */
};

struct spot_fleet_result {
    double availability; /* share of the time served */
    /* cost relative to on demand for exactly the load in whole replicas (`wanted`, always) */
    double cost_ratio;
    double usd;
    double unserved_share;  /* share of the load, in the tick of its arrival */
    double wait_s;          /* mean wait of a request if it queued instead, in a fluid model */
    double on_demand_share; /* share of usd */
    size_t preempted, failed, spot_launches, on_demand_launches;
    double bound_usd; /* omniscient: lower bound for plans of that availability; else 0 */
};

struct spot_fleet_step {
    int spot, spot_ready, on_demand, on_demand_ready; /* ready by its end */
    int ready_first; /* of both kinds, ready in the part of the tick before spot_fleet_turn_tick */
    double unserved; /* unserved load in replicas, mean over the tick */
    double usd;
    char state[SPOT_DECISION_STATE_MAX]; /* state of the decider after the tick; "": the policy has
                                            none */
};

/* The moment within a tick, 0 to 1, at which launched replicas begin to serve. */
double spot_fleet_turn_tick(const struct spot_fleet_play *play);

/* Set the extra and fallback that a policy was published with. */
void spot_fleet_defaults(struct spot_fleet_play *play, const struct spot_fleet_player *player);

/* step (NULL: not wanted) [n_tick]; in_zone (NULL) [n_tick][n_zone], spot replicas there. Returns
 * 0, or -1 with *err: SPOT_EUSAGE for values out of range, SPOT_EINFEASIBLE if the omniscient
 * program would be too large or its availability cannot be reached. */
int spot_fleet_play_run(const struct spot_fleet_play *play, const struct spot_fleet_player *player,
                        struct spot_fleet_result *result, struct spot_fleet_step *step,
                        int32_t *in_zone, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SIM_FLEET_SIM_H */
