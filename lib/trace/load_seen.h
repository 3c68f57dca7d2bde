/* SPDX-License-Identifier: MIT */
/* load_seen.h - a server's knowledge of its arrivals at a moment, from a load. */
#ifndef SPOT_TRACE_LOAD_SEEN_H
#define SPOT_TRACE_LOAD_SEEN_H

#include <stddef.h>

#include "model/job_serve.h"
#include "trace/load_trace.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Number of requests with from_s < time_s <= to_s. Cost: two binary searches. */
size_t spot_load_arrivals(const struct spot_load *load, double from_s, double to_s);

/* Requests per second over the last window_s up to now_s, or over the time since start_s if that is
 * shorter; 0 at start_s itself. */
double spot_load_rate_seen(const struct spot_load *load, double start_s, double now_s,
                           double window_s);

/* Variance over mean of arrivals per minute, from from_s to to_s, at most an hour, shrunk towards 1
 * as by five more minutes. */
double spot_load_dispersion_seen(const struct spot_load *load, double from_s, double to_s);

/* The lengths of the latest requests, at most `most`, in order, whose answers may have ended by
 * now_s: the length of an answer is known only at its end, which is not before the profile's time
 * for a request alone. cached_token[n]: tokens of each prompt found in a cache; may be NULL.
 * Returns their number.
 */
size_t spot_load_lengths_seen(const struct spot_job_serve *serve, const struct spot_load *load,
                              const int32_t *cached_token, double now_s, size_t most,
                              struct spot_serve_length *length);

/* Check that cache hits can be counted with this load and profile. Returns 0, or -1 with *err
 * (SPOT_EDATA): no blocks in the load, no times of other lengths in the profile. */
int spot_load_check_cache(const struct spot_job_serve *serve, const struct spot_load *load,
                          const char *source, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TRACE_LOAD_SEEN_H */
