/* SPDX-License-Identifier: MIT */
/* count_grid.h - the series of a trace on an even grid, the input of models of counts. */
#ifndef SPOT_FORECAST_COUNT_GRID_H
#define SPOT_FORECAST_COUNT_GRID_H

#include <stdbool.h>
#include <stddef.h>

#include "common/err.h"
#include "trace/trace.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One series of a trace on an even grid that ends with its newest row. */
struct spot_count_grid {
    char *zone, *instance_type, *label;
    double start_s, interval_s;
    size_t n;
    bool is_open;      /* the newest row is between two grid points: it is point n - 1, at end_s */
    bool is_unsettled; /* rows that are still to come may change point n - 1 */
    double end_s;      /* time of point n - 1 if it is open */
    int newest,
        /* unclipped: the count at the newest row; the lowest count since the settled points */
        lowest;
    int *y; /* [n], 0..cap */
    int *lost,
        /* [n] in the interval that ends at i: net change plus turnover; 0 at the first point */
        *gained;
    int cap;
    bool has_cap;     /* the cap was given; else it is the observed maximum */
    size_t n_change;  /* intervals whose count differs from the previous one */
    size_t n_clipped; /* values that were above the cap */
};

struct spot_count_grids {
    size_t n;
    struct spot_count_grid *grid; /* [n], sorted by zone, then instance type */
};

struct spot_count_grid_ask {
    double interval_s;
    int cap;       /* 0: column `requested`, or the maximum */
    bool is_whole; /* whole intervals only */
    void (*warn)(const char *fmt, ...) SPOT_PRINTF(1, 2);
};

struct spot_trackeds;

/* Put every series on its grid. It begins with the first row of the series; unless is_whole, rows
 * after the last whole interval form a point of their own. Series in `known` (NULL: none) continue
 * from their newest value, even if the trace has no row of them. Returns 0, or -1 with *err and
 * nothing to release. */
int spot_count_grids_make(struct spot_count_grids *grids, const struct spot_count_grid_ask *ask,
                          const struct spot_trace *trace, const struct spot_trackeds *known,
                          struct spot_err *err);
void spot_count_grids_release(struct spot_count_grids *grids);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_FORECAST_COUNT_GRID_H */
