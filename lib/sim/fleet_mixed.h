/* SPDX-License-Identifier: MIT */
/* fleet_mixed.h - a load of several request sizes, on instances of several types, on spot in
 * several zones and on demand, under one policy.
 *
 * Ticks are those of fleet_sim.h: zones reclaim the newest, the policy launches and ends instances,
 * running ones are paid for the tick and serve from `cold` ticks after their launch on. Then a
 * router distributes the requests of the tick over the serving machines, so that the fewest are
 * unserved. An offer is a type in a zone or, without a zone, on demand.
 */
#ifndef SPOT_SIM_FLEET_MIXED_H
#define SPOT_SIM_FLEET_MIXED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    SPOT_MIXED_TYPES_MAX = 16,
    SPOT_MIXED_OFFERS_MAX = 64,
    SPOT_MIXED_BUCKETS_MAX = 256,
    /* limit on the machines of one offer that the policy spot holds */
    SPOT_MIXED_PER_OFFER_MAX = 1024,
};

struct spot_mixed_offer {
    const char *zone; /* NULL: on demand */
    size_t type;
    double usd_per_h; /* > 0 */
};

struct spot_mixed_play {
    size_t n_type, n_bucket, n_offer, n_spot, n_tick;
    const char *const *type;              /* [n_type] names */
    const struct spot_mixed_offer *offer; /* [n_offer], those of spot first */
    const int32_t *count;                 /* [n_tick][n_spot] available instances */
    const double *per_s;                  /* [n_bucket][n_type]; 0: it cannot */
    const double *load_per_s;             /* [n_tick][n_bucket] */
    const double *seen_per_s; /* [n_tick][n_bucket] what an autoscaler observes in its window */
    double tick_s;
    size_t cold;
    double unserved;          /* share of the requests: target of our policy, (0, 1) */
    double rho, up_s, down_s; /* parameters of the autoscaling policies */
};

/* The results of a fleet; _release it. */
struct spot_mixed_run {
    int32_t *held; /* [n_tick][n_offer] */
    double *ready; /* [n_tick][n_type] serving machines */
    double *left;  /* [n_tick] unserved requests */
    double *usd;   /* [n_tick] */
    double total_usd, on_demand_usd, unserved_share,
        availability; /* share of ticks in which all was served */
    size_t preempted;
};

/* The policy spot: the fleet that is cheapest including its expected unserved requests at a price.
 * The price is adjusted so that their share approaches the target. Returns 0, or -1 with
 * SPOT_EINFEASIBLE if it would hold more than SPOT_MIXED_PER_OFFER_MAX machines of an offer. */
int spot_mixed_spot(const struct spot_mixed_play *play, struct spot_mixed_run *run,
                    struct spot_err *err);

/* On demand, the cheapest mix for the load that an autoscaler observes, at rho, after its
 * delays; or, is_peak, for the maximum of each size at all times. Returns 0, or -1 with
 * SPOT_EINFEASIBLE. */
int spot_mixed_on_demand(const struct spot_mixed_play *play, bool is_peak,
                         struct spot_mixed_run *run, struct spot_err *err);

/* Complete a run given by `held` and `ready`: unserved requests, and the totals. */
void spot_mixed_account(const struct spot_mixed_play *play, struct spot_mixed_run *run);
void spot_mixed_release(struct spot_mixed_run *run);

/* Allocate a run's series. */
void spot_mixed_init(const struct spot_mixed_play *play, struct spot_mixed_run *run);

/* The maximum number of instances ever available of a spot offer. */
int32_t spot_mixed_most_there(const struct spot_mixed_play *play, size_t offer);

/* The lowest cost of a request of a bucket, usd, on the offers from `first` on, with machines that
 * serve all the time; HUGE_VAL: none of them can. */
double spot_mixed_request_usd(const struct spot_mixed_play *play, size_t bucket, size_t first);

/* --- bounds with the whole trace known --- */

/* Possible loads, with weights that sum to 1 in every tick. */
struct spot_mixed_dist {
    size_t n;
    double *weight; /* [n_tick][n] */
    double *per_s;  /* [n_tick][n][n_bucket] */
};

/* The distribution of the load given only the last known load: in each tick, the loads of all ticks
 * for which the last load known at launch time was similar to the current one. */
void spot_mixed_dist_init(const struct spot_mixed_play *play, struct spot_mixed_dist *dist);
void spot_mixed_dist_release(struct spot_mixed_dist *dist);

/* A proven lower bound from the linear program with fractional machines, which knows the trace.
 * With a distribution of loads (may be NULL) the program knows spot, but only the distribution of
 * the load: unserved requests are then a mean. */
struct spot_mixed_bound;

/* `play` and `dist` are borrowed. */
struct spot_mixed_bound *spot_mixed_bound_new(const struct spot_mixed_play *play,
                                              const struct spot_mixed_dist *dist);
void spot_mixed_bound_free(struct spot_mixed_bound *bound);

/* Prove the best bound found for fleets that leave at most `left` requests unserved. */
void spot_mixed_bound_climb(struct spot_mixed_bound *bound, double left);

/* The best proven lower bound on the cost of any fleet, integer or fractional, that leaves at most
 * `left` requests unserved. */
double spot_mixed_bound_at(const struct spot_mixed_bound *bound, double left);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SIM_FLEET_MIXED_H */
