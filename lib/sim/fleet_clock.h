/* SPDX-License-Identifier: MIT */
/* fleet_clock.h - when a count can change.
 *
 * Most recorded counts come from probes, and are copied over the ticks between two of them: a count
 * of a trace probed every 3.24 ticks changes only with a probe. The clock of a region is a filter
 * over the phase of its probes for each of many periods, including that of one tick, which means no
 * clock; a period's weight is its likelihood over all regions. Phases drift.
 */
#ifndef SPOT_SIM_FLEET_CLOCK_H
#define SPOT_SIM_FLEET_CLOCK_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct spot_fleet_clock;

/* region [n_zone]: a number below n_zone, equal for zones of a region. */
struct spot_fleet_clock *spot_fleet_clock_new(const size_t *region, size_t n_zone);
void spot_fleet_clock_free(struct spot_fleet_clock *clock);

/* Observe a tick in which these zones changed. */
void spot_fleet_clock_step(struct spot_fleet_clock *clock, const bool *changed);

/* Forget phases; periods keep their weights. */
void spot_fleet_clock_restart(struct spot_fleet_clock *clock);

/* How many times as likely as in an average tick a zone is to change in the next one: mean 1. */
double spot_fleet_clock_next(const struct spot_fleet_clock *clock, size_t zone);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SIM_FLEET_CLOCK_H */
