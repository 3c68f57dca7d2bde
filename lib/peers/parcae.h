/* SPDX-License-Identifier: MIT */
/* parcae.h - Parcae's published optimiser (NSDI 2024), decision by decision, with exact costs.
 *
 * State after an interval: a grid, and whether a migration is unfinished. Value: samples, and for
 * an unfinished migration the seconds that remain. For forecast changes (gained, lost) of the next
 * intervals it maximises the samples of the look-ahead; only the first step is executed.
 *   total = C, or C + R(target) if a migration is unfinished and C > 0, or what remains if C = 0.
 * If total <= T the interval gives throughput * (T - total), else nothing and total - T
 * remains. With table->carries_rest a change that meets an unfinished migration drops nothing:
 * total is the state that still has to move, then C, and no less than what remained. Ties go to
 * the predecessor with fewer stages. Terminal value 0.
 */
#ifndef SPOT_PEERS_PARCAE_H
#define SPOT_PEERS_PARCAE_H

#include "forecast/forecaster.h"
#include "plan/cost_table.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The grid for the next interval, or SPOT_GRID_NONE if none fits. gained, lost [n_step], with
 * counts within 0..n_max. value may be NULL; it gets the expected samples. */
int spot_parcae_choose(struct spot_cost_table *table, const struct spot_cost_state *state,
                       const int *gained, const int *lost, int n_step, double interval_s,
                       double *value);

/* Its predictor, for spot_forecasters_more; ends with a NULL name. */
extern const struct spot_forecaster spot_peer_forecasters[];

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PEERS_PARCAE_H */
