/* SPDX-License-Identifier: MIT */
/* fleet_hazard.h - how likely a place in a zone is to be lost soon, learned from counts as they
 * arrive.
 *
 * A place is a zone and a level: level k of a zone exists while its count is above k. Its run ends
 * in a tick with a probability by the stage of its age (2^j ticks and more), with the average over
 * zones as the prior of each, and by the clock of its region (fleet_clock.h).
 */
#ifndef SPOT_SIM_FLEET_HAZARD_H
#define SPOT_SIM_FLEET_HAZARD_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct spot_fleet_hazard;

/* zone [n_zone]: names, for regions. */
struct spot_fleet_hazard *spot_fleet_hazard_new(const char *const *zone, size_t n_zone,
                                                size_t n_level);
void spot_fleet_hazard_free(struct spot_fleet_hazard *hazard);

/* Observe a tick, with room [n_zone]. */
void spot_fleet_hazard_step(struct spot_fleet_hazard *hazard, const int32_t *room);

/* Begin another trace: what was learned is kept, the current state is dropped. */
void spot_fleet_hazard_restart(struct spot_fleet_hazard *hazard);

/* P(a place that exists now still exists after this many ticks), at least one tick. */
double spot_fleet_hazard_lasts(const struct spot_fleet_hazard *hazard, size_t zone, size_t level,
                               size_t ticks);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SIM_FLEET_HAZARD_H */
