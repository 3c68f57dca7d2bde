/* SPDX-License-Identifier: MIT */
/* fleet_mixed.h - a load of several request sizes, on instances of several types, on spot of
 * several zones and on demand, under one policy.
 *
 * Ticks are those of fleet_sim.h: zones take the newest, the policy launches and ends, what runs is
 * paid for the tick and answers from `cold` ticks after its launch on. Then a router splits the
 * requests of the tick over the machines that answer, so that the fewest stay unserved. An offer is
 * a type in a zone or, without a zone, on demand.
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

enum { SPOT_MIXED_TYPES_MAX = 16, SPOT_MIXED_OFFERS_MAX = 64, SPOT_MIXED_BUCKETS_MAX = 256 };

struct spot_mixed_offer {
    const char *zone; /* NULL: on demand */
    size_t type;
    double usd_per_h; /* > 0 */
};

struct spot_mixed_play {
    size_t n_type, n_bucket, n_offer, n_spot, n_tick;
    const char *const *type;              /* [n_type] names */
    const struct spot_mixed_offer *offer; /* [n_offer], those of spot first */
    const int32_t *count;                 /* [n_tick][n_spot] instances that can be had */
    const double *per_s;                  /* [n_bucket][n_type]; 0: it cannot */
    const double *load_per_s;             /* [n_tick][n_bucket] */
    const double *seen_per_s; /* [n_tick][n_bucket] what an autoscaler knows in its window */
    double tick_s;
    size_t cold;
    double unserved;          /* share of the requests: aim of ours, (0, 1) */
    double rho, up_s, down_s; /* of those that autoscale */
};

/* What a fleet did; _release it. */
struct spot_mixed_run {
    int32_t *held; /* [n_tick][n_offer] */
    double *ready; /* [n_tick][n_type] machines that answer */
    double *left;  /* [n_tick] requests that stay unserved */
    double *usd;   /* [n_tick] */
    double total_usd, on_demand_usd, unserved_share, availability; /* share of ticks all served */
    size_t preempted;
};

/* Ours: the fleet that is cheapest with its expected unserved requests at a price, which rises and
 * falls so that the share comes to the aim. */
void spot_mixed_spot(const struct spot_mixed_play *play, struct spot_mixed_run *run);

/* On demand, the cheapest mix for what an autoscaler sees, at rho, after its delays; or for the
 * most of each size that ever comes, always. Returns 0, or -1 with SPOT_EINFEASIBLE. */
int spot_mixed_on_demand(const struct spot_mixed_play *play, bool is_peak,
                         struct spot_mixed_run *run, struct spot_err *err);

/* Of a fleet known by `held` and `ready`: what is left, and the totals. */
void spot_mixed_account(const struct spot_mixed_play *play, struct spot_mixed_run *run);
void spot_mixed_release(struct spot_mixed_run *run);

/* Room for a run's series. */
void spot_mixed_init(const struct spot_mixed_play *play, struct spot_mixed_run *run);

/* The most instances that can ever be had of an offer of spot. */
int32_t spot_mixed_most_there(const struct spot_mixed_play *play, size_t offer);

/* The least that a request of a bucket costs, usd, on the offers from `first` on, of machines that
 * answer always; HUGE_VAL: none of them can. */
double spot_mixed_request_usd(const struct spot_mixed_play *play, size_t bucket, size_t first);

/* --- what the whole trace known would cost --- */

/* Loads that may come, each with a weight; of sum 1 in every tick. */
struct spot_mixed_law {
    size_t n;
    double *weight; /* [n_tick][n] */
    double *per_s;  /* [n_tick][n][n_bucket] */
};

/* What is known of a load by one who knows what comes after what, but no more: in each tick the
 * loads of all ticks before which, when a machine had to be launched, a load like that of now was
 * the last that had come. */
void spot_mixed_law_init(const struct spot_mixed_play *play, struct spot_mixed_law *law);
void spot_mixed_law_release(struct spot_mixed_law *law);

/* What is proven of the omniscient linear program, in which machines may be divided. With a law
 * (else NULL) it knows spot, and of the load that alone: machines answer what comes, requests stay
 * unserved in the mean. */
struct spot_mixed_bound;

/* `play` and `law` are borrowed. */
struct spot_mixed_bound *spot_mixed_bound_new(const struct spot_mixed_play *play,
                                              const struct spot_mixed_law *law);
void spot_mixed_bound_free(struct spot_mixed_bound *bound);

/* Prove the most that can be found for fleets that leave at most `left` requests unserved. */
void spot_mixed_bound_climb(struct spot_mixed_bound *bound, double left);

/* No fleet, whole or divided, that leaves at most `left` requests unserved costs less, by all that
 * was proven for any amount. */
double spot_mixed_bound_at(const struct spot_mixed_bound *bound, double left);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SIM_FLEET_MIXED_H */
