/* SPDX-License-Identifier: MIT */
/* uniform_progress.h - the policies of Can't Be Late (Wu et al., NSDI 2024) for a job with a
 * deadline.
 *
 * Greedy uses spot whenever it is available, and on demand only when it must. Uniform Progress
 * keeps the share of work done in step with the share of time elapsed, and leaves on demand only if
 * it is two restarts ahead (hysteresis). Source: the paper's rules, and the intervals that its
 * simulator charged (skypilot-org/skypilot, sky-spot/sky_spot/strategies). The policies are for one
 * place: with several they keep what runs, take the place that is cheapest for its speed when they
 * want spot, and have the same guarantee. */
#ifndef SPOT_PEERS_UNIFORM_PROGRESS_H
#define SPOT_PEERS_UNIFORM_PROGRESS_H

#include "sim/deadline_sim.h"

#ifdef __cplusplus
extern "C" {
#endif

/* greedy, uniform-progress, uniform-no-hysteresis; ends with a NULL name. */
extern const struct spot_deadline_policy spot_uniform_progress[];

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PEERS_UNIFORM_PROGRESS_H */
