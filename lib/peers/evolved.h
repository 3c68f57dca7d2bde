/* SPDX-License-Identifier: MIT */
/* evolved.h - policies that programs wrote for the public benchmark Can't Be Late, several regions
 * (ADRS), described in our words and written anew.
 *
 * Source: UCB-ADRS/ADRS-Leaderboard, f856497d, solutions/cant_be_late_multi: LEVI, OpenEvolve,
 * GEPA, ShinkaEvolve. Each watches one zone, which it may change; none considers prices.
 *   levi       spot where it watches, else in the first zone that has it; else on demand if behind
 *              an even pace or with less than an hour or 5 % of the deadline to spare
 *   openevolve spot where it watches; else the zone it has not watched for longest; on demand
 *              below a buffer of 15 s and 1 % of the work, or behind an even pace by more than a
 *              fifth of the slack
 *   gepa       spot where it watches, else in the first that has it of those last seen with it,
 *              never seen, seen with it most often; it waits five ticks at most, then on demand
 *   shinka     spot where it watches; else the zone of the best mean of what was seen with a bonus
 *              for not having been watched, with rests when that goes on; on demand behind a pace
 *              whose lead falls with the cube of time
 * Corrections: the benchmark lets a running job move at no cost and charges all hours at the last
 * zone's first price; here every launch is charged, and each hour at its own price. Its last
 * resort, on demand when that alone can still be in time, is that of all policies here.
 */
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
