/* SPDX-License-Identifier: MIT */
/* fleet_sim.h - so many replicas wanted, on spot of several zones and on demand, under one policy.
 *
 * In each tick: zones that have less than runs there take the newest; the policy launches and ends
 * replicas; a launch in a zone without room fails and costs nothing; what runs is paid for the tick
 * and answers from `cold` ticks after its launch on. A tick is served when as many are ready as are
 * wanted. Counts are instances that CAN BE HAD, not those that are away.
 */
#ifndef SPOT_SIM_FLEET_SIM_H
#define SPOT_SIM_FLEET_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_FLEET_REPLICAS_MAX = 256, SPOT_FLEET_ZONES_MAX = 256 };

enum spot_fleet_policy {
    SPOT_FLEET_ON_DEMAND,
    SPOT_FLEET_PEAK,        /* the most ever wanted, on demand */
    SPOT_FLEET_EVEN,        /* replica i in zone i mod zones, always */
    SPOT_FLEET_ROUND_ROBIN, /* the next zone at every attempt */
    SPOT_FLEET_AWS_SPOT,    /* even, in the zones of one region */
    SPOT_FLEET_ASG,         /* the same with a tenth on demand */
    SPOT_FLEET_HEDGE,       /* SpotHedge as published */
    SPOT_FLEET_REPAIRED,    /* each zone tried at most once before a success */
    SPOT_FLEET_SPOT,        /* ours */
    SPOT_FLEET_SPOT_LAW,    /* ours, the law of the whole trace known from the start */
    SPOT_FLEET_OMNISCIENT,  /* knows the trace */
    SPOT_FLEET_POLICIES
};
extern const char *const spot_fleet_policy_name[SPOT_FLEET_POLICIES];
extern const char *const spot_fleet_policy_about[SPOT_FLEET_POLICIES];

/* On demand beside spot. */
enum spot_fleet_fallback {
    SPOT_FLEET_ALONE,
    SPOT_FLEET_FOR_READY,    /* for every replica, extra ones too, that is not ready */
    SPOT_FLEET_FOR_LAUNCHED, /* for what was not even launched */
};

struct spot_fleet_play {
    const int32_t *count;    /* [n_tick][n_zone], 0 or more */
    const char *const *zone; /* [n_zone] names: regions */
    const double *usd_per_h; /* [n_zone] of spot, > 0 */
    double on_demand_usd_per_h, tick_s;
    size_t n_zone, n_tick;
    const double *load;   /* [n_tick] what comes, in replicas; NULL: `wanted`, always */
    const int32_t *asked; /* [n_tick] replicas the autoscaler asks for, 0..wanted; NULL: `wanted` */
    int wanted;           /* 1..SPOT_FLEET_REPLICAS_MAX */
    int extra;            /* of the policies of others, beside `wanted` */
    enum spot_fleet_fallback fallback; /* theirs too */
    size_t cold;                       /* ticks, 0 or more */
    double availability;               /* aim of ours and of the omniscient one, (0, 1) */
};

struct spot_fleet_result {
    double availability; /* share of ticks served */
    double cost_ratio;   /* to on demand for just the load in whole replicas (`wanted`, always) */
    double usd;
    double unserved_share;  /* of the load, in the tick in which it comes */
    double wait_s;          /* were it to queue instead, a request's mean wait: a fluid */
    double on_demand_share; /* of usd */
    size_t preempted, failed, spot_launches, on_demand_launches;
    double bound_usd; /* omniscient: no plan of that availability costs less; else 0 */
};

struct spot_fleet_step {
    int spot, spot_ready, on_demand, on_demand_ready;
    double usd;
};

/* extra and fallback that a policy is published with. */
void spot_fleet_defaults(struct spot_fleet_play *play, enum spot_fleet_policy policy);

/* step (NULL: of no interest) [n_tick]; in_zone (NULL) [n_tick][n_zone], spot replicas there.
 * Returns 0, or -1 with *err: SPOT_EUSAGE for what is out of range, SPOT_EINFEASIBLE where the
 * omniscient program would be too large or its availability cannot be had. */
int spot_fleet_play_run(const struct spot_fleet_play *play, enum spot_fleet_policy policy,
                        struct spot_fleet_result *result, struct spot_fleet_step *step,
                        int32_t *in_zone, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SIM_FLEET_SIM_H */
