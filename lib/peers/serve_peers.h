/* SPDX-License-Identifier: MIT */
/* serve_peers.h - policies of spot-replay serve that follow SpotServe (Miao et al., ASPLOS 2024;
 * Hsword/SpotServe, branch artifact, 832b29f) and the baselines of its paper; and the function that
 * runs any policy, including ours.
 *
 * Corrected: the batch is the one that the rule chose, except for spotserve-released; the rate is
 * measured (it is an input of the artifact); moves take the time planned by spot-migrate, or
 * --switch. */
#ifndef SPOT_PEERS_SERVE_PEERS_H
#define SPOT_PEERS_SERVE_PEERS_H

#include <stdint.h>

#include "common/err.h"
#include "sim/serve_play.h"

#ifdef __cplusplus
extern "C" {
#endif

enum spot_serve_policy {
    /* Pipelines keep the (P, M) of the start. A pipeline that loses an instance ends, others
     * continue; free instances become a pipeline when there are enough. */
    SPOT_SERVE_REROUTING,
    /* At every change SpotServe's rule is applied, and all pipelines restart from storage. */
    SPOT_SERVE_REPARALLELIZATION,
    /* The rule, with weights and answers moved within the grace period: no answer is repeated
     * unless there is no place for it. If a move takes longer than the grace period, everything
     * restarts from storage instead. A change during another one waits for its end. */
    SPOT_SERVE_SPOTSERVE,
    /* As in its artifact: the batch is max_batch, whatever the rule chose. */
    SPOT_SERVE_SPOTSERVE_RELEASED,
    SPOT_SERVE_SPOT,        /* ours: sim/serve_spot.h */
    SPOT_SERVE_CLAIRVOYANT, /* ours, with knowledge of the future */
    /* A fixed number of instances, never lost. */
    SPOT_SERVE_ON_DEMAND,
    SPOT_SERVE_POLICIES
};

struct spot_serve_row {
    const char *name, *about;
};

extern const struct spot_serve_row spot_serve_row[]; /* by policy; ends with a NULL name */

/* `n` is for SPOT_SERVE_ON_DEMAND. Returns 0, or -1 with *err (SPOT_EINFEASIBLE): `n` instances do
 * not hold the model. */
int spot_serve_play_run(const struct spot_serve_play *play, enum spot_serve_policy policy,
                        int64_t n, struct spot_serve_result *result, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PEERS_SERVE_PEERS_H */
