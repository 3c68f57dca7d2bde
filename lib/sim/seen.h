/* SPDX-License-Identifier: MIT */
/* seen.h - the forecast that spot-predict would write at a time of a trace, from the rows up to
 * that time only. */
#ifndef SPOT_SIM_SEEN_H
#define SPOT_SIM_SEEN_H

#include <stddef.h>
#include <stdint.h>

#include "model/forecast_doc.h"
#include "model/job_doc.h"
#include "trace/trace.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_seen_trace;

/* Intervals of tick_s; the horizon is spot-predict's default, or `horizon` if that is longer. For a
 * job: exactly `horizon`, and a single series may grow up to the job's largest grid (train_sim.h).
 * `trace` is borrowed, with its series in the order of zones, then types. Never NULL. */
struct spot_seen_trace *spot_seen_new(const struct spot_trace *trace, double tick_s, int horizon,
                                      const struct spot_job_doc *job);
/* Only for spot_seen_shocks_at. */
struct spot_seen_trace *spot_seen_new_shocks(const struct spot_trace *trace, double tick_s);
void spot_seen_free(struct spot_seen_trace *seen);

/* The forecast at time_s, which must not decrease. of[]: the trace's index of each series of the
 * forecast; series without a row so far are left out. NULL if no series has a row. Borrowed until
 * the next call. */
const struct spot_forecast *spot_seen_at(struct spot_seen_trace *t, double time_s, size_t *of);

/* The same for joint losses only: zone, type, `now` and `shock` of each series. */
const struct spot_forecast *spot_seen_shocks_at(struct spot_seen_trace *t, double time_s);

/* Make a trace from counts [n_tick][n_zone], one row per tick from time 0 on, with copies of all
 * data; types `type` may be NULL. Release it like a trace that was read. */
void spot_seen_counts(const int32_t *count, const char *const *zone, const char *const *type,
                      size_t n_zone, size_t n_tick, double tick_s, struct spot_trace *trace);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SIM_SEEN_H */
