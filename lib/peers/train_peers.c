/* SPDX-License-Identifier: MIT */
#include "peers/train_peers.h"

#include <stdio.h>
#include <string.h>

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

const struct spot_sim_policy *spot_peer_policy_at(size_t i)
{
    size_t ours = 0;

    while (spot_sim_policies[ours].name)
        if (ours++ == i)
            return &spot_sim_policies[i];
    for (size_t k = 0; spot_peer_policies[k].name; k++)
        if (ours + k == i)
            return &spot_peer_policies[k];
    return NULL;
}

const struct spot_sim_policy *spot_peer_policy_find(const char *name, struct spot_err *err)
{
    const struct spot_sim_policy *p;
    char known[512] = "";

    for (size_t i = 0; (p = spot_peer_policy_at(i)); i++) {
        if (!strcmp(p->name, name))
            return p;
        snprintf(known + strlen(known), sizeof(known) - strlen(known), "%s%s", *known ? ", " : "",
                 p->name);
    }
    spot_err_set(err, SPOT_EUSAGE, "unknown policy '%.32s'; there are %s", name, known);
    return NULL;
}
