/* SPDX-License-Identifier: MIT */
/* market_sim.h - a job with a deadline on recorded series of spot availability in several
 * places. */
#ifndef SPOT_SIM_MARKET_SIM_H
#define SPOT_SIM_MARKET_SIM_H

#include "plan/deadline_market.h"
#include "sim/deadline_sim.h"

#ifdef __cplusplus
extern "C" {
#endif

/* has_spot [n][n_place], a tick each; the job begins at tick `start`, with the earlier ticks known.
 * The run distributions of market.place are ignored. */
struct spot_market_play {
    struct spot_market market;
    const uint8_t *has_spot;
    size_t n, start;
    int64_t learn_ticks; /* ours solves again after this many; 0: never */
    uint64_t seed;       /* of restart times, each a function of it, the tick and the place */
};

/* The policies of deadline_sim.h. The published ones are for one place: here they keep what
 * runs, take the cheapest place for its speed when they want spot, and have the same deadline
 * guarantee. The offline optimum is a bound: it starts in the shortest restart time. step and
 * left_s (NULL: not wanted) get the step of each tick and the work left after it, up to the
 * deadline. After the end of the series there is no spot. Returns 0, or -1 with *err
 * (SPOT_EINFEASIBLE, SPOT_EUSAGE). */
int spot_market_play_run(const struct spot_market_play *play, enum spot_deadline_policy policy,
                         struct spot_deadline_result *result, struct spot_market_step *step,
                         double *left_s, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SIM_MARKET_SIM_H */
