/* SPDX-License-Identifier: MIT */
/* deadline_sim.h - a job with a deadline on recorded series of spot availability in one or several
 * places. */
#ifndef SPOT_SIM_DEADLINE_SIM_H
#define SPOT_SIM_DEADLINE_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plan/deadline.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_deadline_policy {
    const char *name, *about;
    /* a rule, with `memory` bytes of state for each job, initially zero; NULL: the decision of that
     * name (plan/decision.h), or a policy that knows the future */
    struct spot_market_step (*follow)(const struct spot_market *market,
                                      const struct spot_market_now *now, void *memory);
    size_t memory;
    bool knows_law; /* the run lengths of the whole series */
    /* knows the whole series: its cost is a bound, with every restart in the shortest time; if work
     * is rounded its steps may cost more */
    bool knows_series;
};

/* on-demand, spot, known-law, offline; ends with a NULL name. */
extern const struct spot_deadline_policy spot_deadline_policies[];

/* has_spot [n][n_place], a tick each; the job begins at tick `start`, with the earlier ticks known.
 * The run distributions of market.place are ignored. */
struct spot_deadline_play {
    struct spot_market market;
    const uint8_t *has_spot;
    const double *spot_usd_per_h; /* [n][n_place]; NULL: as in market */
    size_t n, start;
    int64_t learn_ticks; /* ticks after which our policy learns again; 0: never */
    uint64_t seed;       /* for restart times, which are a function of it, the tick and the place */
};

struct spot_deadline_result {
    double usd, finish_s;
    bool is_late;
    size_t switches; /* launches except the first */
};

/* A simulated tick. */
struct spot_deadline_tick {
    struct spot_market_step step;
    double left_s;   /* work after it */
    int64_t pending; /* ticks since a launch that is still in progress after it */
};

/* tick (NULL: not wanted) receives each tick up to the deadline. After the end of the series there
 * is no spot. Without on demand a late job ends at its deadline, and only policies of
 * plan/decision.h are simulated. Returns 0, or -1 with *err (SPOT_EINFEASIBLE, SPOT_EUSAGE). */
int spot_deadline_play_run(const struct spot_deadline_play *play,
                           const struct spot_deadline_policy *policy,
                           struct spot_deadline_result *result, struct spot_deadline_tick *tick,
                           struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SIM_DEADLINE_SIM_H */
