/* SPDX-License-Identifier: MIT */
/* deadline_ahead.h - what a job with a deadline is to expect: it is played to its end many times,
 * on places whose runs are drawn from what is known of them. */
#ifndef SPOT_SIM_DEADLINE_AHEAD_H
#define SPOT_SIM_DEADLINE_AHEAD_H

#include <stddef.h>
#include <stdint.h>

#include "plan/deadline.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_deadline_ahead {
    const struct spot_market *market;
    const struct spot_run_dist *law; /* [n_place], of each on its own */
    const double *has_spot;          /* [n_place] P(it is there now) */
    struct spot_market_now now;      /* ages of its runs count, has_spot does not */
    struct spot_market_step first;   /* taken now, and granted */
    size_t plays;
    uint64_t seed;
};

struct spot_deadline_outlook {
    double usd, late, on_demand; /* means: cost, late or not, share of the paid hours */
    double moves; /* mean of launches, whether lost or left for a better place; the one that begins
                   * a job that does not run is none */
    size_t few, many; /* 5 % have fewer moves, 5 % more */
};

/* The policy is that of kind deadline, which knows the law. Returns 0, or -1 with *err. */
int spot_deadline_look_ahead(const struct spot_deadline_ahead *ahead,
                             struct spot_deadline_outlook *outlook, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SIM_DEADLINE_AHEAD_H */
