/* SPDX-License-Identifier: MIT */
/* trace_stats.h - summary statistics of a trace.
 *
 * Counts are weighted by the time they held. A series holds from its first row to the end of the
 * whole trace.
 */
#ifndef SPOT_TRACE_TRACE_STATS_H
#define SPOT_TRACE_TRACE_STATS_H

#include <stddef.h>
#include <stdint.h>

#include "trace/trace.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Changes in one direction; sizes in machines, NaN without events. */
struct spot_trace_moves {
    size_t n;
    int64_t machines;
    double per_h, size_mean, size_p50, size_p90, size_max;
};

struct spot_trace_stats {
    size_t n_row;
    double start_s, end_s, interval_s;
    double mean; /* machines, over time */
    int32_t min, max;
    double there_share; /* of time with at least one machine */
    struct spot_trace_moves lost, gained;
    double lost_per_machine_h; /* machines lost per machine-hour; NaN if there were none */
    size_t n_run;              /* periods without change between two changes */
    double run_mean_s, run_median_s, run_max_s, run_cv; /* NaN if there are none */
    double price_mean_usd_per_h; /* over the time for which it is known, else NaN */
};

/* end_s is the end of the whole trace, at or after the last row. Cost O(n log n). */
void spot_trace_stats(const struct spot_trace_series *series, double end_s,
                      struct spot_trace_stats *stats);

/* Pearson's correlation of two series over the time that both cover, weighted by time; NaN if one
 * of them never changes there. Cost O(rows of both). */
double spot_trace_correlation(const struct spot_trace_series *a, const struct spot_trace_series *b,
                              double end_s);

/* Time that all series cover together, and the share of it with no machine in any. */
struct spot_trace_together {
    double start_s, end_s;
    double none_share;          /* of that time */
    double none_if_independent; /* product of the series' own shares */
};
void spot_trace_together(const struct spot_trace *trace, struct spot_trace_together *together);

/* Means over n equal slices of [start_s, end_s) for a trend line; 0 before the first row. */
void spot_trace_slices(const struct spot_trace_series *series, double start_s, double end_s,
                       size_t n, double *mean);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TRACE_TRACE_STATS_H */
