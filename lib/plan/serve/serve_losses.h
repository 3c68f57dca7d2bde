/* SPDX-License-Identifier: MIT */
/* serve_losses.h - how many instances are being replaced at a time, if instances of a place are
 * lost together.
 *
 * Losses come in batches: of one instance, or a shock that takes each instance of a place with
 * probability `reach`. Batches are Poisson, and each lost instance is missing for repair_s, so the
 * number missing is compound Poisson (a queue M^X/D/inf): exact by Panjer's recursion (1981).
 * Spares are lost like other instances. */
#ifndef SPOT_PLAN_SERVE_SERVE_LOSSES_H
#define SPOT_PLAN_SERVE_SERVE_LOSSES_H

#include <stdint.h>

#include "plan/serve_solver.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Share of the time in which more than `spares` of used + spares instances, >= 1, are away. */
double spot_serve_share_beyond(const struct spot_serve_ask *ask, int64_t used, int64_t spares);

/* The fewest spares, at most all instances, with which that share is at most `share`. If even all
 * are too few, because spares are lost with their place: the number for independent losses. */
int64_t spot_serve_spares(const struct spot_serve_ask *ask, int64_t used, double share);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PLAN_SERVE_SERVE_LOSSES_H */
