/* SPDX-License-Identifier: MIT */
/* evolved.h - policies that programs wrote for the public benchmark Can't Be Late with several
 * regions (ADRS), described in our words and implemented anew.
 *
 * Source: UCB-ADRS/ADRS-Leaderboard, f856497d, solutions/cant_be_late_multi: LEVI, OpenEvolve,
 * GEPA, ShinkaEvolve. Each policy watches one zone, which it may change; none considers prices.
 *
 * levi: spot in the watched zone, else in the first zone that has it; else on demand, if it is
 * behind an even pace or has less than an hour or 5 % of the deadline to spare.
 *
 * openevolve: spot in the watched zone; else it watches the zone not watched for longest; on demand
 * if its buffer is below 15 s and 1 % of the work, or if it is behind an even pace by more than a
 * fifth of the slack.
 *
 * gepa: spot in the watched zone; else in the first that has it, in the order: zones last seen with
 * it, zones never seen, zones seen with it most often; it waits for at most five ticks, then uses
 * on demand.
 *
 * shinka: spot in the watched zone; else the zone with the best mean observation plus a bonus for
 * not having been watched, with pauses if that continues; on demand if behind a pace whose lead
 * falls with the cube of time.
 *
 * Corrections: the benchmark lets a running job move at no cost and charges all hours at the first
 * price of the last zone; here every launch is charged, and each hour at its own price. As the last
 * resort, on demand is used while it alone can still finish in time, as for all policies here. */
#ifndef SPOT_PEERS_EVOLVED_H
#define SPOT_PEERS_EVOLVED_H

#include "sim/deadline_sim.h"

#ifdef __cplusplus
extern "C" {
#endif

/* levi, openevolve, gepa, shinka; ends with a NULL name. */
extern const struct spot_deadline_policy spot_evolved[];

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PEERS_EVOLVED_H */
