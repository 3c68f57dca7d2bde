/* SPDX-License-Identifier: MIT */
/* fleet_seen.h - what spot-predict says of the zones of a fleet after every tick of a trace. */
#ifndef SPOT_SIM_FLEET_SEEN_H
#define SPOT_SIM_FLEET_SEEN_H

#include <stddef.h>
#include <stdint.h>

#include "model/forecast_doc.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_fleet_seen;

/* Zones and types (NULL: none) [n_zone] are borrowed; forecasts of `horizon` ticks, 1.. */
struct spot_fleet_seen *spot_fleet_seen_new(const char *const *zone, const char *const *type,
                                            size_t n_zone, size_t n_tick, double tick_s,
                                            int horizon);
void spot_fleet_seen_free(struct spot_fleet_seen *seen);

/* Observe the next tick, with room [n_zone]. The forecast is valid until the next call. */
const struct spot_forecast *spot_fleet_seen_step(struct spot_fleet_seen *seen, const int32_t *room);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SIM_FLEET_SEEN_H */
