/* SPDX-License-Identifier: MIT */
/* price_trace.h - the history of instance prices by zone, type and market.
 *
 * CSV `time_s,zone,instance_type,market,price_usd_per_h` as written by `spot-replay import`;
 * without the column market all are spot prices. Rows may be in any order; of two rows of one
 * series at one time the later one counts. A price holds until the next row of its series.
 */
#ifndef SPOT_TRACE_PRICE_TRACE_H
#define SPOT_TRACE_PRICE_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "common/err.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_PRICE_SERIES_MAX = 4096, SPOT_PRICE_ROWS_MAX = 1 << 25 };

struct spot_price_at {
    double time_s, usd_per_h;
};

struct spot_price_series {
    char *zone, *instance_type;
    bool is_spot;
    struct spot_price_at *row; /* [n], time strictly ascending, 1e-9 <= usd_per_h <= 1e6 */
    size_t n, cap;
};

struct spot_price_trace {
    struct spot_price_series *series; /* [n_series], n >= 1 each; by zone, type, spot first */
    size_t n_series, cap_series;
    double end_s; /* time of the newest row of all series */
    uint64_t xxh3;
};

/* Read `in` to its end. Returns 0, or -1 with *err (SPOT_EDATA: place and what was expected; no
 * rows; more than the limits above). Release it either way. */
int spot_price_trace_read(struct spot_price_trace *trace, FILE *in, const char *source,
                          struct spot_err *err);
void spot_price_trace_release(struct spot_price_trace *trace);

/* Prices of a series on an even grid: y [*n], malloc'd, the price that holds at *start_s + i *
 * interval_s. The grid begins at the first row, or, with `ends_at_s` >= the last row, ends there.
 * Returns NULL if that would be more than n_max values. */
double *spot_price_grid(const struct spot_price_series *series, double interval_s, bool from_start,
                        double ends_at_s, size_t n_max, size_t *n, double *start_s);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TRACE_PRICE_TRACE_H */
