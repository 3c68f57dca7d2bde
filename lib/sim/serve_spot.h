/* SPDX-License-Identifier: MIT */
/* serve_spot.h - our own policy of serving in the simulator, and one that knows what comes.
 *
 * At every change, and each 30 s, it asks plan/serve_solver.h what should run on what is there, by
 * the arrivals and the losses seen so far. It holds what that needs and its spares, gives the rest
 * back, and asks for more when it wants more. One queue; a batch is what waits. A replica that
 * loses an instance hands over to a spare, whose weights come beside the answers, within the
 * notice; without a spare it takes no batch that would not end, or all change shape, if that is
 * worth its pause.
 */
#ifndef SPOT_SIM_SERVE_SPOT_H
#define SPOT_SIM_SERVE_SPOT_H

#include "sim/serve_play.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Clairvoyant: it knows the rate of the next minutes, and losses so early that a replacement is
 * there in time; and it takes those first that stay longest. Fills all of *result. */
void spot_serve_spot_run(const struct spot_serve_play *play, bool is_clairvoyant,
                         struct spot_serve_result *result);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SIM_SERVE_SPOT_H */
