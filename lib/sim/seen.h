/* SPDX-License-Identifier: MIT */
/* seen.h - what spot-predict would write at a time of a trace, which sees the rows up to then and
 * nothing of later ones. */
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

/* Intervals of tick_s, and the horizon that spot-predict has unless it is told another, or
 * `horizon` where that is longer. For a job: `horizon`, and one series can come to what the job has
 * grids for (train_sim.h); of several none is known to. `trace` is borrowed; its series are in the
 * order of their zones, then types. Never NULL. */
struct spot_seen_trace *spot_seen_new(const struct spot_trace *trace, double tick_s, int horizon,
                                      const struct spot_job_doc *job);
/* For spot_seen_shocks_at alone. */
struct spot_seen_trace *spot_seen_new_shocks(const struct spot_trace *trace, double tick_s);
void spot_seen_free(struct spot_seen_trace *seen);

/* At time_s, never before the last one. `of` [series of the trace]: the trace's number of each
 * series of the forecast; those without a row so far are not in it. NULL: none has one. Borrowed
 * until the next call. */
const struct spot_forecast *spot_seen_at(struct spot_seen_trace *t, double time_s, size_t *of);

/* The same of what takes neighbours together: zone, type, `now` and `shock` of each series. */
const struct spot_forecast *spot_seen_shocks_at(struct spot_seen_trace *t, double time_s);

/* A trace of counts [n_tick][n_zone] from time 0 on, a row a tick, with its own copies; of types
 * `type` (NULL: none is told). Release it as one that was read. */
void spot_seen_counts(const int32_t *count, const char *const *zone, const char *const *type,
                      size_t n_zone, size_t n_tick, double tick_s, struct spot_trace *trace);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SIM_SEEN_H */
