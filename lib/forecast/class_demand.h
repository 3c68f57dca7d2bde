/* SPDX-License-Identifier: MIT */
/* class_demand.h - forecast of the workers that jobs of high priority will want, learned from those
 * that came and went.
 *
 * For each type of worker and hour the largest demand is known once the hour is over: a job wants
 * its workers from its arrival to its end, running or not, on the type where it is fastest; among
 * equally fast types it is divided by their counts. Forecast of the largest demand of the next h
 * hours: the demand now, plus the rise within h hours as it was after similar hours in the past.
 * Rises from the same hour of the day weigh most, those from three hours off nothing, and all weigh
 * less with age. A rise is a maximum over one past path, so the hours are forecast jointly. Before
 * there are enough similar hours, rises from all hours count a little. Our own method, of the
 * family of analogs (Lorenz 1969).
 */
#ifndef SPOT_FORECAST_CLASS_DEMAND_H
#define SPOT_FORECAST_CLASS_DEMAND_H

#include "model/share_demand.h"
#include "model/share_doc.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_class_demand;

/* All are borrowed. rate as of spot_share_rates; jobs by arrival. */
struct spot_class_demand *spot_class_demand_new(const struct spot_share_jobs *jobs,
                                                const struct spot_share_cluster *cluster,
                                                const double *rate);
void spot_class_demand_free(struct spot_class_demand *demand);

/* The forecast at now_s, a function of the jobs that arrived by then, and of ended_s [jobs->n],
 * when each ended (INFINITY: not yet). Valid until the next call; times may not go back. NULL:
 * nothing is known before the first whole hour after the first job of high priority. */
const struct spot_share_demand *spot_class_demand_at(struct spot_class_demand *demand,
                                                     const double *ended_s, double now_s);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_FORECAST_CLASS_DEMAND_H */
