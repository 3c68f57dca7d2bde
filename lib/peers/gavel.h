/* SPDX-License-Identifier: MIT */
/* gavel.h - Gavel (Narayanan et al., OSDI 2020): its policies as released.
 *
 * Source: github.com/stanford-futuredata/gavel, scheduler/policies. Corrected: makespan is one
 * program instead of a bisection to 5 %, finish-time fairness is solved with prices, and jobs that
 * are alike get equal shares. Its `max_min_fairness` and its `fifo` that ignore speeds are left
 * out: their shares are not unique, and results change by a quarter with the solution that a solver
 * happens to return. docs/design/20-share.md. */
#ifndef SPOT_PEERS_GAVEL_H
#define SPOT_PEERS_GAVEL_H

#include "plan/share.h"
#include "sim/share_play.h"

#ifdef __cplusplus
extern "C" {
#endif

enum spot_gavel_policy {
    SPOT_GAVEL_MAX_MIN_PERF, /* the minimum speed relative to the proportional allocation's (LAS) */
    SPOT_GAVEL_WATER_FILLING,  /* the same, then the second smallest, and so on */
    SPOT_GAVEL_FTF,            /* finish-time fairness: largest ratio to the time when isolated */
    SPOT_GAVEL_MAKESPAN,       /* time until all are done */
    SPOT_GAVEL_SUM_THROUGHPUT, /* sum of steps per second */
    SPOT_GAVEL_COST,           /* sum of steps per second, divided by usd per hour */
    SPOT_GAVEL_COST_SLO,       /* the same; each job meets its SLO, if all can */
    SPOT_GAVEL_FIFO_PERF,      /* by arrival, each job on the free type on which it is fastest */
    SPOT_GAVEL_ISOLATED,       /* an equal part of every type for each */
    SPOT_GAVEL_PROPORTIONAL,   /* the same, as wall time */
    SPOT_GAVEL_POLICIES
};

/* Returns 0, or -1 with *err: SPOT_EINFEASIBLE if a job has no type, SPOT_ESYS if the solver fails.
 */
int spot_gavel_allocate(const struct spot_share_problem *problem, enum spot_gavel_policy policy,
                        struct spot_share_answer *answer, struct spot_err *err);

/* steps/s of each job on its proportional part. */
void spot_gavel_proportional_rate(const struct spot_share_problem *problem, double *per_s);

extern const struct spot_share_player spot_gavel_players[]; /* by policy; ends with a NULL name */

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PEERS_GAVEL_H */
