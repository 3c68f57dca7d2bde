/* SPDX-License-Identifier: MIT */
/* market_many.h - what a tick is worth when there are many places: a dynamic program over time
 * left, work left, where the job runs, and which is the cheapest place with spot.
 *
 * Places are ranked by the price of work. That the cheapest with spot is the one of rank j, or
 * none, is a Markov chain: the place goes away with the hazard of its runs, a better one turns up
 * at a rate, and what is then found is drawn from the shares of time in which one of the j
 * cheapest had spot. Shares and hazards are those seen so far, with a prior. Prices stay as they
 * are. Time goes in steps of some ticks, so that the program is small; what is decided is decided
 * at every tick.
 */
#ifndef SPOT_PLAN_DEADLINE_MARKET_MANY_H
#define SPOT_PLAN_DEADLINE_MARKET_MANY_H

#include <stdint.h>

#include "plan/deadline.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Where spot was, a bit for each place and tick. */
struct market_seen {
    uint32_t *there; /* [n] */
    size_t n, cap;
};
void market_seen_add(struct market_seen *seen, const bool *has_spot, size_t n_place);

struct market_many {
    size_t n;
    size_t place[SPOT_MARKET_PLACES_MAX], rank[SPOT_MARKET_PLACES_MAX]; /* of a rank, of a place */
    double usd[SPOT_MARKET_PLACES_MAX + 1];   /* of a step, by rank; the last: on demand */
    double speed[SPOT_MARKET_PLACES_MAX + 1]; /* the same */
    double end[SPOT_MARKET_PLACES_MAX];       /* that spot is gone a step later, by rank */
    double hazard[SPOT_MARKET_PLACES_MAX][SPOT_RUN_STAGES]; /* a tick later, by place and age */
    double share[SPOT_MARKET_PLACES_MAX + 1]; /* of time: the cheapest is this one, or none */
    double better;                            /* that something turns up in a step */
    double late_usd;                          /* that of a market, 0 if on demand is sold */
    double wait, worst, launch_usd; /* of a launch: steps without progress, at most, moves */
    int64_t step_ticks, n_level, steps, n_keep; /* of the table: steps left at first */
    double *then; /* [n_keep][n + 2][n + 1][n_level]: what is still paid a step later */
    double *lost; /* [n_keep][n_level]: the same if what runs is gone then */
};

/* What was learnt, for the job as a whole: of what was seen, with its runs counted [n_place], or of
 * the law [n_place] of places that are independent, if it is told. Prices are those of the market.
 */
void market_many_learn(struct market_many *t, const struct spot_market *m,
                       const struct market_seen *seen, const struct spot_run_count *count,
                       const struct spot_run_dist *law);

/* The table for the next keep_ticks. */
void market_many_solve(struct market_many *t, const struct spot_market *m,
                       const struct spot_market_now *now, int64_t keep_ticks);
void market_many_release(struct market_many *t);

/* The cheapest safe step; step_usd (NULL: not wanted) as that of struct spot_market_table. */
struct spot_market_step market_many_ask(const struct market_many *t, const struct spot_market *m,
                                        const struct spot_market_now *now, double (*step_usd)[3]);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PLAN_DEADLINE_MARKET_MANY_H */
