/* SPDX-License-Identifier: MIT */
/* price_sim.h - the cost of a job on recorded spot prices, in one place or moving from day to day.
 *
 * The published strategies are those of Narayanan et al. (DISPA 2020) that need one cloud, as their
 * notebook computes them: a day has one price, a zone is offered on the days on which its price
 * changed, all of a day's changes are known when it begins, and the job is cut off at the last day.
 * Ours see only prices up to now and pay them as they change. Losses are taken in expectation: at
 * loss_per_h losses an hour a job computes 1 / (1 + loss_per_h restart) of the time.
 */
#ifndef SPOT_PEERS_PRICE_SIM_H
#define SPOT_PEERS_PRICE_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

#ifdef __cplusplus
extern "C" {
#endif

enum spot_price_policy {
    SPOT_PRICE_BASELINE, /* published: the cheapest zone of the fastest single GPU, permanently */
    SPOT_PRICE_GPU_TYPE, /* published: any type of one GPU */
    SPOT_PRICE_PACKED,   /* published: also a share of instances with several */
    SPOT_PRICE_DYNAMIC,  /* published: chosen each day */
    SPOT_PRICE_STAY,     /* the cheapest current offer, permanently */
    SPOT_PRICE_CHASE,    /* the cheapest offer of each day */
    SPOT_PRICE_SPOT,     /* ours: changes the offer only if that pays for the move */
    SPOT_PRICE_POLICIES
};
struct spot_price_row {
    const char *name, *about;
};
extern const struct spot_price_row spot_price_row[]; /* by policy; ends with a NULL name */

struct spot_price_offer {
    const char *zone, *type;
    size_t rank;  /* of its type among the types: ties go to the lowest */
    int64_t gpus; /* the job uses one of them and pays its share */
    double speed; /* of the job on one */
    int region;
};

struct spot_price_change {
    double time_s, usd_per_h; /* of an instance */
    size_t offer;
};

struct spot_price_history {
    const struct spot_price_offer *offer;   /* [n_offer] */
    const struct spot_price_change *change; /* [n_change], time ascending, from 0 s: midnight */
    size_t n_offer, n_change;
};

struct spot_price_job {
    double work_h; /* at speed 1 */
    double restart_h, egress_usd, loss_per_h;
    int64_t start_day;
    size_t *taken, n_taken; /* [n_taken] the offer of each of its first days, unless NULL */
};

struct spot_price_result {
    double usd, hours;
    int64_t moves;
    bool is_cut; /* the history ended first: the rest is at the last price */
};

/* The days on which the baseline's type changed its price, in order. Returns how many; day (NULL:
 * not wanted) has room for `room` of them. */
size_t spot_price_days(const struct spot_price_history *history, int64_t *day, size_t room);

/* Returns 0, or -1 with *err (SPOT_EINFEASIBLE: there is no offer when it starts). */
int spot_price_play(const struct spot_price_history *history, const struct spot_price_job *job,
                    enum spot_price_policy policy, struct spot_price_result *result,
                    struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PEERS_PRICE_SIM_H */
