/* SPDX-License-Identifier: MIT */
/* skynomad.h - the rule of SkyNomad (Li et al., arXiv 2601.06520v1, NSDI 2027), after its paper
 * (section 3, appendix A.3) and its artifact (andylizf/skynomad-artifact, 62b9aaa1).
 *
 * An hour of progress has a value V: the price on demand times the rate that is still needed,
 * divided by the rate so far (equation 8) or by the rate planned at first (what the artifact ran on
 * V100s). Spot with an expected lifetime L is worth V (L - restart) / L - price - move / L, a
 * running instance V - price, on demand V - price, and idling nothing; the best one is taken if it
 * exceeds the running one by a margin. L is the mean remaining lifetime at the current age, by the
 * Nelson-Aalen estimator, with the hazard multiplied by the ratio of recent losses to expected
 * ones.
 *
 * Corrections: before any progress V is that of the planned rate, and it is never below the
 * cheapest spot (as in the artifact); spot is observed in every zone at every tick without cost
 * instead of by probes every two hours, so a virtual instance ends when spot does; idling ends the
 * running instance, as in the paper's algorithm (the artifact keeps it); the safety net counts
 * whole ticks, as for all policies here. L is limited only by the deadline. */
#ifndef SPOT_PEERS_SKYNOMAD_H
#define SPOT_PEERS_SKYNOMAD_H

#include "sim/deadline_sim.h"

#ifdef __cplusplus
extern "C" {
#endif

/* skynomad, skynomad-planned; ends with a NULL name. */
extern const struct spot_deadline_policy spot_skynomad[];

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PEERS_SKYNOMAD_H */
