/* SPDX-License-Identifier: MIT */
#include "peers/train_peers.h"

const struct spot_sim_policy spot_peer_policies[] = {
    { "parcae-truth", "Parcae's optimiser, its look-ahead known", spot_sim_truth, false, NULL },
    { "nowcast", "Parcae's optimiser, the notified change known, then flat", spot_sim_nowcast,
      false, NULL },
    { "parcae", "Parcae's optimiser with its own predictor", spot_sim_parcae, false, NULL },
    { "persistence", "Parcae's optimiser, a flat forecast", spot_sim_persistence, false, NULL },
    { "throughput", "Parcae's baseline: the fastest grid, from a checkpoint at every change",
      spot_sim_throughput, false, NULL },
    { "varuna", "checkpoint on notice, kill, relaunch with the fastest grid", spot_sim_varuna,
      false, "own links" },
    { "varuna-released", "varuna with the grids of its own AutoConfig and simulator",
      spot_sim_varuna_released, false, "own grids" },
    { "bamboo", "redundant computation by neighbours: its simulator, corrected", spot_sim_bamboo,
      false, "own times" },
    { "bamboo-released", "the same with the defects of its release", spot_sim_bamboo_released,
      false, "own times" },
    { "oobleck", "pipeline templates, survivors copy layers", spot_sim_oobleck, false,
      "own copying" },
    { "torchft", "a pipeline lives or dies as a whole", spot_sim_torchft, false, "own joining" },
    { "torchrun", "restart all from periodic checkpoints", spot_sim_torchrun, false, "own links" },
    { 0 },
};
