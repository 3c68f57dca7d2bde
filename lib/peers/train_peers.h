/* SPDX-License-Identifier: MIT */
/* train_peers.h - policies of spot-replay train that follow other systems.
 *
 * Parcae (NSDI 2024), its predictor and its baseline: JF-D/Parcae, efedee7. Varuna (EuroSys 2022),
 * Bamboo (NSDI 2023), Oobleck (SOSP 2023), torchft and torchrun: peer_model.h has the source of
 * every constant, the file of each what was corrected. */
#ifndef SPOT_PEERS_TRAIN_PEERS_H
#define SPOT_PEERS_TRAIN_PEERS_H

#include "peers/peer_model.h"
#include "sim/sim_policy.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Their rows for --policy; ends with a NULL name. */
extern const struct spot_sim_policy spot_peer_policies[];

spot_sim_run_fn spot_sim_throughput, spot_sim_truth, spot_sim_persistence, spot_sim_nowcast,
    spot_sim_parcae;
spot_sim_run_fn spot_sim_varuna, spot_sim_bamboo, spot_sim_oobleck, spot_sim_torchft;
spot_sim_run_fn spot_sim_torchrun, spot_sim_varuna_released, spot_sim_bamboo_released;

/* Samples per second of D x P; by the fitted curve if the profile has no entry, as is often so for
 * other systems' grids. */
double spot_sim_speed(const struct spot_sim_train *sim, int d, int p);

/* The costs charged to other systems. */
const struct spot_peer_prices *spot_sim_peers(const struct spot_sim_train *sim);

/* intervals before the run, in which one change is assumed */
enum { SPOT_SIM_PRIOR_INTERVALS = 10 };

/* Young's and Daly's interval between checkpoints, from events so far. */
double spot_sim_save_every_s(const struct spot_sim_train *sim, double save_s, size_t n_change,
                             size_t n_seen);

/* Lost samples were counted when they were processed: move them, newest first, from samples and
 * effective time to lost and redone. */
void spot_sim_settle_losses(struct spot_sim_row *row, size_t n);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PEERS_TRAIN_PEERS_H */
