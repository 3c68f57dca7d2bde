/* SPDX-License-Identifier: MIT */
/* serve_spot.h - our own serving policy in the simulator, and one with knowledge of the future.
 *
 * At every change, and each 30 s, it calls the same decision as spot-plan serve (plan/decision.h,
 * kind "serve") with the observations so far. It holds the instances and spares of the decision,
 * releases the rest, and requests more when needed. There is one queue; a batch takes the waiting
 * requests. A replica that loses an instance moves to a spare, whose weights are loaded within the
 * notice while the replica serves. Without a spare it takes no batch that would not finish, or all
 * replicas change shape, if that is worth the pause.
 */
#ifndef SPOT_SIM_SERVE_SPOT_H
#define SPOT_SIM_SERVE_SPOT_H

#include "sim/serve_play.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A clairvoyant policy knows the rate of the next minutes, and losses early enough to have a
 * replacement in time; it prefers the instances that last longest. Fills all of *result. */
void spot_serve_spot_run(const struct spot_serve_play *play, bool is_clairvoyant,
                         struct spot_serve_result *result);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SIM_SERVE_SPOT_H */
