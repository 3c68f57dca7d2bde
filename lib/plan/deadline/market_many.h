/* SPDX-License-Identifier: MIT */
/* market_many.h - decisions for many places: a dynamic program over time left, work left, the place
 * of the job, and the cheapest place with spot. Places are ranked by the price of work. The rank j
 * of the cheapest place with spot, or none, is a Markov chain: that place loses spot with the
 * hazard of its runs, a better one becomes available at a rate, and the next one is drawn from the
 * shares of time in which one of the j cheapest had spot. Shares and hazards are the observed ones,
 * with a prior. Prices are assumed constant. The program's steps are several ticks, so that it is
 * small; decisions are made at every tick.
 */
#ifndef SPOT_PLAN_DEADLINE_MARKET_MANY_H
#define SPOT_PLAN_DEADLINE_MARKET_MANY_H

#include <stdint.h>

#include "plan/deadline.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Where spot was available, one bit for each place, by tick. */
struct market_seen {
    uint32_t *there; /* [n] */
    size_t n, cap;
};
void market_seen_add(struct market_seen *seen, const bool *has_spot, size_t n_place);

struct market_many {
    size_t n;
    bool is_known; /* from a law, not learned */
    /* place of a rank, rank of a place */
    size_t place[SPOT_MARKET_PLACES_MAX], rank[SPOT_MARKET_PLACES_MAX];
    /* cost of a step by rank; the last one is on demand */
    double usd[SPOT_MARKET_PLACES_MAX + 1];
    double speed[SPOT_MARKET_PLACES_MAX + 1]; /* work per step, likewise */
    double end[SPOT_MARKET_PLACES_MAX]; /* probability that spot is lost a step later, by rank */
    /* the same a tick later, by place and age */
    double hazard[SPOT_MARKET_PLACES_MAX][SPOT_RUN_STAGES];
    /* share of time in which this rank is the cheapest with spot; the last: none has spot */
    double share[SPOT_MARKET_PLACES_MAX + 1];
    double better;   /* probability that a better place becomes available in a step */
    double late_usd; /* as in spot_market_late_usd, 0 if on demand is sold */
    double wait, worst,
        launch_usd; /* of a launch: steps without progress, their maximum, usd of moves */
    int64_t step_ticks, n_level, steps, n_keep; /* of the table; steps: steps left at its start */
    double *then; /* [n_keep][n + 2][n + 1][n_level]: expected cost from a step later on */
    double *lost; /* [n_keep][n_level]: the same if the running instance is lost by then */
};

/* Learn the parameters for the whole job: from observations, with counted runs [n_place], or from
 * the given law [n_place] of independent places. Prices are those of the market.
 */
void market_many_learn(struct market_many *t, const struct spot_market *m,
                       const struct market_seen *seen, const struct spot_run_count *count,
                       const struct spot_run_dist *law);

/* The table for the next keep_ticks. */
void market_many_solve(struct market_many *t, const struct spot_market *m,
                       const struct spot_market_now *now, int64_t keep_ticks);
void market_many_release(struct market_many *t);

/* The cheapest safe step; step_usd (NULL: not wanted) as of spot_market_weigh. */
struct spot_market_step market_many_ask(const struct market_many *t, const struct spot_market *m,
                                        const struct spot_market_now *now, double (*step_usd)[3]);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PLAN_DEADLINE_MARKET_MANY_H */
