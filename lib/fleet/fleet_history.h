/* SPDX-License-Identifier: MIT */
/* fleet_history.h - how a fleet went, for who looks at it: counts, money, availability, and what
 * was forecast of each zone beside what came. */
#ifndef SPOT_FLEET_FLEET_HISTORY_H
#define SPOT_FLEET_FLEET_HISTORY_H

#include "common/json_writer.h"
#include "fleet/controller.h"
#include "model/forecast_doc.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    SPOT_FLEET_POINTS = 1200, /* kept; then every second one goes */
    SPOT_FLEET_SERIES = 32,   /* of forecasts that are shown */
    SPOT_FLEET_AHEAD = 6,     /* steps ahead of the forecasts that are compared */
};

/* Sums of this life. */
struct spot_fleet_sums {
    double watched_s, served_s; /* served: as many ran as were wanted */
    double usd, on_demand_usd;
};

struct spot_fleet_history;

struct spot_fleet_history *spot_fleet_history_new(void);
void spot_fleet_history_free(struct spot_fleet_history *history); /* may be NULL */

/* A turn ended: what is held now counts until the next one. wanted: how many serve the load, < 0:
 * the target. forecast (NULL: none) is borrowed for the call; one of the time of the last one is
 * not taken anew. */
void spot_fleet_history_add(struct spot_fleet_history *history, const struct spot_fleet *fleet,
                            int64_t wanted, const struct spot_forecast *forecast);
struct spot_fleet_sums spot_fleet_history_sums(const struct spot_fleet_history *history);

/* Fields of an object: points, and series with what came, what had been forecast for it, and the
 * newest fan. */
void spot_fleet_history_write(const struct spot_fleet_history *history, struct spot_jw *jw);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_FLEET_FLEET_HISTORY_H */
