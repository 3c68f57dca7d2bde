/* SPDX-License-Identifier: MIT */
/* histogram.h - durations counted in buckets whose bounds double, from 0.25 ms to 131 s.
 *
 * Its size is constant, histograms of several servers can be added, and the form is Prometheus's.
 */
#ifndef SPOT_COMMON_HISTOGRAM_H
#define SPOT_COMMON_HISTOGRAM_H

#include <stdint.h>

#include "common/buf.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_HISTOGRAM_BUCKETS = 20 };

struct spot_histogram {                         /* all zeros: nothing was counted */
    uint64_t count[SPOT_HISTOGRAM_BUCKETS + 1]; /* the last one counts what is beyond all bounds */
    uint64_t n;
    double sum_s;
};

/* The largest time that bucket i counts, i < SPOT_HISTOGRAM_BUCKETS. */
double spot_histogram_bound_s(int i);
void spot_histogram_add(struct spot_histogram *h, double time_s);
/* Add the counts of another histogram. */
void spot_histogram_merge(struct spot_histogram *h, const struct spot_histogram *other);
/* The quantile q in (0, 1], interpolated linearly within its bucket, at most the last bound. 0 when
 * n is 0. */
double spot_histogram_quantile_s(const struct spot_histogram *h, double q);
/* In Prometheus's text format: NAME_bucket, NAME_sum, NAME_count, each with `label` (see metric.h),
 * which may be NULL. HELP and TYPE of NAME have been written before. */
void spot_histogram_put(const struct spot_histogram *h, const char *name, const char *label,
                        struct spot_buf *out);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_COMMON_HISTOGRAM_H */
