/* SPDX-License-Identifier: MIT */
/* load_stats.h - summary statistics of a load: rate, burstiness, lengths. */
#ifndef SPOT_TRACE_LOAD_STATS_H
#define SPOT_TRACE_LOAD_STATS_H

#include <stddef.h>
#include <stdint.h>

#include "trace/load_trace.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_LOAD_WIDTHS = 4, SPOT_LOAD_LAGS = 6 };

/* Arrivals counted in bins of one width, from the first request on, whole bins only. */
struct spot_load_counts {
    double bin_s;
    size_t n;          /* bins; if fewer than 2, the other fields are unknown */
    double dispersion; /* variance over mean: 1 for Poisson, 0 for regular arrivals */
    double peak_per_s; /* of the fullest bin */
    double autocorrelation[SPOT_LOAD_LAGS]; /* of counts in bins 1, 2, .. apart; NaN: unknown */
};

struct spot_load_lengths {
    double mean, cv;
    int32_t min, p50, p90, p99, max; /* nearest rank */
};

struct spot_load_stats {
    size_t n;
    double start_s, end_s;      /* first and last request */
    double rate_per_s;          /* (n - 1) / (end - start); NaN: one moment only */
    double gap_cv;              /* of the times between requests; NaN: not known */
    double gap_autocorrelation; /* of neighbouring gaps; NaN: not known */
    struct spot_load_counts counts[SPOT_LOAD_WIDTHS]; /* of 1, 10, 60 and 600 s */
    struct spot_load_lengths prompt, output;
    double length_correlation; /* Pearson's r of prompt and answer; NaN: one does not vary */
    double token_per_s;        /* of answers; NaN: as rate_per_s */
};

/* Cost: O(n log n) and a pass over bins of a second, at most 2^24 of them. */
void spot_load_stats(const struct spot_load *load, struct spot_load_stats *stats);

/* Arrivals from start_s on in n bins of bin_s. */
void spot_load_count(const struct spot_load *load, double start_s, double bin_s, size_t n,
                     double *count);

/* Lengths in ascending order; free() them. */
int32_t *spot_load_sorted(const int32_t *token, size_t n);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TRACE_LOAD_STATS_H */
