/* SPDX-License-Identifier: MIT */
/* deadline_ahead.h - the expected course of a job with a deadline: simulates it to its end many
 * times, with runs of places drawn from their distributions. */
#ifndef SPOT_SIM_DEADLINE_AHEAD_H
#define SPOT_SIM_DEADLINE_AHEAD_H

#include <stddef.h>
#include <stdint.h>

#include "plan/ask_order.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_deadline_ahead {
    const struct spot_market *market;
    const struct spot_run_dist *law; /* [n_place], independent distributions of runs */
    const double *has_spot;          /* [n_place] probability that spot is available now */
    struct spot_market_now now;      /* the ages of its runs are used; its has_spot is not */
    const struct spot_ask *ask;      /* [n_ask] the places to ask now, in this order */
    size_t n_ask;
    struct spot_market_step first; /* the step taken now if all of them refuse */
    size_t plays;
    uint64_t seed;
};

struct spot_deadline_outlook {
    double usd, late, on_demand; /* means: cost, late or not, share of the paid hours */
    /* mean number of launches after losses or for a better place, without the first launch of a job
     */
    double moves;
    size_t few, many; /* 5 % of the simulated jobs have fewer moves, 5 % have more */
};

/* The policy is that of kind deadline, and it knows the distributions. Returns 0, or -1 with *err.
 */
int spot_deadline_look_ahead(const struct spot_deadline_ahead *ahead,
                             struct spot_deadline_outlook *outlook, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SIM_DEADLINE_AHEAD_H */
