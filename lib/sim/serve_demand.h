/* SPDX-License-Identifier: MIT */
/* serve_demand.h - what a server that watches its arrivals knows of them at a moment. */
#ifndef SPOT_SIM_SERVE_DEMAND_H
#define SPOT_SIM_SERVE_DEMAND_H

#include <stddef.h>

#include "trace/load_trace.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Requests of from_s < time_s <= to_s. Cost: two binary searches. */
size_t spot_serve_arrivals(const struct spot_load *load, double from_s, double to_s);

/* Requests per second of the last window_s up to now_s, or of the time since start_s if that is
 * shorter; 0 at start_s itself. */
double spot_serve_rate_seen(const struct spot_load *load, double start_s, double now_s,
                            double window_s);

/* Variance over mean of arrivals in minutes, of from_s to to_s, an hour of them at most, drawn to 1
 * by five more. */
double spot_serve_dispersion_seen(const struct spot_load *load, double from_s, double to_s);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SIM_SERVE_DEMAND_H */
