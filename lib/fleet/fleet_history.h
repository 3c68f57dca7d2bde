/* SPDX-License-Identifier: MIT */
/* fleet_history.h - the history of a fleet for its page: counts, money, availability, and for each
 * zone the forecasts beside the actual counts. */
#ifndef SPOT_FLEET_FLEET_HISTORY_H
#define SPOT_FLEET_FLEET_HISTORY_H

#include "common/json_writer.h"
#include "fleet/controller.h"
#include "model/forecast_doc.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    SPOT_FLEET_POINTS = 1200, /* points kept; when full, every second one is dropped */
    SPOT_FLEET_SERIES = 32,   /* forecasts shown */
    SPOT_FLEET_AHEAD = 6,     /* steps ahead of the forecasts that are compared */
};

/* Sums since the start of this process. */
struct spot_fleet_sums {
    double watched_s, served_s; /* served: time with at least as many running as wanted */
    double usd, on_demand_usd;
};

struct spot_fleet_history;

struct spot_fleet_history *spot_fleet_history_new(void);
void spot_fleet_history_free(struct spot_fleet_history *history); /* may be NULL */

/* Add the state at the end of a turn; it counts until the next one. wanted: machines needed for the
 * load, < 0: the target. forecast (NULL: none) is borrowed for the call; one with the time of the
 * last one is ignored. */
void spot_fleet_history_add(struct spot_fleet_history *history, const struct spot_fleet *fleet,
                            int64_t wanted, const struct spot_forecast *forecast);
struct spot_fleet_sums spot_fleet_history_sums(const struct spot_fleet_history *history);

/* Write fields of an object: points, and series with actual counts, their earlier forecasts, and
 * the newest forecast. */
void spot_fleet_history_write(const struct spot_fleet_history *history, struct spot_jw *jw);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_FLEET_FLEET_HISTORY_H */
