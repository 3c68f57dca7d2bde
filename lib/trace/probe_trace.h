/* SPDX-License-Identifier: MIT */
/* probe_trace.h - a cloud's answers to requests for instances, by zone and type. CSV
 * `time_s,zone,instance_type,asked,granted[,price_usd_per_h][,score]`: at that time `asked`
 * instances were requested (and returned at once, or only queried) and `granted` of them were
 * available. A row with 0 asked has only a price or a placement score (1..10); the zone of such a
 * row may be a region. Price and score may be empty. Rows may be in any order.
 */
#ifndef SPOT_TRACE_PROBE_TRACE_H
#define SPOT_TRACE_PROBE_TRACE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "common/err.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    SPOT_PROBE_SERIES_MAX = 4096,
    SPOT_PROBE_ROWS_MAX = 1 << 24,
    SPOT_PROBE_ASKED_MAX = 65535,
};

struct spot_probe {
    double time_s;          /* 0..SPOT_TRACE_TIME_MAX_S */
    int32_t asked, granted; /* 0 <= granted <= asked */
    double usd_per_h;       /* 0..1e9; NaN: not given */
    double score;           /* 0..100; NaN: not given */
};

struct spot_probe_series {
    char *zone, *instance_type; /* may be "" */
    struct spot_probe *row;     /* [n], by time; of one time as in the file */
    size_t n, cap;
};

struct spot_probe_trace {
    struct spot_probe_series *series; /* [n_series], n >= 1 each; by zone, then type */
    size_t n_series, cap_series;
    double end_s; /* time of the newest row of all series */
    uint64_t xxh3;
};

/* Read `in` to its end. Returns 0, or -1 with *err (SPOT_EDATA: place and what was expected; no
 * rows; more than the limits above). Release it either way. */
int spot_probe_trace_read(struct spot_probe_trace *trace, FILE *in, const char *source,
                          struct spot_err *err);
void spot_probe_trace_release(struct spot_probe_trace *trace);

/* The newest price at or before time_s; NaN: none. */
double spot_probe_usd_per_h(const struct spot_probe_series *series, double time_s);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TRACE_PROBE_TRACE_H */
